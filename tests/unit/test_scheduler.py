"""The scheduler: which of the waiting work makes up the next step."""

from __future__ import annotations

import pytest

from target_server.scheduler import CLIENTS_KEPT, Plan, Scheduler, Shares, StepCosts, Want
from target_server.shapes import Shapes, canonical

COUNTS = tuple(range(8, 129, 8))
ANY = Shapes(decode=COUNTS, prefill=COUNTS)
APART = canonical(decode_rows=8, prefill_rows=64)
BUDGET_MS = 50.0


def scheduler(shapes: Shapes = ANY, *, ms_per_row: float = 1.0, budget_ms: float = BUDGET_MS) -> Scheduler:
    """One that has seen a step of every count."""
    known = Scheduler(lambda: shapes, budget_ms=budget_ms)
    for total in sorted({*shapes.decode, *shapes.prefill}):
        known.ran(Plan(blocks=(0,), chunks=(), total=total), total * ms_per_row)
    return known


def block(client: str = "a", rows: int = 8, *, since: float = 0.0, first: bool = False) -> Want:
    return Want(client=client, rows=(rows,), prefill=False, since=since, first=first)


def prompt(client: str = "a", *rows: int, since: float = 0.0) -> Want:
    return Want(client=client, rows=rows or (64,), prefill=True, since=since, first=True)


class TestSizes:
    def test_blocks_that_wait_go_together_in_the_least_step(self) -> None:
        plan = scheduler().plan([block(rows=8), block(rows=3), block(rows=6)], decoding=True)
        assert sorted(plan.blocks) == [0, 1, 2]
        assert (plan.chunks, plan.total) == ((), 24)

    def test_blocks_over_the_largest_step_wait_for_the_next(self) -> None:
        plan = scheduler().plan([block() for _ in range(20)], decoding=True)
        assert (len(plan.blocks), plan.total) == (16, 128)

    def test_prompt_alone_takes_as_many_chunks_as_a_step_holds(self) -> None:
        plan = scheduler().plan([prompt("a", 64, 64, 64, 10)], decoding=False)
        assert (plan.blocks, plan.chunks, plan.total) == ((), ((0, 2),), 128)

    def test_room_that_a_prompt_leaves_goes_to_the_next(self) -> None:
        wants = [prompt("a", 64, 10), prompt("b", 40, 40, since=1.0)]
        assert scheduler().plan(wants, decoding=False).chunks == ((0, 2), (1, 1))

    def test_chunk_within_the_budget_joins_the_blocks(self) -> None:
        plan = scheduler().plan([block(), prompt("b", 48, 8)], decoding=True)
        assert (plan.blocks, plan.chunks, plan.total) == ((0,), ((1, 1),), 56)

    def test_steps_are_apart_where_no_count_holds_both(self) -> None:
        plan = scheduler(APART).plan([block(), prompt()], decoding=True)
        assert bool(plan.blocks) != bool(plan.chunks)

    def test_shapes_are_asked_anew(self) -> None:
        shapes = [APART]
        known = Scheduler(lambda: shapes[-1], budget_ms=BUDGET_MS)
        assert len(known.plan([block(), block()], decoding=True).blocks) == 1
        shapes.append(ANY)
        assert len(known.plan([block(), block()], decoding=True).blocks) == 2


