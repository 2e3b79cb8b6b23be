"""A step loop over a toy model, for tests of what is in a step, when, and who is told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from target_server.gathering import Gathering
from target_server.scheduler import Scheduler
from target_server.shapes import Shapes
from target_server.step_loop import StepLoop
from target_server.step_metrics import StepRecord
from target_server.steps import Outcome, Segment
from target_server.ticket import Ran, Ticket

ANY = Shapes(decode=tuple(range(1, 65)), prefill=tuple(range(1, 65)))
WAIT_S = 30
STEP_S = 0.010


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += seconds


class Toy:
    """A model whose steps take no time but by the clock; they can be held up, and break at what it can't bear."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.steps: list[tuple[list[Segment], int]] = []
        self.unbearable: Callable[[Segment], bool] = lambda _: False
        self.on_device: set[int] = set()
        self.entered, self.let_go = threading.Event(), threading.Event()
        self.let_go.set()

    def step(self, segments: Sequence[Segment], *, total: int) -> list[Outcome]:
        self.on_device = {segment.slot for segment in segments}
        self.steps.append((list(segments), total))
        self.entered.set()
        assert self.let_go.wait(WAIT_S)
        self.clock.pass_(STEP_S)
        self.on_device = set()
        if any(map(self.unbearable, segments)):
            raise RuntimeError("a segment is unbearable")
        return [Outcome(logits=None, finite=True) for _ in segments]

    def hold(self) -> None:
        """Let the next step wait on the device until `let_go` is set."""
        self.entered.clear()
        self.let_go.clear()

    @property
    def slots(self) -> list[list[int]]:
        return [[segment.slot for segment in segments] for segments, _ in self.steps]


class Bench:
    """A loop over a toy, and whoever makes tickets for it."""

    def __init__(self, *, shapes: Shapes = ANY, longest_s: float = 0.0, scheduler: Scheduler | None = None) -> None:
        self.clock = Clock()
        self.toy = Toy(self.clock)
        self.gathering = Gathering(longest_s=longest_s)
        self.records: list[StepRecord] = []
        self.steps = StepLoop(
            self.toy,
            scheduler or Scheduler(lambda: shapes, budget_ms=1000.0),
            self.gathering,
            threads=0,
            clock=self.clock,
            observe=self.observe,
        )

    def observe(self, record: StepRecord) -> None:
        self.records.append(record)

    def ticket(
        self, slot: int, *rows: int, prefill: bool = False, make: Callable[[Segment, Outcome], Any] | None = None,
        **more: Any,
    ) -> Ticket[Any]:  # fmt: skip
        """Of a block, or of chunks one after the other; what is made of a segment is where it starts."""
        segments, start = [], 0
        for count in rows or (4,):
            segments.append(Segment(slot=slot, start=start, tokens=(slot,) * count, prefill=prefill))
            start += count
        known = {"who": slot, "client": "client", "arrived": self.clock(), "expires": 1e9, "first": False} | more
        return Ticket(segments, make=make or (lambda segment, _: segment.start), **known)

    def submit(self, slot: int, *rows: int, **more: Any) -> Ticket[Any]:
        ticket = self.ticket(slot, *rows, **more)
        self.steps.submit(ticket)
        return ticket

    def hold(self) -> Ticket[Any]:
        """Have a block of slot 99 on the device until the toy is let go."""
        self.toy.hold()
        held = self.submit(99)
        assert self.toy.entered.wait(WAIT_S)
        return held

    def quiet(self) -> None:
        """Return when all that was asked for before has been done."""
        self.steps.errand(lambda: None).result(WAIT_S)


def result(ticket: Ticket[Any]) -> Ran[Any]:
    return ticket.future.result(WAIT_S)


def withdrawn(bench: Bench, ticket: Ticket[Any]) -> threading.Event:
    told = threading.Event()
    bench.steps.withdraw(ticket, told.set)
    return told
