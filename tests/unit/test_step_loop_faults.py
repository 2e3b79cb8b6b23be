"""The step loop when something breaks or is withdrawn: one sequence's fault is its own, and nobody waits for ever."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any

import pytest
from structlog.testing import capture_logs
from toy_steps import ANY, WAIT_S, Bench, result, withdrawn

from decoding.errors import TargetUnavailable
from target_server.scheduler import Plan, Scheduler, Want
from target_server.step_metrics import StepRecord
from target_server.steps import Outcome, Segment
from target_server.ticket import Ticket


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.toy.let_go.set()
    bench.steps.close()


class TestFaults:
    def test_step_that_breaks_fails_the_culprit_only(self, bench: Bench) -> None:
        bench.toy.unbearable = lambda segment: segment.slot == 2
        bench.hold()
        tickets = [bench.submit(slot) for slot in (1, 2, 3)]
        bench.toy.let_go.set()
        with pytest.raises(RuntimeError, match="unbearable"):
            result(tickets[1])
        assert [result(tickets[index]).result for index in (0, 2)] == [0, 0]
        assert bench.toy.slots[1:] == [[1, 2, 3], [1], [2], [3]]
        assert {total for _, total in bench.toy.steps[1:]} == {12}  # the shape stays, or bits might not

    def test_chunk_that_breaks_ends_its_prompt(self, bench: Bench) -> None:
        bench.toy.unbearable = lambda segment: segment.slot == 1 and segment.start == 30
        made: list[int] = []
        broken = bench.submit(1, *[30] * 5, prefill=True, make=lambda segment, _: made.append(segment.start))
        with pytest.raises(RuntimeError, match="unbearable"):
            result(broken)
        assert made == [0]
        assert result(bench.submit(2)).result == 0
        assert max(segment.start for segments, _ in bench.toy.steps for segment in segments) == 30

    def test_result_that_can_not_be_made_fails_its_ticket_only(self, bench: Bench) -> None:
        def broken(segment: Segment, outcome: Outcome) -> int:
            raise ValueError("no such token")

        bench.hold()
        failing, sound = bench.submit(1, make=broken), bench.submit(2)
        bench.toy.let_go.set()
        with pytest.raises(ValueError, match="no such token"):
            result(failing)
        assert result(sound).result == 0
        assert bench.toy.slots == [[99], [1, 2]]

    def test_scheduler_that_breaks_leaves_nobody_waiting(self) -> None:
        class Broken(Scheduler):
            def plan(self, wants: Sequence[Want], *, decoding: bool) -> Plan:
                if len(wants) > 1:
                    raise AssertionError("a fault of its own")
                return super().plan(wants, decoding=decoding)

        bench = Bench(scheduler=Broken(lambda: ANY, budget_ms=0.0))
        held = bench.hold()
        tickets = [bench.submit(1), bench.submit(2, prefill=True)]
        with capture_logs() as logs:
            bench.toy.let_go.set()
            assert result(held).result == 0
            nobody_waits(bench, tickets)
        assert [line["event"] for line in logs] == ["step loop"]

    @pytest.mark.parametrize("outcomes", [0, 1])
    def test_model_that_answers_too_little_leaves_nobody_waiting(self, outcomes: int) -> None:
        bench = Bench()
        step = bench.toy.step
        held = bench.hold()
        bench.toy.step = lambda segments, *, total: step(segments, total=total)[:outcomes]  # type: ignore[method-assign]
        tickets = [bench.submit(1), bench.submit(2), bench.submit(3, *[40] * 3, prefill=True)]
        with capture_logs():
            bench.toy.let_go.set()
            assert result(held).result == 0
            nobody_waits(bench, tickets)

    def test_model_that_answers_too_little_gives_a_slot_back_that_was_withdrawn_meanwhile(self) -> None:
        bench = Bench()
        step = bench.toy.step
        bench.toy.step = lambda segments, *, total: step(segments, total=total)[:0]  # type: ignore[method-assign]
        bench.toy.hold()
        ticket = bench.submit(1)
        assert bench.toy.entered.wait(WAIT_S)
        told = withdrawn(bench, ticket)
        assert not told.is_set()
        with capture_logs():
            bench.toy.let_go.set()
            assert told.wait(WAIT_S)
            bench.steps.close()

    def test_observer_that_breaks_leaves_nobody_waiting(self, bench: Bench) -> None:
        def broken(record: StepRecord) -> None:
            raise OSError("disk full")

        held = bench.hold()
        bench.steps._observe = broken
        ticket = bench.submit(1)
        with capture_logs():
            bench.toy.let_go.set()
            assert result(held).result == 0
            nobody_waits(bench, [ticket])


def nobody_waits(bench: Bench, tickets: Sequence[Ticket[Any]]) -> None:
    """All futures end, whoever withdraws is told so, and nothing new is taken."""
    for ticket in tickets:
        with pytest.raises(CancelledError):
            result(ticket)
    off = [withdrawn(bench, ticket) for ticket in tickets]
    assert all(told.wait(WAIT_S) for told in off)
    bench.steps.close()
    with pytest.raises(TargetUnavailable):
        bench.submit(5)


class TestWithdrawing:
    def test_ticket_that_waits_is_in_no_step(self, bench: Bench) -> None:
        bench.hold()
        ticket, other = bench.submit(1), bench.submit(2)
        assert withdrawn(bench, ticket).is_set()
        assert ticket.future.cancelled()
        bench.toy.let_go.set()
        result(other)
        assert bench.toy.slots == [[99], [2]]

    def test_ticket_on_the_device_is_off_after_the_step(self, bench: Bench) -> None:
        bench.toy.hold()
        ticket = bench.submit(1, *[40] * 3, prefill=True)
        assert bench.toy.entered.wait(WAIT_S)
        told = withdrawn(bench, ticket)
        other = bench.submit(2)
        assert not told.wait(0.05)
        bench.toy.let_go.set()
        assert told.wait(WAIT_S)
        result(other)
        bench.quiet()
        assert bench.toy.slots == [[1], [2]]  # of its further chunks, none

    def test_ticket_that_is_done_is_off(self, bench: Bench) -> None:
        ticket = bench.submit(1)
        assert result(ticket).result == 0
        bench.quiet()
        assert withdrawn(bench, ticket).is_set()
        assert result(ticket).result == 0

    def test_ticket_that_nobody_waits_for_is_in_no_step(self, bench: Bench) -> None:
        """Whoever awaited it was cancelled, and has not withdrawn it yet."""
        bench.hold()
        ticket, other = bench.submit(1), bench.submit(2)
        ticket.future.cancel()
        bench.toy.let_go.set()
        result(other)
        assert bench.toy.slots == [[99], [2]]

    def test_whoever_withdraws_at_any_moment_is_told_once_and_after_the_step(self, bench: Bench) -> None:
        dice = random.Random(0)  # noqa: S311
        told: Counter[int] = Counter()
        too_soon: list[int] = []
        tickets = []

        def off(slot: int) -> None:
            told[slot] += 1
            if slot in bench.toy.on_device:
                too_soon.append(slot)

        for slot in range(400):
            rows = (4,) if dice.random() < 0.5 else (30,) * dice.randint(1, 4)
            tickets.append(bench.submit(slot, *rows, prefill=len(rows) > 1))
            for withdrawing in [dice.randrange(slot + 1)] if dice.random() < 0.7 else []:
                if withdrawing not in told:
                    told[withdrawing] = 0
                    bench.steps.withdraw(tickets[withdrawing], lambda gone=withdrawing: off(gone))
            if dice.random() < 0.2:
                time.sleep(0.0005)
        for ticket in tickets:
            if not ticket.future.cancelled():
                result(ticket)
        bench.quiet()
        bench.steps.close()
        assert set(told.values()) == {1}
        assert not too_soon
        assert not bench.steps._waiting
        assert not bench.steps._running
