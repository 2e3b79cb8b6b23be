"""Records of drafters, with a past that tests choose, and verdicts for them."""

from __future__ import annotations

from collections.abc import Sequence

from decoding.draft_length import DraftLength
from decoding.drafter_record import DrafterRecord
from decoding.drafting import Draft
from decoding.rules import LengthRules
from decoding.timings import Timings
from decoding.verdict import Verdict


def record(
    *, steps: Sequence[tuple[int, int]] = (), trip_us: int = 0, rules: LengthRules | None = None
) -> DrafterRecord:
    """steps: (rows, microseconds) that were measured."""
    rules = rules or LengthRules()
    timings = Timings(samples=rules.samples, step_us=rules.step_us)
    for rows, us in steps:
        timings.add_step(rows, us)
    if trip_us:
        timings.add_round_trip(trip_us)
    return DrafterRecord(timings, rules)


def draft_of(confidences: Sequence[float]) -> Draft:
    return Draft(
        position=3,
        tokens=tuple(range(1, len(confidences) + 1)),
        confidences=tuple(confidences),
        sources=("toy",) * len(confidences),
        sampling_fingerprint="",
    )


def verdict_on(drafted: int, accepted: int, *, queue_us: int = 0, verify_us: int = 0) -> Verdict:
    return Verdict(
        position=3,
        drafted=drafted,
        judged=min(accepted + 1, drafted),
        accepted=accepted,
        tokens=(1,) * (accepted + 1),
        log_probabilities=(0.0,) * (accepted + 1),
        queue_us=queue_us,
        verify_us=verify_us,
    )


def go_round(length: DraftLength, confidences: Sequence[float], accepted: int, *, limit: int = 7) -> Draft:
    """A whole round without times: what of a draft was sent; of it, `accepted` tokens at most are taken."""
    sent = length.cut(draft_of(confidences[:limit]), limit=limit, draft_us=10)
    count = len(sent.tokens)
    length.judged(verdict_on(count, min(accepted, count)), wait_us=0, answered=True, timed=True)
    return sent
