"""The step loop over a toy model: what is in a step, and when."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future

import pytest
from toy_steps import STEP_S, WAIT_S, Bench, result, withdrawn

from decoding.errors import DeadlineExceeded, TargetUnavailable
from target_server.shapes import canonical
from target_server.steps import Segment
from target_server.ticket import Ran


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.toy.let_go.set()
    bench.steps.close()


class TestSteps:
    def test_block_comes_back_with_what_was_made_of_it_and_its_times(self, bench: Bench) -> None:
        held = bench.hold()
        ticket = bench.submit(1, 3)
        bench.clock.pass_(0.5)
        bench.toy.let_go.set()
        assert result(ticket) == Ran(result=0, queue_us=510_000, busy_us=10_000)
        assert result(held).busy_us == 510_000
        assert bench.toy.steps[1] == ([Segment(slot=1, start=0, tokens=(1, 1, 1), prefill=False)], 3)

    def test_tickets_that_wait_share_a_step(self, bench: Bench) -> None:
        bench.hold()
        tickets = [bench.submit(1), bench.submit(2, 5, 5, prefill=True), bench.submit(3)]
        bench.toy.let_go.set()
        assert [result(ticket).result for ticket in tickets] == [0, 5, 0]
        assert bench.toy.slots == [[99], [1, 3, 2, 2]]
        bench.quiet()
        record = bench.records[-1]
        assert (record.blocks, record.chunks, record.rows, record.total) == (2, 2, 18, 18)
        assert (record.forward_us, record.busy_us, record.kind) == (10_000, 10_000, "mixed")

    def test_chunks_run_in_order_over_as_many_steps_as_it_takes(self, bench: Bench) -> None:
        made: list[int] = []
        ticket = bench.submit(
            1, *[30] * 5, prefill=True, make=lambda segment, _: made.append(segment.start) or segment.start
        )
        ran = result(ticket)
        assert made == [0, 30, 60, 90, 120]
        assert (ran.result, ran.busy_us) == (120, 30_000)
        assert bench.toy.slots == [[1, 1], [1, 1], [1]]

    def test_blocks_of_one_client_take_turns_where_not_all_fit(self) -> None:
        """The newest sequence comes up as often as the oldest."""
        bench = Bench(shapes=canonical(decode_rows=4, prefill_rows=32))
        bench.hold()
        left = Counter(dict.fromkeys((1, 2, 3), 10))
        done = threading.Event()

        def again(slot: int, arrived: float) -> None:
            if not left[slot]:
                done.set()
                return
            left[slot] -= 1
            ticket = bench.ticket(slot, arrived=arrived)
            ticket.future.add_done_callback(lambda _: again(slot, arrived))
            bench.steps.submit(ticket)

        for slot in left:
            again(slot, float(slot))
        bench.toy.let_go.set()
        assert done.wait(WAIT_S)
        assert Counter(slot for slots in bench.toy.slots[1:16] for slot in slots) == {1: 5, 2: 5, 3: 5}
        bench.steps.close()


class TestErrands:
    def test_errands_run_in_order_before_the_next_step(self, bench: Bench) -> None:
        bench.hold()
        ticket = bench.submit(1)
        seen: list[tuple[str, int]] = []
        errands = [
            bench.steps.errand(lambda name=name: seen.append((name, len(bench.toy.steps)))) for name in ("a", "b", "c")
        ]
        assert not seen
        bench.toy.let_go.set()
        result(ticket)
        assert seen == [("a", 1), ("b", 1), ("c", 1)]
        assert all(errand.done() for errand in errands)

    def test_errand_that_fails_says_so_and_the_loop_goes_on(self, bench: Bench) -> None:
        with pytest.raises(ZeroDivisionError):
            bench.steps.errand(lambda: 1 // 0).result(WAIT_S)
        assert bench.steps.errand(lambda: 7).result(WAIT_S) == 7
        assert result(bench.submit(1)).result == 0

    def test_errand_that_is_cancelled_in_time_does_not_run(self, bench: Bench) -> None:
        bench.hold()
        seen: list[int] = []
        errand = bench.steps.errand(lambda: seen.append(1))
        assert errand.cancel()
        bench.toy.let_go.set()
        bench.quiet()
        assert not seen


class TestExpiry:
    def test_ticket_whose_time_is_over_is_in_no_step(self, bench: Bench) -> None:
        bench.hold()
        late, other = bench.submit(1, expires=5.0), bench.submit(2, expires=50.0)
        bench.clock.pass_(5.0)
        bench.toy.let_go.set()
        with pytest.raises(DeadlineExceeded, match="request_timeout_s"):
            result(late)
        assert result(other).result == 0
        assert bench.toy.slots == [[99], [2]]

    def test_prompt_expires_between_its_chunks(self, bench: Bench) -> None:
        with pytest.raises(DeadlineExceeded):
            result(bench.submit(1, *[64] * 5, prefill=True, expires=2.5 * STEP_S))
        assert len(bench.toy.steps) == 3


class TestClosing:
    def test_step_on_the_device_ends_and_what_waits_is_dropped(self, bench: Bench) -> None:
        held = bench.hold()
        ticket = bench.submit(1)
        seen: list[int] = []
        errand: Future[None] = bench.steps.errand(lambda: seen.append(1))
        closing = threading.Thread(target=bench.steps.close)
        closing.start()
        while not bench.steps.closed:
            time.sleep(0.001)
        with pytest.raises(TargetUnavailable, match="shuts down"):
            bench.submit(2)
        with pytest.raises(TargetUnavailable, match="shuts down"):
            bench.steps.errand(lambda: None)
        bench.toy.let_go.set()
        closing.join(WAIT_S)
        assert result(held).result == 0
        assert ticket.future.cancelled()
        assert errand.cancelled()
        assert not seen
        assert bench.toy.slots == [[99]]
        bench.steps.close()

    def test_further_chunks_of_a_prompt_are_dropped(self, bench: Bench) -> None:
        bench.toy.hold()
        ticket = bench.submit(1, *[64] * 3, prefill=True)
        assert bench.toy.entered.wait(WAIT_S)
        closing = threading.Thread(target=bench.steps.close)
        closing.start()
        while not bench.steps.closed:
            time.sleep(0.001)
        bench.toy.let_go.set()
        closing.join(WAIT_S)
        assert ticket.future.cancelled()
        assert withdrawn(bench, ticket).is_set()
        assert bench.toy.slots == [[1]]


class TestGathering:
    def alternate(self, bench: Bench, rounds: int) -> None:
        """Two sequences that draft a moment after each verdict, each in a thread of its own."""

        def decode(slot: int) -> None:
            for _ in range(rounds):
                result(bench.submit(slot))
                drafting.wait(WAIT_S)
            bench.steps.forget(slot)

        drafting = threading.Barrier(2, action=lambda: bench.clock.pass_(0.001))  # once both have their verdicts
        held = bench.hold()
        threads = [threading.Thread(target=decode, args=(slot,)) for slot in (1, 2)]
        for thread in threads:
            thread.start()
        while len(bench.steps._waiting) < 2:
            time.sleep(0.001)
        bench.toy.let_go.set()
        result(held)
        bench.steps.forget(99)
        for thread in threads:
            thread.join(WAIT_S)

    def test_sequences_that_draft_meanwhile_go_together(self) -> None:
        """The clock stands still while one of them is away: however slow the machine, the other is waited for."""
        bench = Bench(longest_s=0.008)
        self.alternate(bench, 20)
        bench.quiet()
        assert [sorted(slots) for slots in bench.toy.slots] == [[99], *[[1, 2]] * 20]
        assert all(record.wait_us <= 8000 for record in bench.records)
        assert not bench.gathering.decoding
        bench.steps.close()

    def test_whoever_goes_away_for_good_is_not_waited_for(self) -> None:
        bench = Bench(longest_s=0.008)
        result(bench.submit(1))
        bench.steps.forget(1)
        assert result(bench.submit(2)).queue_us == 0
        bench.steps.close()

    def test_whoever_is_withdrawn_from_the_device_is_not_waited_for(self) -> None:
        bench = Bench(longest_s=0.008)
        bench.toy.hold()
        ticket = bench.submit(1)
        assert bench.toy.entered.wait(WAIT_S)
        bench.steps.forget(1)
        told = withdrawn(bench, ticket)
        bench.toy.let_go.set()
        assert told.wait(WAIT_S)
        bench.quiet()
        assert not bench.gathering.decoding
        bench.steps.close()

    def test_whoever_is_withdrawn_in_the_moment_of_delivery_is_not_waited_for(self) -> None:
        bench = Bench(longest_s=0.008)
        bench.steps.forget(1)
        ticket = bench.submit(1)  # it is forgotten a moment too soon, and withdrawn a moment too late
        result(ticket)
        assert withdrawn(bench, ticket).wait(WAIT_S)
        assert not bench.gathering.decoding
        bench.steps.close()

    def test_errand_ends_the_waiting(self) -> None:
        bench = Bench(longest_s=0.008)  # the clock stands still: sequence 1 would be waited for without end
        result(bench.submit(1))
        waiting = bench.submit(2)
        assert bench.steps.errand(lambda: 7).result(WAIT_S) == 7
        assert not waiting.future.done()
        bench.steps.forget(1)
        assert result(waiting).result == 0
        bench.steps.close()
