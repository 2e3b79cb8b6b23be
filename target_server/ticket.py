"""What a sequence asks of the step loop: segments to run, and what to make of what comes of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

from target_server.steps import Outcome, Segment

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran(Generic[Result]):
    """A ticket's result, with the microseconds that it waited and ran."""

    result: Result
    queue_us: int
    busy_us: int


class Ticket(Generic[Result]):
    """Mutable; made on the event loop, then the step loop's until its future is done.

    who: the sequence. client: whose it is. arrived, expires: clock readings, seconds. first: no token was seen yet.
    make: of a segment and its outcome, on the step loop's thread; what it says of the last one is the result. What it
        raises ends the ticket.
    """

    def __init__(
        self,
        segments: Iterable[Segment],
        *,
        who: Hashable,
        client: str,
        arrived: float,
        expires: float,
        first: bool,
        make: Callable[[Segment, Outcome], Result],
    ) -> None:
        self.segments = deque(segments)
        self.prefill = self.segments[0].prefill
        self.who = who
        self.client = client
        self.arrived = arrived
        self.expires = expires
        self.first = first
        self.future: Future[Ran[Result]] = Future()
        self.submitted = 0.0
        self.queue_s = 0.0
        self.busy_s = 0.0
        self.failure: Exception | None = None
        self.when_off: list[Callable[[], None]] = []
        self._make = make
        self._made: list[Result] = []

    def take(self, segment: Segment, outcome: Outcome | Exception) -> None:
        """A segment has run, or failed."""
        self.segments.popleft()
        if self.failure is not None:
            return
        if isinstance(outcome, Exception):
            self.failure = outcome
            return
        try:
            self._made = [self._make(segment, outcome)]
        except Exception as error:
            self.failure = error

    def settle(self) -> None:
        """Tell whoever waits, unless nobody does any more."""
        if not self.future.set_running_or_notify_cancel():
            return
        if self.failure is not None:
            self.future.set_exception(self.failure)
        else:
            (result,) = self._made
            self.future.set_result(Ran(result=result, queue_us=_us(self.queue_s), busy_us=_us(self.busy_s)))

    def leave(self) -> None:
        """No step of it is on the device, nor will be: tell those who withdrew it meanwhile."""
        while self.when_off:
            self.when_off.pop()()


def _us(seconds: float) -> int:
    return round(seconds * 1e6)
