"""The gate under any interleaving of requests: overlapping, cancelled, good, bad, slow."""

from __future__ import annotations

import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from decoding.gate import Decision, GateBook, GateEvent, GateReason, GateRules, GateState, RequestOutcome

RULES = GateRules(
    window_requests=6,
    consecutive=2,
    threshold_evidence=10,
    floor_evidence=15,
    timing_evidence=20,
    plain_every=5,
    probe_every=3,
    good_probes=2,
)
KEYS = (("python", "lookup"), ("haskell", "lookup"), ("python", "ngram"))
FALLS = {GateReason.LOW_RATE, GateReason.BELOW_FLOOR, GateReason.SLOWER_THAN_PLAIN}


class GateMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.book = GateBook(RULES, limit=len(KEYS))
        self.events: dict[tuple[str, str], list[GateEvent]] = {key: [] for key in KEYS}
        self.flight: list[tuple[tuple[str, str], Decision]] = []

    @rule(key=st.sampled_from(KEYS))
    def decide(self, key: tuple[str, str]) -> None:
        gate = self.book.gate(*key)
        decision = gate.decide()
        assert not decision.probe or decision.speculate
        assert decision.probe <= (gate.state is not GateState.SPECULATING)
        assert decision.speculate <= (decision.probe or gate.state is GateState.SPECULATING)
        self.flight.append((key, decision))

    @precondition(lambda self: self.flight)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.flight.pop(data.draw(st.integers(0, len(self.flight) - 1)))

    @precondition(lambda self: self.flight)
    @rule(data=st.data(), judged=st.integers(0, 30), slowness=st.sampled_from([50, 100, 200]))
    def record(self, data: st.DataObject, judged: int, slowness: int) -> None:
        key, decision = self.flight.pop(data.draw(st.integers(0, len(self.flight) - 1)))
        accepted = data.draw(st.integers(0, judged))
        if not decision.speculate:
            outcome = RequestOutcome(speculated=False, plain_us=1000, plain_tokens=10)
        else:
            outcome = RequestOutcome(
                speculated=True,
                probe=decision.probe,
                drafted=judged,
                judged=judged,
                accepted=accepted,
                speculative_us=slowness * judged,
                speculative_tokens=judged,
            )
        others = {other: self.book.gate(*other).state for other in KEYS if other != key}
        happened = self.book.gate(*key).record(outcome)
        assert len(happened) <= 1
        assert decision.speculate or not happened
        assert judged or not happened
        self.events[key].extend(happened)
        assert others == {other: self.book.gate(*other).state for other in others}

    @rule(key=st.sampled_from(KEYS))
    def good_probes_recover(self, key: tuple[str, str]) -> None:
        gate = self.book.gate(*key)
        good = RequestOutcome(
            speculated=True, probe=True, drafted=10, judged=10, accepted=10, speculative_us=1, speculative_tokens=100
        )
        # One slow probe may still weigh on the first fast one; not on the next.
        for _ in range(RULES.probe_every * (RULES.good_probes + 1)):
            if gate.state is GateState.SPECULATING:
                break
            if gate.decide().probe:
                self.events[key].extend(gate.record(good))
        assert gate.state is GateState.SPECULATING

    @invariant()
    def events_chain_from_before_to_after(self) -> None:
        for key, events in self.events.items():
            states = [GateState.SPECULATING, *(event.after for event in events)]
            assert states[-1] is self.book.gate(*key).state
            for event, (before, after) in zip(events, itertools.pairwise(states), strict=True):
                assert (event.language, event.drafter) == key
                assert (event.before, event.after) == (before, after)
                assert (before is GateState.SPECULATING) == (event.reason in FALLS)
                assert (after is GateState.SPECULATING) == (event.reason is GateReason.RECOVERED)
                assert event.rate is None or 0 <= event.rate <= 1

    @invariant()
    def every_fall_has_its_figures(self) -> None:
        for event in itertools.chain.from_iterable(self.events.values()):
            if event.reason in (GateReason.LOW_RATE, GateReason.BELOW_FLOOR):
                assert event.rate is not None
                assert event.rate < (RULES.threshold if event.reason is GateReason.LOW_RATE else RULES.floor)
                assert event.judged >= RULES.threshold_evidence
            if event.reason is GateReason.SLOWER_THAN_PLAIN:
                assert event.speculative_us_per_token is not None
                assert event.plain_us_per_token is not None
                assert event.speculative_us_per_token > RULES.slower_margin * event.plain_us_per_token

    @invariant()
    def memory_is_bounded(self) -> None:
        for gate in self.book.gates():
            for tally in (gate._acceptance, gate._speculative, gate._plain):
                assert len(tally) <= RULES.window_requests


TestGateMachine = GateMachine.TestCase
TestGateMachine.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