class TestTurns:
    """Neither blocks nor chunks starve."""

    def rounds(self, known: Scheduler, wants: list[Want], count: int, *, ms_per_row: float = 1.0) -> list[Plan]:
        plans = []
        for _ in range(count):
            plans.append(known.plan(wants, decoding=True))
            known.ran(plans[-1], plans[-1].total * ms_per_row)
        return plans

    def test_chunk_over_the_budget_goes_every_other_step(self) -> None:
        plans = self.rounds(scheduler(), [block(), prompt()], 6)
        assert [bool(plan.chunks) for plan in plans] == [False, True] * 3
        assert all(plan.blocks for plan in plans)

    def test_steps_apart_alternate_where_a_chunk_takes_the_budget(self) -> None:
        plans = self.rounds(scheduler(APART), [block(), prompt()], 6)
        assert [bool(plan.blocks) for plan in plans] == [False, True] * 3

    def test_steps_apart_give_chunks_what_the_budget_has_room_for(self) -> None:
        plans = self.rounds(scheduler(APART, budget_ms=200.0), [block(), prompt()], 8)
        assert [bool(plan.blocks) for plan in plans] == [False, False, False, True] * 2

    def test_blocks_that_fill_every_step_make_room_for_a_chunk(self) -> None:
        plans = self.rounds(scheduler(), [*[block() for _ in range(16)], prompt()], 6)
        assert [bool(plan.chunks) for plan in plans] == [False, True] * 3
        assert [len(plan.blocks) for plan in plans] == [16, 8] * 3

    def test_chunk_that_fits_beside_no_block_gets_steps_of_its_own(self) -> None:
        counts = (8, 16, 32, 64)
        known = scheduler(Shapes(decode=counts, prefill=counts))
        plans = self.rounds(known, [block(), prompt()], 6)
        assert sum(bool(plan.chunks) for plan in plans) == 3
        assert sum(bool(plan.blocks) for plan in plans) == 3

    def test_chunks_of_one_turn_keep_to_the_budget_together(self) -> None:
        """Apart, where a step may hold several chunks: those of the whole turn count."""
        known = scheduler(Shapes(decode=(8,), prefill=(16, 32, 80)), budget_ms=60.0)
        plans = self.rounds(known, [block(), prompt("b", *[16] * 40)], 20)
        turn = 0.0
        for plan in plans:
            turn = 0.0 if plan.blocks else turn + plan.total
            assert turn <= 60.0

    def test_chunks_keep_to_the_budget_while_a_first_block_waits(self) -> None:
        """Nobody has come back with a block yet, so that none is expected; one waits all the same."""
        shapes = Shapes(decode=(8,), prefill=(16, 32, 48, 64, 80))
        plan = scheduler(shapes, budget_ms=40.0).plan([block(first=True), prompt("b", *[16] * 40)], decoding=False)
        assert plan.total <= 40

    def test_chunks_alone_keep_to_the_budget_where_blocks_are_expected(self) -> None:
        known = scheduler()
        wants = [prompt("a", *[16] * 10)]
        assert known.plan(wants, decoding=True).total == 48
        assert known.plan(wants, decoding=False).total == 128

    def test_one_chunk_goes_alone_whatever_the_budget(self) -> None:
        assert scheduler(budget_ms=0.0).plan([prompt()], decoding=True).chunks == ((0, 1),)


