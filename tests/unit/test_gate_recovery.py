"""How the gate probes and recovers, with requests in flight; and the book that keeps gates apart."""

from __future__ import annotations

import pytest
from gate_outcomes import RULES, fallen, feed, judged, plain, timed

from decoding.errors import InvalidSetting
from decoding.gate import Decision, GateBook, GateReason, GateState, RequestOutcome

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
    assert feed(subject, RequestOutcome(speculated=True, probe=True, emitted=9)) == []
    for _ in range(10):
        assert [subject.decide().probe for _ in range(4)] == [False, False, False, True]


def test_a_probe_stopped_before_its_first_token_is_made_up_for_by_the_next_request() -> None:
    subject = fallen()
    assert [subject.decide().probe for _ in range(4)] == [False, False, False, True]
    assert feed(subject, RequestOutcome(speculated=True, probe=True)) == []
    assert [subject.decide().probe for _ in range(5)] == [True, False, False, False, True]


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
