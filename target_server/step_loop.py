"""The step loop: schedule, run, deliver. One thread, the sole owner of the device.

Sequences hand in tickets, from any thread: a block to decode, or the chunks of a prompt. Each round the scheduler
makes a step of those that wait; what came of it goes to the tickets' futures. A ticket can be withdrawn at any time:
it is in no later step. Knows nothing of requests; what a step's logits mean, its tickets say.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

import structlog
import torch

from decoding.errors import DeadlineExceeded, TargetUnavailable
from decoding.traces import trace
from target_server.gathering import Gathering
from target_server.scheduler import Plan, Scheduler, Want
from target_server.step_metrics import StepRecord
from target_server.steps import Outcome, Segment
from target_server.ticket import Ticket

log = structlog.get_logger()


class Runner(Protocol):
    """What runs a step: `target_server.model.Model`."""

    def step(self, segments: Sequence[Segment], *, total: int) -> list[Outcome]: ...


class StepLoop:
    """Owns the thread.

    threads: CPU threads of one step, 0 for torch's choice. clock: seconds, monotonic.
    observe: hears of each step, on the loop's thread.
    """

    def __init__(
        self,
        model: Runner,
        scheduler: Scheduler,
        gathering: Gathering,
        *,
        threads: int,
        clock: Callable[[], float],
        observe: Callable[[StepRecord], None] = lambda _: None,
    ) -> None:
        self._model = model
        self._scheduler = scheduler
        self._gathering = gathering
        self._threads = threads
        self._clock = clock
        self._observe = observe
        self._changed = threading.Condition()
        self._errands: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._waiting: list[Ticket[Any]] = []
        self._running: list[Ticket[Any]] = []
        self._closed = False
        self._thread = threading.Thread(target=self._loop, name="steps", daemon=True)
        self._thread.start()

    @property
    def closed(self) -> bool:
        return self._closed

    def submit(self, ticket: Ticket[Any]) -> None:
        """Put a ticket in line. Raises TargetUnavailable once closed."""
        with self._changed:
            self._check_open()
            ticket.submitted = self._clock()
            if not ticket.prefill:
                self._gathering.returned(ticket.who, ticket.submitted)
            self._waiting.append(ticket)
            self._changed.notify()

    def errand(self, job: Callable[[], Any]) -> Future[Any]:
        """Run something between steps, before the next one; errands keep their order. Raises as `submit`."""
        future: Future[Any] = Future()
        with self._changed:
            self._check_open()
            self._errands.append((job, future))
            self._changed.notify()
        return future

    def withdraw(self, ticket: Ticket[Any], then: Callable[[], None]) -> None:
        """Take a ticket back; `then` is called, on whatever thread, once no step of it is on the device.

        Its sequence is over: no step waits for it any more.
        """
        with self._changed:
            ticket.future.cancel()
            self._gathering.forget(ticket.who)
            if ticket in self._waiting:
                self._waiting.remove(ticket)
                self._changed.notify()
            if ticket in self._running:
                ticket.when_off.append(then)
                return
        then()

    def forget(self, who: Hashable) -> None:
        """A sequence is over: no step waits for it any more."""
        with self._changed:
            self._gathering.forget(who)
            self._changed.notify()

    def close(self) -> None:
        """Drop what waits, and wait for the step that runs."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _check_open(self) -> None:
        if self._closed:
            raise TargetUnavailable("the target shuts down")

    def _loop(self) -> None:
        if self._threads:
            torch.set_num_threads(self._threads)
        try:
            self._rounds()
        except Exception as error:  # a fault of the loop's own: nobody may wait for a step that never comes
            log.error("step loop", trace=trace(error))
        finally:
            self._drop_all()

    def _rounds(self) -> None:
        while True:
            with self._changed:
                while not (self._errands or self._waiting or self._closed):
                    self._changed.wait()
                if self._closed:
                    return
                errand = self._errands.popleft() if self._errands else None
            if errand is not None:
                _settle(errand[1], errand[0])
            else:
                self._round()

    def _round(self) -> None:
        """One step, unless what waited for it goes away meanwhile."""
        began = self._clock()
        with self._changed:
            self._gather()
            gathered = self._clock()
            if self._errands or self._closed:
                return
            self._expire(gathered)
            if not self._waiting:
                return
            tickets = list(self._waiting)
            plan = self._scheduler.plan([_want(ticket) for ticket in tickets], decoding=self._gathering.decoding)
            parts = [(tickets[index], 1) for index in plan.blocks] + [
                (tickets[index], count) for index, count in plan.chunks
            ]
            self._running = [ticket for ticket, _ in parts]
            self._waiting = [ticket for ticket in self._waiting if ticket not in self._running]
        self._run(plan, parts, began, gathered)

    def _gather(self) -> None:
        """With the lock: wait a little for those who will be back in a moment."""
        until = self._gathering.until(self._clock())
        while not (self._errands or self._closed) and (left := until - self._clock()) > 0:
            self._changed.wait(left)
            until = min(until, self._gathering.until(self._clock()))

    def _expire(self, now: float) -> None:
        """With the lock: whose time is over, or whom nobody waits for, is in no further step."""
        for ticket in [each for each in self._waiting if now >= each.expires or each.future.cancelled()]:
            self._waiting.remove(ticket)
            if ticket.future.set_running_or_notify_cancel():
                ticket.future.set_exception(
                    DeadlineExceeded("the sequence was open for longer than target.request_timeout_s")
                )

    def _run(self, plan: Plan, parts: list[tuple[Ticket[Any], int]], began: float, gathered: float) -> None:
        segments = [ticket.segments[place] for ticket, count in parts for place in range(count)]
        scheduled = self._clock()
        outcomes = self._forward(segments, total=plan.total)
        computed = self._clock()
        left = iter(zip(segments, outcomes, strict=True))
        for ticket, count in parts:
            ticket.queue_s += max(0.0, scheduled - ticket.submitted)
            for _ in range(count):
                ticket.take(*next(left))
        judged = self._clock()
        self._deliver([ticket for ticket, _ in parts], busy_s=judged - scheduled, now=judged)
        delivered = self._clock()
        self._scheduler.ran(plan, (computed - scheduled) * 1000)
        self._observe(
            StepRecord(
                blocks=len(plan.blocks),
                chunks=sum(count for _, count in plan.chunks),
                rows=sum(len(segment.tokens) for segment in segments),
                total=plan.total,
                wait_us=_us(gathered - began),
                schedule_us=_us(scheduled - gathered),
                forward_us=_us(computed - scheduled),
                sample_us=_us(judged - computed),
                deliver_us=_us(delivered - judged),
            )
        )

    def _forward(self, segments: list[Segment], *, total: int) -> list[Outcome | Exception]:
        """The step; where it breaks, each segment by itself, so that one sequence's fault is its own."""
        try:
            return list(self._model.step(segments, total=total))
        except Exception as error:
            if len(segments) == 1:
                return [error]
        outcomes: list[Outcome | Exception] = []
        for segment in segments:
            outcomes += self._forward([segment], total=total)
        return outcomes

    def _deliver(self, tickets: list[Ticket[Any]], *, busy_s: float, now: float) -> None:
        with self._changed:
            self._running = []
            for ticket in tickets:
                ticket.busy_s += busy_s
                ticket.submitted = now
                if not ticket.future.cancelled() and ticket.failure is None and ticket.segments:
                    self._waiting.append(ticket)  # more chunks of its prompt
                elif not ticket.prefill and not ticket.future.cancelled():
                    self._gathering.answered(ticket.who, now)
        for ticket in tickets:
            if not ticket.segments or ticket.failure is not None:
                ticket.settle()
            ticket.leave()

    def _drop_all(self) -> None:
        with self._changed:
            self._closed = True
            tickets = self._waiting + self._running  # these where the loop has failed before it could deliver
            dropped = [ticket.future for ticket in tickets] + [future for _, future in self._errands]
            self._waiting, self._running, self._errands = [], [], deque()
        for future in dropped:
            future.cancel()
        for ticket in tickets:
            ticket.leave()


def _want(ticket: Ticket[Any]) -> Want:
    return Want(
        client=ticket.client,
        rows=tuple(len(segment.tokens) for segment in ticket.segments),
        prefill=ticket.prefill,
        since=ticket.arrived if ticket.first else ticket.submitted,
        first=ticket.first,
    )


def _settle(future: Future[Any], job: Callable[[], Any]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(job())
        except Exception as error:
            future.set_exception(error)


def _us(seconds: float) -> int:
    return round(seconds * 1e6)
