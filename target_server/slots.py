"""Who may open a sequence: so many slots, and a bounded line of those who wait for one. Lives on the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from decoding.errors import LimitExceeded

SHORTEST_RETRY_MS = 50
SMOOTHING = 0.2


class Slots:
    """Hands out slot numbers from 0, in the order of asking.

    clock: seconds, monotonic. Free slots and waiters never exist at once: a slot that comes back goes to the first.
    """

    def __init__(self, count: int, *, queued_requests: int, queue_wait_ms: int, clock: Callable[[], float]) -> None:
        self._count = count
        self._queued_requests = queued_requests
        self._queue_wait_ms = queue_wait_ms
        self._clock = clock
        self._free = list(reversed(range(count)))
        self._waiting: deque[asyncio.Future[int]] = deque()
        self._taken_at: dict[int, float] = {}
        self._usual_hold_s = 1.0

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def acquire(self) -> int:
        """A slot, at once or after a wait. Raises LimitExceeded where the line is full or the wait over."""
        if self._free:
            return self._take(self._free.pop())
        if len(self._waiting) >= self._queued_requests:
            raise LimitExceeded(
                "sessions and the queue for them",
                limit=self._count + self._queued_requests,
                unit="requests",
                retry_after_ms=self._retry_after_ms(),
            )
        turn: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(self._queue_wait_ms / 1000):
                return await turn
        except BaseException as error:
            self._leave(turn)
            if isinstance(error, TimeoutError):
                raise LimitExceeded(
                    "wait for a session",
                    limit=self._queue_wait_ms,
                    unit="milliseconds",
                    retry_after_ms=self._retry_after_ms(),
                ) from None
            raise

    def release(self, slot: int) -> None:
        """Give a slot back: to the first who waits, else to the free ones."""
        held = self._clock() - self._taken_at.pop(slot)
        self._usual_hold_s += SMOOTHING * (held - self._usual_hold_s)
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(self._take(slot))
                return
        self._free.append(slot)

    def _take(self, slot: int) -> int:
        self._taken_at[slot] = self._clock()
        return slot

    def _leave(self, turn: asyncio.Future[int]) -> None:
        """Out of the line; a slot that was handed over in the same moment goes on to the next."""
        if turn.done() and not turn.cancelled():
            self.release(turn.result())
        elif turn in self._waiting:
            self._waiting.remove(turn)

    def _retry_after_ms(self) -> int:
        expected_s = self._usual_hold_s * (len(self._waiting) + 1) / self._count
        return max(SHORTEST_RETRY_MS, round(expected_s * 1000))
