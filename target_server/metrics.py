"""The target's numbers: the one place that counts, for Prometheus and for the page. Knows nothing of HTTP or gRPC.

The rule of counting: every request counts once, when it is settled, just before its last answer is sent. Its tokens and
steps are those of its own Finished; where it never got one (an error, a cancel, a deadline), they are the sums of the
verdicts that the engine had returned by then. Times go into the histograms only where a sequence was opened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from decoding.verdict import FinishReason, Statistics

OTHER = "other"
NONE = "none"
RECENT_REQUESTS = 256  # of each (language, drafter), for the page's medians
RECENT_TRANSITIONS = 32

FIRST_TOKEN_SECONDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0)
TOKEN_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0)
REQUEST_SECONDS = (0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0)
TOKEN_COUNTS = ("prompt", "cached", "drafted", "judged", "accepted", "emitted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What one request came to.

    reason: why its sequence ended; None where it ended in an error.
    status: name of its gRPC status, such as "OK" or "CANCELLED".
    opened: whether it ever had a sequence.
    queue_us, first_token_us, total_us: microseconds, as in Finished; first_token_us is 0 where no token came.
    """

    method: str
    request_id: str
    language: str
    drafter: str
    reason: FinishReason | None
    status: str
    opened: bool
    statistics: Statistics
    queue_us: int
    first_token_us: int
    total_us: int

    @property
    def token_us(self) -> float | None:
        """Mean microseconds of a token after the first; None under two tokens."""
        later = self.statistics.emitted_tokens - 1
        return (self.total_us - self.first_token_us) / later if later > 0 and self.first_token_us else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A gate's transition. `side` is "server" or "client"; `at` is in seconds since the epoch."""

    at: float
    side: str
    language: str
    drafter: str
    before: str
    after: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """One recent request's times, microseconds; None where it had too few tokens."""

    first_token_us: int | None
    token_us: float | None


class Metrics:
    """Instruments in a registry of their own. What a client may invent never becomes a label: it is "other".

    languages, states, reasons: the values that labels may have; drafters come with `admit_drafters`.
    """

    def __init__(self, *, languages: Collection[str], states: Collection[str], reasons: Collection[str]) -> None:
        self.registry = CollectorRegistry()
        self._languages = frozenset(languages)
        self._drafters: frozenset[str] = frozenset()
        self._states = tuple(states)
        self._reasons = frozenset(reasons)
        self._recent: dict[tuple[str, str], deque[Latency]] = {}
        self._transitions: deque[Moved] = deque(maxlen=RECENT_TRANSITIONS)

        by = ("language", "drafter")

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"slipstream_{name}", text, by, buckets=buckets, registry=self.registry)

        def counter(name: str, text: str, labels: tuple[str, ...] = by) -> Counter:
            return Counter(f"slipstream_{name}", text, labels, registry=self.registry)

        def gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
            return Gauge(f"slipstream_{name}", text, labels, registry=self.registry)

        self._first_token = histogram(
            "time_to_first_token_seconds", "From the open message to the first token.", FIRST_TOKEN_SECONDS
        )
        self._token = histogram(
            "time_per_token_seconds", "Mean of a request's tokens after the first; one observation a request.",
            TOKEN_SECONDS,
        )  # fmt: skip
        self._request = histogram("request_seconds", "From the open message to the end.", REQUEST_SECONDS)
        self._tokens = {
            "prompt": counter("prompt_tokens", "Tokens of prompts."),
            "cached": counter("cached_tokens", "Tokens of prompts that were taken from the cache."),
            "drafted": counter("drafted_tokens", "Tokens that drafts held."),
            "judged": counter("judged_tokens", "Drafted tokens judged: accepted, and each draft's first rejected."),
            "accepted": counter("accepted_tokens", "Drafted tokens that equal the target's own."),
            "emitted": counter("emitted_tokens", "Tokens of outputs."),
        }
        self._steps = counter("verify_steps", "Forward passes that decoded, prefill not counted.")
        self._prefixes = counter(
            "prefix_lookups", "Requests by whether the cache held their beginning.", (*by, "outcome")
        )
        self._requests = counter("requests", 'Requests by finish reason; "error" where none.', (*by, "reason"))
        self._errors = counter("errors", "Requests that ended in another gRPC status than OK.", (*by, "status"))
        self._gate = gauge("gate_state", "1 for the state that the gate is in.", (*by, "side", "state"))
        self._moves = counter("gate_transitions", "Transitions of gates.", (*by, "side", "to", "reason"))
        self._sessions = gauge("open_sessions", "Sequences open now.")

    def admit_drafters(self, names: Collection[str]) -> None:
        """Let these names be values of the label `drafter`, once the model has loaded and they are known."""
        self._drafters = frozenset(names)

    def labels(self, language: str, drafter: str) -> tuple[str, str]:
        """The bounded values of the labels `language` and `drafter`."""
        known = drafter if drafter in self._drafters else OTHER
        return language if language in self._languages else OTHER, known if drafter else NONE

    def session_opened(self) -> None:
        self._sessions.inc()

    def session_closed(self) -> None:
        self._sessions.dec()

    def settle(self, settled: Settled) -> None:
        """Count one request, once."""
        labels = self.labels(settled.language, settled.drafter)
        self._requests.labels(*labels, settled.reason or "error").inc()
        if settled.status != "OK":
            self._errors.labels(*labels, settled.status).inc()
        if not settled.opened:
            return
        statistics = settled.statistics
        for name, counter in self._tokens.items():
            counter.labels(*labels).inc(getattr(statistics, f"{name}_tokens"))
        self._prefixes.labels(*labels, "hit" if statistics.cached_tokens else "miss").inc()
        self._steps.labels(*labels).inc(statistics.verify_steps)
        self._request.labels(*labels).observe(settled.total_us / 1e6)
        if settled.first_token_us:
            self._first_token.labels(*labels).observe(settled.first_token_us / 1e6)
        if settled.token_us is not None:
            self._token.labels(*labels).observe(settled.token_us / 1e6)
        latency = Latency(first_token_us=settled.first_token_us or None, token_us=settled.token_us)
        self._recent.setdefault(labels, deque(maxlen=RECENT_REQUESTS)).append(latency)

    def gate_state(self, language: str, drafter: str, *, side: str, state: str) -> None:
        """Set which state the gate of (language, drafter) is in, at this server or, as last reported, at a client."""
        labels = self.labels(language, drafter)
        if state not in self._states:
            return
        for each in self._states:
            self._gate.labels(*labels, side, each).set(each == state)

    def gate_moved(self, moved: Moved) -> None:
        """Count a transition and remember it for the page."""
        language, drafter = self.labels(moved.language, moved.drafter)
        if moved.before not in self._states or moved.after not in self._states:
            return
        reason = moved.reason if moved.reason in self._reasons else OTHER
        self._moves.labels(language, drafter, moved.side, moved.after, reason).inc()
        self._transitions.append(
            Moved(
                at=moved.at, side=moved.side, language=language, drafter=drafter,
                before=moved.before, after=moved.after, reason=reason,
            )
        )  # fmt: skip

    def recent(self) -> Mapping[tuple[str, str], Collection[Latency]]:
        """The last requests' times by (language, drafter), oldest first."""
        return self._recent

    def transitions(self) -> tuple[Moved, ...]:
        """The last transitions, newest first."""
        return tuple(reversed(self._transitions))

    def samples(self) -> Iterator[tuple[str, Mapping[str, str], float]]:
        """Every sample of the registry: name, labels, value."""
        for family in self.registry.collect():
            for sample in family.samples:
                yield sample.name, sample.labels, sample.value
