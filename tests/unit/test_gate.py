"""Each rule of the gate, and each transition."""

from __future__ import annotations

import pytest

from decoding.errors import InvalidSetting
from decoding.gate import (
    Decision,
    Gate,
    GateBook,
    GateEvent,
    GateReason,
    GateRules,
    GateState,
    RequestOutcome,
)
from decoding.rules import GuardRules

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


def test_a_new_gate_speculates() -> None:
    assert gate().decide() == Decision(speculate=True)
    assert gate().state is GateState.SPECULATING
    assert gate().rate is None


# low_rate


def test_a_window_under_the_threshold_for_consecutive_requests_falls_back() -> None:
    subject = gate()
    assert feed(subject, judged(6), judged(6), judged(6)) == []  # the first lacks evidence
    (event,) = subject.record(judged(6))
    assert event == GateEvent(
        language="python",
        drafter="lookup",
        before=GateState.SPECULATING,
        after=GateState.FALLEN_BACK,
        reason=GateReason.LOW_RATE,
        rate=0.6,
        judged=40,
        speculative_us_per_token=None,
        plain_us_per_token=None,
    )
    assert subject.decide() == Decision(speculate=False)


def test_one_request_at_the_threshold_starts_the_count_again() -> None:
    subject = gate()
    assert feed(subject, judged(6), judged(6), judged(6)) == []
    assert feed(subject, judged(10)) == []  # 28 of 40: at 0.70 again
    assert feed(subject, judged(4), judged(4)) == []
    assert [event.reason for event in feed(subject, judged(4))] == [GateReason.LOW_RATE]


def test_counts_are_pooled_not_averaged() -> None:
    subject = gate()
    # A mean of ratios would be 0.5; pooled it is 101 of 111.
    assert feed(subject, *[judged(0, 1), judged(100, 110)] * 5) == []
    assert subject.rate == pytest.approx(500 / 555)


def test_the_window_forgets() -> None:
    subject = gate()
    feed(subject, *[judged(10)] * 10)
    feed(subject, *[judged(8)] * 10)
    assert subject.rate == 0.8


def test_requests_that_judged_nothing_count_in_neither() -> None:
    subject = gate()
    nothing = RequestOutcome(speculated=True, emitted=5)
    feed(subject, judged(6), judged(6), judged(6))
    assert feed(subject, *[nothing] * 30) == []
    assert subject.rate == 0.6
    assert [event.reason for event in feed(subject, judged(6))] == [GateReason.LOW_RATE]


# below_floor


def test_a_collapse_that_the_window_hides_falls_back_at_once() -> None:
    rules = GateRules()
    subject = gate(rules)
    feed(subject, *[judged(18, 20)] * 100)
    events = feed(subject, *[judged(4, 20)] * 5)
    assert [event.reason for event in events] == [GateReason.BELOW_FLOOR]
    # The latest five hold the evidence: two of the old, three of the new.
    assert events[0].judged == 100
    assert events[0].rate == pytest.approx((2 * 18 + 3 * 4) / 100)
    assert subject.state is GateState.FALLEN_BACK


def test_the_floor_needs_its_evidence() -> None:
    subject = gate(GateRules(consecutive=1000))
    assert feed(subject, *[judged(0, 9)] * 11) == []
    assert [event.reason for event in feed(subject, judged(0, 9))] == [GateReason.BELOW_FLOOR]


# slower_than_plain


def test_slower_than_plain_falls_back_however_much_is_accepted() -> None:
    subject = gate()
    assert feed(subject, plain(100), plain(100), timed(106), timed(106)) == []
    assert feed(subject, plain(100)) == []  # enough on this side, not on the other
    (event,) = subject.record(timed(106))
    assert event.reason is GateReason.SLOWER_THAN_PLAIN
    assert event.rate == 1.0
    assert event.speculative_us_per_token == 106
    assert event.plain_us_per_token == 100


def test_within_the_margin_is_not_slower() -> None:
    assert feed(gate(), *[plain(100)] * 5, *[timed(105)] * 9) == []


def test_undrafted_rounds_of_speculating_requests_are_plain_time_too() -> None:
    subject = gate()
    mixed = RequestOutcome(
        speculated=True,
        drafted=10,
        judged=10,
        accepted=10,
        speculative_us=2000,
        speculative_tokens=10,
        plain_us=1000,
        plain_tokens=10,
    )
    assert [event.reason for event in feed(subject, mixed, mixed, mixed)] == [GateReason.SLOWER_THAN_PLAIN]


def test_drafting_that_came_to_nothing_is_speculations_time() -> None:
    subject = gate()
    idle = RequestOutcome(speculated=True, speculative_us=1500, plain_us=1000, plain_tokens=10)
    events = feed(subject, idle, timed(50), timed(50), timed(50), idle, idle)
    assert [event.reason for event in events] == [GateReason.SLOWER_THAN_PLAIN]
    assert events[0].speculative_us_per_token == 200


def test_a_plain_request_now_and_then_gives_time_a_comparison() -> None:
    subject = gate(GateRules(plain_every=3))
    assert [subject.decide().speculate for _ in range(8)] == [True] * 3 + [False] + [True] * 3 + [False]
    subject.record(plain(100))
    assert [subject.decide().speculate for _ in range(4)] == [True] * 3 + [False]
    off = gate(GateRules(plain_every=0))
    assert all(off.decide().speculate for _ in range(500))


