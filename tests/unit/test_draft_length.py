"""How much of a draft is worth its rows, and whether any draft is."""

from __future__ import annotations

from drafter_records import draft_of, go_round, record, verdict_on

from decoding.draft_length import DraftLength, Expectation, best_choice
from decoding.rules import LengthRules

FLAT = ((1, 50_000), (8, 50_000))
DEAR = ((1, 50_000), (8, 190_000))  # 20 ms a row


def sent(length: DraftLength, *confidences: float) -> int:
    return len(length.cut(draft_of(confidences), limit=7, draft_us=0).tokens)


def test_rows_that_cost_nothing_are_all_used() -> None:
    assert sent(DraftLength(record(steps=FLAT)), 0.9, 0.5, 0.1, 0.1, 0.1) == 5


def test_dear_rows_are_used_while_they_earn_their_time() -> None:
    length = DraftLength(record(steps=DEAR))
    assert sent(length, *[0.97] * 7) == 7
    assert sent(length, 0.9, 0.8, 0.1, 0.9, 0.9) == 2
    assert sent(length, 0.1, 0.9, 0.9) == 0


def test_a_cost_that_jumps_is_passed_where_what_follows_makes_up_for_it() -> None:
    length = DraftLength(record(steps=((1, 50_000), (2, 100_000), (8, 100_000))))
    assert sent(length, 0.9) == 0
    assert sent(length, *[0.9] * 6) == 6


def test_what_is_cut_is_cut_in_every_field() -> None:
    length = DraftLength(record(steps=DEAR))
    draft = length.cut(draft_of((0.9, 0.8, 0.05)), limit=7, draft_us=0)
    assert (draft.tokens, draft.confidences, draft.sources) == ((1, 2), (0.9, 0.8), ("toy", "toy"))


def test_a_poor_draft_does_not_take_time_that_better_ones_use_better() -> None:
    """Alone it would pay: 1.3 tokens in 55 ms are more a second than 1 in 50 ms."""
    steps = ((1, 50_000), (8, 85_000))  # 5 ms a row
    assert sent(DraftLength(record(steps=steps)), 0.3) == 1
    shared = record(steps=steps)
    for _ in range(64):
        go_round(DraftLength(shared), [0.99] * 7, 7)
    assert sent(DraftLength(shared), 0.3) == 0  # at 8 tokens in 85 ms, 5 ms are worth 0.47 tokens
    assert sent(DraftLength(shared), 0.6) == 1


def test_a_drafter_that_boasts_is_cut_once_it_is_known() -> None:
    shared = record(steps=DEAR)
    for _ in range(40):
        go_round(DraftLength(shared), [0.95] * 7, 0)
    assert sent(DraftLength(shared), *[0.95] * 7) == 0


def test_a_request_that_does_worse_than_most_is_cut_before_the_others() -> None:
    shared = record(steps=DEAR)
    for _ in range(100):
        go_round(DraftLength(shared), [0.9, 0.9, 0.9], 3)
    unlucky = DraftLength(shared)
    before = len(go_round(unlucky, [0.9, 0.9, 0.9], 0).tokens)
    for _ in range(12):
        go_round(unlucky, [0.9, 0.9, 0.9], 0)
    assert before == 3
    assert sent(unlucky, 0.9, 0.9, 0.9) < 3
    assert sent(DraftLength(shared), 0.9, 0.9, 0.9) >= sent(unlucky, 0.9, 0.9, 0.9)


def test_a_drafter_as_slow_as_its_target_is_asked_for_less_than_one_that_costs_nothing() -> None:
    limits = []
    for us in (10, 40_000):
        shared = record(steps=FLAT)
        for _ in range(50):
            length = DraftLength(shared)
            length.cut(draft_of([0.6] * 7), limit=7, draft_us=8 * us)
            length.judged(verdict_on(7, 1, verify_us=50_000), wait_us=50_000, answered=True, timed=True)
        limits.append(DraftLength(shared).limit(7))
    cheap, dear = limits
    assert cheap == 7
    assert dear < 3


def test_over_a_long_way_the_target_had_better_run_alone_and_it_is_weighed_again() -> None:
    shared = record(steps=FLAT, trip_us=1_000_000)
    length = DraftLength(shared)
    assert length.limit(7) == 0
    assert length.run_tokens == LengthRules().run_tokens
    for _ in range(LengthRules().samples):
        shared.timings.add_round_trip(500)
    assert length.limit(7) == 7


def test_drafts_that_stopped_paying_are_tried_again_now_and_then() -> None:
    shared = record(steps=((1, 50_000), (2, 60_000), (8, 150_000)))
    tried = []
    for _ in range(400):
        length = DraftLength(shared)
        tried.append(bool(length.limit(7)) and bool(go_round(length, [0.95] * 7, 0).tokens))
        if not tried[-1]:
            length.judged(verdict_on(0, 0), wait_us=0, answered=False, timed=True)
    assert all(tried[:3])
    assert 0 < sum(tried[200:]) < 50


def test_a_probe_drafts_all_it_may_and_what_comes_of_it_is_learned() -> None:
    shared = record(steps=DEAR, trip_us=1_000_000)
    assert DraftLength(shared).limit(7) == 0
    probe = DraftLength(shared, probing=True)
    assert probe.limit(7) == 7
    before = shared.calibration.chance(0, 0.1)
    assert len(go_round(probe, [0.1] * 7, 7).tokens) == 7
    assert shared.calibration.chance(0, 0.1) > before


def test_the_prompts_prefill_is_no_step_and_a_pushed_verdict_no_round_trip() -> None:
    shared = record()
    length = DraftLength(shared)
    length.judged(verdict_on(0, 0, verify_us=900_000), wait_us=2_000_000, answered=True, timed=False)
    assert (shared.timings.step_us(1), shared.timings.round_trip_us) == (LengthRules().step_us, 0)
    length.judged(verdict_on(0, 0, verify_us=50_000), wait_us=70_000, answered=False, timed=True)
    assert (shared.timings.step_us(1), shared.timings.round_trip_us) == (50_000, 0)
    length.judged(verdict_on(0, 0, queue_us=1_000, verify_us=50_000), wait_us=71_000, answered=True, timed=True)
    assert shared.timings.round_trip_us == 20_000


def test_a_target_that_tells_no_times_leaves_them_unmeasured() -> None:
    shared = record()
    DraftLength(shared).judged(verdict_on(0, 0), wait_us=70_000, answered=True, timed=True)
    assert (shared.timings.step_us(1), shared.timings.round_trip_us) == (LengthRules().step_us, 0)


def test_of_equal_choices_the_shorter_is_taken() -> None:
    same = Expectation(tokens=1, us=10)
    assert best_choice([same, same, same], Expectation(tokens=0, us=0)) == 0
