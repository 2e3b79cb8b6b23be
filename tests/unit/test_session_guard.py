"""When a request stops drafting, and what the gate learns of it."""

from __future__ import annotations

from session_steps import opened, propose, reject, verdict

from decoding.placement import Pace
from decoding.rules import GuardRules
from decoding.session import DraftStop, Mode, Run, Verify

# no longer drafting


def test_drafts_that_keep_failing_end_drafting_for_the_request() -> None:
    session = opened(guard=GuardRules(judged=4, rate=0.5))
    for _ in range(3):
        reject(session, 2)
    assert session.drafting
    reject(session, 2)
    assert session.draft_stop is DraftStop.GUARD
    assert not session.drafting
    assert session.next() == Run(limit=16)


def test_the_guard_looks_at_the_latest_drafts() -> None:
    session = opened(guard=GuardRules(judged=4, rate=0.5))
    for _ in range(3):
        propose(session, "xyz")
        session.judged(verdict(session, 3, 3, "xyzx"))
    for _ in range(4):
        reject(session, 1)
    assert session.draft_stop is DraftStop.GUARD  # though 9 of 13 were accepted in all


def test_the_guard_can_be_off_and_applies_to_server_drafts() -> None:
    session = opened(guard=GuardRules(judged=1, rate=0))
    for _ in range(10):
        reject(session, 1)
    assert session.drafting
    session = opened(Mode.SERVER, guard=GuardRules(judged=2, rate=0.5, server_run_tokens=2))
    session.next()
    for _ in range(2):
        session.judged(verdict(session, 3, 0, "x"))
    assert session.draft_stop is DraftStop.GUARD
    assert session.next() == Run(limit=18)


def test_a_draft_in_flight_is_judged_though_the_gate_fell_back() -> None:
    session = opened()
    propose(session, "xy")
    session.stop_drafting(DraftStop.GATE)
    assert isinstance(session.next(), Verify)
    assert session.judged(verdict(session, 2, 2, "xyz")).text == "xyz"
    assert session.next() == Run(limit=17)
    session.stop_drafting(DraftStop.DRAFTER_FAILED)
    assert session.draft_stop is DraftStop.GATE


def test_a_draft_not_yet_made_is_no_longer_wanted() -> None:
    session = opened()
    session.next()
    session.stop_drafting(DraftStop.DRAFTER_FAILED)
    assert session.next() == Run(limit=20)


def test_plain_has_no_drafting_to_stop() -> None:
    session = opened(Mode.PLAIN)
    session.stop_drafting(DraftStop.GATE)
    assert session.draft_stop is None


# what the gate learns


def test_the_outcome_counts_and_times_all_but_the_first_round() -> None:
    session = opened(guard=GuardRules(empty_drafts=1, pause_tokens=2))
    propose(session, "xy", draft_us=1_000)
    session.judged(verdict(session, 2, 1, "xz"), wait_us=90_000)  # holds the prefill
    propose(session, "xyz", draft_us=10)
    session.judged(verdict(session, 3, 3, "xyzx", queue_us=20, verify_us=30), wait_us=100)
    propose(session, "", draft_us=5)
    session.judged(verdict(session, 0, 0, "x", queue_us=20, verify_us=30), wait_us=100)
    assert session.next() == Run(limit=2)
    session.judged(verdict(session, 0, 0, "x"), wait_us=40)  # a target that tells no times
    outcome = session.outcome(probe=True)
    assert (outcome.speculated, outcome.probe) == (True, True)
    assert (outcome.drafted, outcome.judged, outcome.accepted, outcome.emitted) == (5, 5, 4, 8)
    assert (outcome.speculative_us, outcome.speculative_tokens) == (10 + 100 + 5, 4)
    assert (outcome.plain_us, outcome.plain_tokens) == (50 + 40, 2)


def test_a_verdict_that_waited_for_us_takes_the_devices_time() -> None:
    session = opened(Mode.SERVER)
    session.next()
    for _ in range(2):
        session.judged(verdict(session, 2, 2, "xyz", queue_us=20, verify_us=30), wait_us=1)
    assert (session.outcome().speculative_us, session.outcome().speculative_tokens) == (50, 3)


def test_a_plain_requests_outcome_did_not_speculate() -> None:
    session = opened(Mode.PLAIN)
    session.next()
    session.judged(verdict(session, 0, 0, "x", verify_us=30))
    session.judged(verdict(session, 0, 0, "x", verify_us=30))
    outcome = session.outcome()
    assert not outcome.speculated
    assert (outcome.plain_us, outcome.plain_tokens, outcome.emitted) == (30, 1, 2)


# what placement learns


def test_the_pace_is_that_of_drafting_without_the_first_round() -> None:
    session = opened(guard=GuardRules(empty_drafts=1, pause_tokens=1))
    propose(session, "xy", draft_us=1_000)
    session.judged(verdict(session, 2, 1, "xz", queue_us=1, verify_us=1), wait_us=90_000)  # holds the prefill
    propose(session, "xyz", draft_us=10)
    session.judged(verdict(session, 3, 3, "xyzx", queue_us=20, verify_us=30), wait_us=100)
    propose(session, "", draft_us=5)
    session.judged(verdict(session, 0, 0, "x", queue_us=20, verify_us=30), wait_us=100)
    assert session.next() == Run(limit=1)
    session.judged(verdict(session, 0, 0, "x", verify_us=30), wait_us=20)  # it waited for us
    session.stop_drafting(DraftStop.GATE)
    session.next()
    session.judged(verdict(session, 0, 0, "x", verify_us=30), wait_us=30)
    assert session.pace == Pace(steps=3, tokens=6, device_us=130, overhead_us=10 + 50 + 5 + 50)


def test_a_target_that_tells_no_times_has_no_pace() -> None:
    session = opened()
    for _ in range(3):
        reject(session, 2, wait_us=100)
    assert session.pace == Pace()