# probes


def test_one_request_in_probe_every_is_a_probe() -> None:
    subject = fallen()
    decisions = [subject.decide() for _ in range(8)]
    assert decisions == [*[Decision(speculate=False)] * 3, Decision(speculate=True, probe=True)] * 2


def test_good_probes_in_a_row_recover_with_a_fresh_history() -> None:
    subject = fallen()
    events = feed(subject, judged(7, probe=True), judged(8, probe=True))
    assert [(event.before, event.after, event.reason) for event in events] == [
        (GateState.FALLEN_BACK, GateState.PROBING, GateReason.PROBE_GOOD),
        (GateState.PROBING, GateState.SPECULATING, GateReason.RECOVERED),
    ]
    assert subject.rate is None
    assert feed(subject, judged(6), judged(6), judged(6)) == []
    assert subject.decide() == Decision(speculate=True)


def test_a_bad_probe_starts_again() -> None:
    subject = fallen()
    events = feed(subject, judged(9, probe=True), judged(6, probe=True), judged(9, probe=True))
    assert [(event.before, event.after, event.reason) for event in events] == [
        (GateState.FALLEN_BACK, GateState.PROBING, GateReason.PROBE_GOOD),
        (GateState.PROBING, GateState.FALLEN_BACK, GateReason.PROBE_BAD),
        (GateState.FALLEN_BACK, GateState.PROBING, GateReason.PROBE_GOOD),
    ]


def test_probing_goes_on_at_the_same_pace() -> None:
    subject = fallen()
    feed(subject, judged(9, probe=True))
    assert subject.state is GateState.PROBING
    assert [subject.decide().probe for _ in range(8)] == [False, False, False, True] * 2


def test_a_probe_slower_than_plain_is_bad() -> None:
    subject = fallen()
    feed(subject, plain(100, 30))
    events = feed(subject, timed(120, probe=True), timed(90, probe=True), timed(90, probe=True))
    assert [event.reason for event in events] == [
        GateReason.PROBE_BAD,
        GateReason.PROBE_GOOD,
        GateReason.RECOVERED,
    ]


def test_a_probe_that_judged_nothing_or_never_records_blocks_nothing() -> None:
    subject = fallen()
    assert feed(subject, RequestOutcome(speculated=True, probe=True)) == []
    for _ in range(10):
        assert [subject.decide().probe for _ in range(4)] == [False, False, False, True]


# requests in flight


def test_outcomes_decided_before_the_fallback_change_nothing_after_it() -> None:
    subject = fallen()
    assert feed(subject, *[judged(0)] * 20, *[judged(10)] * 20) == []
    assert subject.state is GateState.FALLEN_BACK


def test_a_probe_that_comes_after_the_recovery_is_a_request_like_others() -> None:
    subject = fallen()
    feed(subject, judged(9, probe=True), judged(9, probe=True))
    assert feed(subject, judged(9, probe=True)) == []
    assert subject.rate == 0.9


# values


@pytest.mark.parametrize(
    "fields",
    [
        {"window_requests": 0},
        {"window_requests": 10_001},
        {"threshold": 1.1},
        {"threshold": float("nan")},
        {"floor": 0.71},
        {"floor": -0.1},
        {"consecutive": 0},
        {"threshold_evidence": 0},
        {"floor_evidence": 0},
        {"timing_evidence": 0},
        {"slower_margin": 0.9},
        {"slower_margin": float("inf")},
        {"plain_every": -1},
        {"probe_every": 0},
        {"good_probes": 0},
    ],
)
def test_rules_out_of_range_name_their_field(fields: dict[str, float]) -> None:
    with pytest.raises(InvalidSetting, match=rf"^gate\.{next(iter(fields))}: must be"):
        GateRules(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fields", [{"judged": 0}, {"rate": 1.5}, {"empty_drafts": -1}, {"pause_tokens": 0}, {"server_run_tokens": 5000}]
)
def test_guard_rules_out_of_range_name_their_field(fields: dict[str, float]) -> None:
    with pytest.raises(InvalidSetting, match=rf"^guard\.{next(iter(fields))}: must be"):
        GuardRules(**fields)  # type: ignore[arg-type]


def test_an_acceptance_over_one_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="accepted <= judged <= drafted"):
        RequestOutcome(speculated=True, drafted=5, judged=4, accepted=5)
    with pytest.raises(InvalidSetting, match=r"outcome\.plain_us"):
        RequestOutcome(speculated=True, plain_us=-1)


# the book


def test_gates_of_a_book_do_not_mix() -> None:
    book = GateBook(RULES)
    feed(book.gate("haskell", "general"), *[judged(0)] * 9)
    assert not book.gate("haskell", "general").decide().speculate
    assert book.gate("python", "general").decide().speculate
    assert book.gate("haskell", "lookup").decide().speculate


def test_a_book_is_bounded_and_keeps_what_is_in_use() -> None:
    book = GateBook(RULES, limit=2)
    kept = book.gate("python", "lookup")
    book.gate("go", "lookup")
    assert book.gate("python", "lookup") is kept
    book.gate("rust", "lookup")
    assert [gate.language for gate in book.gates()] == ["python", "rust"]
    with pytest.raises(InvalidSetting, match=r"gate\.limit"):
        GateBook(RULES, limit=0)
