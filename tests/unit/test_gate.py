"""Each rule by which the gate falls back."""

from __future__ import annotations

import pytest
from gate_outcomes import feed, gate, judged, plain, timed

from decoding.gate import Decision, GateEvent, GateReason, GateRules, GateState, RequestOutcome


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
    rules = GateRules(floor_evidence=100)
    subject = gate(rules)
    feed(subject, *[judged(18, 20)] * 100)
    events = feed(subject, *[judged(4, 20)] * 5)
    assert [event.reason for event in events] == [GateReason.BELOW_FLOOR]
    # The latest five hold the evidence: two of the old, three of the new.
    assert events[0].judged == 100
    assert events[0].rate == pytest.approx((2 * 18 + 3 * 4) / 100)
    assert subject.state is GateState.FALLEN_BACK


def test_the_floor_needs_its_evidence() -> None:
    subject = gate(GateRules(consecutive=1000, floor_evidence=100))
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
