"""Who may open a sequence: so many at once, and a bounded line of those who wait. Lives on the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from decoding.errors import LimitExceeded

SHORTEST_RETRY_MS = 50
SMOOTHING = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """Leave to hold one sequence open. since: clock reading, seconds."""

    client: str
    since: float


@dataclass(eq=False, slots=True, kw_only=True)
class _Waiter:
    client: str
    turn: asyncio.Future[Pass]


class Admission:
    """Lets in so many at once. Who comes next: the client that holds the fewest, then who has waited longest.

    A full line makes room for a client that has less than others, by refusing the last of the greediest one's.

    clock: seconds, monotonic. Free places and waiters never exist at once.
    """

    def __init__(self, sessions: int, *, queued_requests: int, queue_wait_ms: int, clock: Callable[[], float]) -> None:
        self._sessions = sessions
        self._queued_requests = queued_requests
        self._queue_wait_ms = queue_wait_ms
        self._clock = clock
        self._held: Counter[str] = Counter()
        self._waiting: list[_Waiter] = []
        self._usual_hold_s = 1.0

    @property
    def free(self) -> int:
        return self._sessions - self._held.total()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def enter(self, client: str) -> Pass:
        """Leave, at once or after a wait. Raises LimitExceeded where the line is full or the wait over."""
        if self.free:
            return self._admit(client)
        if len(self._waiting) >= self._queued_requests and not self._make_room(client):
            raise self._full()
        waiter = _Waiter(client=client, turn=asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(self._queue_wait_ms / 1000):
                return await waiter.turn
        except BaseException as error:
            self._give_up(waiter)
            if isinstance(error, TimeoutError):
                raise LimitExceeded(
                    "wait for a session",
                    limit=self._queue_wait_ms,
                    unit="milliseconds",
                    retry_after_ms=self._retry_after_ms(),
                ) from None
            raise

    def leave(self, leave: Pass) -> None:
        """Give a place back: to whoever is next in line."""
        self._held[leave.client] -= 1
        if not self._held[leave.client]:
            del self._held[leave.client]
        self._usual_hold_s += SMOOTHING * (self._clock() - leave.since - self._usual_hold_s)
        self._waiting = [waiter for waiter in self._waiting if not waiter.turn.done()]
        if self._waiting:
            # The first of equals is the one that has waited longest.
            following = min(self._waiting, key=lambda waiter: self._held[waiter.client])
            self._waiting.remove(following)
            following.turn.set_result(self._admit(following.client))

    def _admit(self, client: str) -> Pass:
        self._held[client] += 1
        return Pass(client=client, since=self._clock())

    def _give_up(self, waiter: _Waiter) -> None:
        """Out of the line; a place that was handed over in the same moment goes on to the next."""
        if waiter.turn.done() and not waiter.turn.cancelled() and waiter.turn.exception() is None:
            self.leave(waiter.turn.result())
        elif waiter in self._waiting:
            self._waiting.remove(waiter)

    def _make_room(self, client: str) -> bool:
        """In a full line: refuse the last of a client that has at least two more than this one would have."""
        waiting = [waiter for waiter in self._waiting if not waiter.turn.done()]
        has = self._held + Counter(waiter.client for waiter in waiting)
        greediest = max((waiter.client for waiter in waiting), key=has.__getitem__, default="")
        if has[greediest] < has[client] + 2:
            return False
        last = next(waiter for waiter in reversed(waiting) if waiter.client == greediest)
        self._waiting.remove(last)
        last.turn.set_exception(self._full())
        return True

    def _full(self) -> LimitExceeded:
        return LimitExceeded(
            "sessions and the queue for them",
            limit=self._sessions + self._queued_requests,
            unit="requests",
            retry_after_ms=self._retry_after_ms(),
        )

    def _retry_after_ms(self) -> int:
        expected_s = self._usual_hold_s * (len(self._waiting) + 1) / self._sessions
        return max(SHORTEST_RETRY_MS, round(expected_s * 1000))