class TestOrder:
    def order(self, known: Scheduler, *wants: Want) -> list[int]:
        """Indices in the order in which they are served, of blocks that each fill a step or of prompts of a chunk."""
        left = list(enumerate(wants))
        served = []
        while left:
            plan = known.plan([want for _, want in left], decoding=True)
            ((place,),) = [plan.blocks or [index for index, _ in plan.chunks]]
            known.ran(plan, 1.0)
            served.append(left.pop(place)[0])
        return served

    def test_those_who_have_seen_no_token_go_first(self) -> None:
        wants = [block("a", since=1.0), block("b", since=2.0), block("c", since=9.0, first=True)]
        assert self.order(scheduler(APART), *wants) == [2, 0, 1]

    def test_of_a_client_who_has_waited_longest_goes_first(self) -> None:
        wants = [prompt("a", since=3.0), prompt("a", since=1.0), prompt("a", since=2.0)]
        assert self.order(scheduler(APART), *wants) == [1, 2, 0]

    def test_client_with_many_prompts_does_not_hold_up_one_with_a_single_one(self) -> None:
        crowd = [prompt("crowd", since=float(number)) for number in range(20)]
        order = self.order(scheduler(APART), *crowd, prompt("single", since=99.0))
        assert order.index(20) == 1

    def test_chunks_of_two_clients_take_turns_by_rows(self) -> None:
        known = scheduler(APART)
        rows = {"large": 0, "small": 0}
        wants = [prompt("large", 64), prompt("small", 32)]
        for _ in range(30):
            plan = known.plan(wants, decoding=False)
            ((index, _),) = plan.chunks
            rows[wants[index].client] += wants[index].rows[0]
            known.ran(plan, 1.0)
        assert abs(rows["large"] - rows["small"]) <= 64

    def test_new_client_starts_where_others_stand(self) -> None:
        """It is not owed what the others had before it came."""
        known = scheduler(APART)
        for _ in range(100):
            known.ran(known.plan([prompt("old")], decoding=False), 1.0)
        wants = [prompt("old", since=1.0), prompt("new", since=2.0)]
        firsts = []
        for _ in range(10):
            plan = known.plan(wants, decoding=False)
            known.ran(plan, 1.0)
            firsts.append(plan.chunks[0][0])
        assert firsts.count(0) == firsts.count(1)

    @pytest.mark.parametrize(("early", "late"), [(100, 1), (1, 100)])
    def test_what_clients_had_while_they_were_alone_counts_for_nothing(self, early: int, late: int) -> None:
        known = scheduler(APART)
        for client, prompts in (("early", early), ("late", late)):
            for _ in range(prompts):
                known.ran(known.plan([prompt(client)], decoding=False), 1.0)
        wants = [prompt("early", since=1.0), *[prompt("late", since=2.0) for _ in range(5)]]
        assert self.order(known, *wants)[:2].count(0) == 1

    def test_blocks_of_one_client_take_turns_where_not_all_fit(self) -> None:
        """In the order in which they came, not of the requests that they belong to."""
        known = scheduler(APART)
        since = [0.0, 1.0, 2.0]
        served = [0, 0, 0]
        for now in range(3, 33):
            plan = known.plan([block(since=moment) for moment in since], decoding=True)
            (index,) = plan.blocks
            known.ran(plan, 1.0)
            served[index] += 1
            since[index] = float(now)
        assert served == [10, 10, 10]

    def test_prompt_does_not_count_against_the_blocks_that_follow_it(self) -> None:
        known = scheduler(APART)
        for _ in range(100):
            known.ran(known.plan([prompt("long")], decoding=False), 1.0)
        since, served = [0.0, 0.0], [0, 0]
        for now in range(1, 21):
            plan = known.plan([block("long", since=since[0]), block("short", since=since[1])], decoding=True)
            (index,) = plan.blocks
            served[index] += 1
            since[index] = float(now)
        assert served == [10, 10]

    def test_clients_remembered_are_bounded(self) -> None:
        shares = Shares()
        for number in range(3 * CLIENTS_KEPT):
            shares.admit([f"client {number}"])
        assert len(shares) == CLIENTS_KEPT
        crowd = [f"one of many {number}" for number in range(CLIENTS_KEPT + 5)]
        shares.admit(crowd)
        assert [shares.had(client) for client in crowd] == [0] * len(crowd)


class TestCosts:
    def test_unknown_counts_cost_as_the_next_larger_or_in_proportion(self) -> None:
        costs = StepCosts()
        assert costs.estimate(8) == 0.0
        costs.record(8, 40.0)
        costs.record(64, 80.0)
        assert costs.estimate(8) == 40.0
        assert costs.estimate(16) == 80.0
        assert costs.estimate(128) == 160.0

    def test_count_that_took_long_once_is_tried_again(self) -> None:
        known = scheduler()
        known.ran(Plan(blocks=(), chunks=((0, 2),), total=128), 100_000.0)  # the machine was asleep, say
        totals = []
        for _ in range(40):
            plan = known.plan([prompt("a", 64, 64)], decoding=True)
            totals.append(plan.total)
            known.ran(plan, plan.total * 0.3)
        assert totals[-1] == 128

    def test_estimates_follow_slowly(self) -> None:
        costs = StepCosts()
        costs.record(8, 40.0)
        costs.record(8, 400.0)
        assert 40.0 < costs.estimate(8) < 150.0
        for _ in range(50):
            costs.record(8, 60.0)
        assert costs.estimate(8) == pytest.approx(60.0, rel=0.02)
