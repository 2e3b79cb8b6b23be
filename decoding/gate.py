"""The gate: whether a language's drafter still pays, decided request by request on pooled counts and measured time.

    SPECULATING ──low_rate, below_floor, slower_than_plain──> FALLEN_BACK
    FALLEN_BACK ──probe_good──> PROBING ──probe_good…recovered──> SPECULATING
    PROBING, FALLEN_BACK ──probe_bad──> FALLEN_BACK

The state of one (language, drafter) lives in its `Gate` and nowhere else; it is bounded by `window_requests`. Requests
overlap: `decide` and `record` may interleave in any order, and a decision that is never recorded blocks nothing. Not
for use from several threads. A gate knows nothing of tokens, sessions or transports.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum

from decoding.errors import InvalidSetting
from decoding.rules import GateRules
from decoding.tally import Tally

__all__ = [
    "Decision",
    "Gate",
    "GateBook",
    "GateEvent",
    "GateReason",
    "GateRules",
    "GateState",
    "RequestOutcome",
]


class GateState(StrEnum):
    SPECULATING = "speculating"
    FALLEN_BACK = "fallen_back"
    PROBING = "probing"  # fallen back, and the latest probe was good


class GateReason(StrEnum):
    LOW_RATE = "low_rate"
    BELOW_FLOOR = "below_floor"
    SLOWER_THAN_PLAIN = "slower_than_plain"
    PROBE_GOOD = "probe_good"
    PROBE_BAD = "probe_bad"
    RECOVERED = "recovered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a request may do. `probe` belongs into its outcome."""

    speculate: bool
    probe: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOutcome:
    """What one request came to, finished or not. Counts are tokens; times are microseconds as the request saw them.

    speculative_us, speculative_tokens: of rounds that held a draft, and of all drafting.
    plain_us, plain_tokens: of rounds without a draft, as plain decoding would have had them.
    """

    speculated: bool
    probe: bool = False
    drafted: int = 0
    judged: int = 0
    accepted: int = 0
    emitted: int = 0
    speculative_us: int = 0
    speculative_tokens: int = 0
    plain_us: int = 0
    plain_tokens: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.accepted <= self.judged <= self.drafted:
            raise InvalidSetting(
                "outcome",
                f"needs 0 <= accepted <= judged <= drafted, got {self.accepted}, {self.judged}, {self.drafted}",
            )
        for field in ("emitted", "speculative_us", "speculative_tokens", "plain_us", "plain_tokens"):
            if getattr(self, field) < 0:
                raise InvalidSetting(f"outcome.{field}", f"must be 0 or more, got {getattr(self, field)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GateEvent:
    """One change of a gate, or one probe that left it as it was, with the figures that caused it.

    rate, judged: the rate that was weighed, and the tokens judged under it.
    speculative_us_per_token, plain_us_per_token: measured times, None where nothing was timed.
    """

    language: str
    drafter: str
    before: GateState
    after: GateState
    reason: GateReason
    rate: float | None
    judged: int
    speculative_us_per_token: float | None
    plain_us_per_token: float | None


class Gate:
    """Decides for one (language, drafter)."""

    def __init__(self, language: str, drafter: str, rules: GateRules) -> None:
        self.language = language
        self.drafter = drafter
        self.state = GateState.SPECULATING
        self._rules = rules
        self._acceptance = Tally(rules.window_requests)
        self._speculative = Tally(rules.window_requests)
        self._plain = Tally(rules.window_requests)
        self._low_streak = 0
        self._untimed = 0
        self._since_probe = 0
        self._good_probes = 0

    @property
    def rate(self) -> float | None:
        """Pooled accepted / judged over the window since the last change of sides; None where nothing was judged."""
        return self._acceptance.ratio

    def decide(self) -> Decision:
        """What the next request may do."""
        rules = self._rules
        if self.state is GateState.SPECULATING:
            if rules.plain_every and self._untimed >= rules.plain_every:
                self._untimed = 0
                return Decision(speculate=False)
            self._untimed += 1
            return Decision(speculate=True)
        self._since_probe += 1
        if self._since_probe < rules.probe_every:
            return Decision(speculate=False)
        self._since_probe = 0
        return Decision(speculate=True, probe=True)

    def record(self, outcome: RequestOutcome) -> tuple[GateEvent, ...]:
        """Take in a request's outcome, cut short or not; the events it caused."""
        if outcome.plain_tokens:
            self._plain.add(outcome.plain_us, outcome.plain_tokens)
            self._untimed = 0
        if not outcome.speculated:
            return ()
        if self.state is GateState.SPECULATING:
            return self._watch(outcome)
        if outcome.probe and not outcome.emitted:
            self._since_probe = self._rules.probe_every  # stopped before it could show anything: the next one probes
        # What else speculated was decided before the fallback: its evidence has been acted upon.
        return self._weigh(outcome) if outcome.probe and outcome.judged else ()

    def _watch(self, outcome: RequestOutcome) -> tuple[GateEvent, ...]:
        rules = self._rules
        timed = outcome.speculative_us > 0 or outcome.speculative_tokens > 0
        if timed:
            self._speculative.add(outcome.speculative_us, outcome.speculative_tokens)
        if outcome.judged:
            window = self._acceptance
            window.add(outcome.accepted, outcome.judged)
            low = window.whole >= rules.threshold_evidence and window.part / window.whole < rules.threshold
            self._low_streak = self._low_streak + 1 if low else 0
            recent = window.latest(rules.floor_evidence)
            if recent and recent[0] / recent[1] < rules.floor:
                return self._change(GateState.FALLEN_BACK, GateReason.BELOW_FLOOR, *recent)
            if self._low_streak >= rules.consecutive:
                return self._change(GateState.FALLEN_BACK, GateReason.LOW_RATE, window.part, window.whole)
        if timed and self._slower(rules.timing_evidence):
            return self._change(
                GateState.FALLEN_BACK, GateReason.SLOWER_THAN_PLAIN, self._acceptance.part, self._acceptance.whole
            )
        return ()

    def _weigh(self, probe: RequestOutcome) -> tuple[GateEvent, ...]:
        self._speculative.add(probe.speculative_us, probe.speculative_tokens)
        counts = (probe.accepted, probe.judged)
        if probe.accepted / probe.judged < self._rules.threshold or self._slower(1):
            return self._change(GateState.FALLEN_BACK, GateReason.PROBE_BAD, *counts)
        self._good_probes += 1
        if self._good_probes < self._rules.good_probes:
            return self._change(GateState.PROBING, GateReason.PROBE_GOOD, *counts)
        return self._change(GateState.SPECULATING, GateReason.RECOVERED, *counts)

    def _slower(self, evidence: int) -> bool:
        speculative, plain = self._speculative, self._plain
        if speculative.whole < evidence or plain.whole < self._rules.timing_evidence:
            return False
        return speculative.part / speculative.whole > self._rules.slower_margin * plain.part / plain.whole

    def _change(self, after: GateState, reason: GateReason, accepted: int, judged: int) -> tuple[GateEvent, ...]:
        event = GateEvent(
            language=self.language,
            drafter=self.drafter,
            before=self.state,
            after=after,
            reason=reason,
            rate=accepted / judged if judged else None,
            judged=judged,
            speculative_us_per_token=self._speculative.ratio,
            plain_us_per_token=self._plain.ratio,
        )
        self.state = after
        if after is not GateState.PROBING:
            # A fresh history on either side; plain's times stay, since they are the target's and not the drafter's.
            self._acceptance.clear()
            self._speculative.clear()
            self._low_streak = self._good_probes = 0
            if event.before is GateState.SPECULATING:
                self._since_probe = 0
        return (event,)


class GateBook:
    """The gates in use, at most `limit`; the one unused for longest makes room and would start afresh."""

    def __init__(self, rules: GateRules, limit: int = 256) -> None:
        if limit < 1:
            raise InvalidSetting("gate.limit", f"must be 1 or more gates, got {limit}")
        self._rules = rules
        self._limit = limit
        self._gates: OrderedDict[tuple[str, str], Gate] = OrderedDict()

    def gate(self, language: str, drafter: str) -> Gate:
        key = (language, drafter)
        gate = self._gates.get(key)
        if gate is None:
            if len(self._gates) == self._limit:
                self._gates.popitem(last=False)
            gate = self._gates[key] = Gate(language, drafter, self._rules)
        self._gates.move_to_end(key)
        return gate

    def gates(self) -> tuple[Gate, ...]:
        """All of them, the longest unused first."""
        return tuple(self._gates.values())
