"""A gate with small numbers, and outcomes to feed it."""

from __future__ import annotations

from decoding.gate import Gate, GateEvent, GateRules, GateState, RequestOutcome

# Small numbers; no floor, and no clock unless a test sets one.
RULES = GateRules(
    window_requests=10,
    threshold=0.70,
    consecutive=3,
    threshold_evidence=20,
    floor=0.0,
    floor_evidence=20,
    timing_evidence=30,
    probe_every=4,
    good_probes=2,
)


def gate(rules: GateRules = RULES) -> Gate:
    return Gate("python", "lookup", rules)


def judged(accepted: int, of: int = 10, *, probe: bool = False) -> RequestOutcome:
    return RequestOutcome(speculated=True, probe=probe, drafted=of, judged=of, accepted=accepted, emitted=accepted + 1)


def timed(us_per_token: int, *, tokens: int = 10, accepted: int = 10, probe: bool = False) -> RequestOutcome:
    return RequestOutcome(
        speculated=True,
        probe=probe,
        drafted=10,
        judged=10,
        accepted=accepted,
        speculative_us=us_per_token * tokens,
        speculative_tokens=tokens,
    )


def plain(us_per_token: int, tokens: int = 10) -> RequestOutcome:
    return RequestOutcome(speculated=False, plain_us=us_per_token * tokens, plain_tokens=tokens)


def feed(subject: Gate, *outcomes: RequestOutcome) -> list[GateEvent]:
    return [event for outcome in outcomes for event in subject.record(outcome)]


def fallen(rules: GateRules = RULES) -> Gate:
    subject = gate(rules)
    assert feed(subject, *[judged(0)] * 9)
    assert subject.state is GateState.FALLEN_BACK
    return subject
