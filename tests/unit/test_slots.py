"""Slots: order, bounds, and that none is ever lost."""

from __future__ import annotations

import asyncio

import pytest

from decoding.errors import LimitExceeded
from target_server.slots import Slots


def slots(count: int, *, queued_requests: int = 8, queue_wait_ms: int = 60_000) -> Slots:
    return Slots(count, queued_requests=queued_requests, queue_wait_ms=queue_wait_ms, clock=lambda: 0.0)


async def waiting(of: Slots, count: int) -> list[asyncio.Task[int]]:
    tasks = []
    for _ in range(count):
        tasks.append(asyncio.create_task(of.acquire()))
        await asyncio.sleep(0)
    return tasks


async def test_first_come_first_served() -> None:
    line = slots(1)
    slot = await line.acquire()
    tasks = await waiting(line, 3)
    for task in tasks:
        assert line.free == 0
        line.release(slot)
        assert await task == slot
    line.release(slot)
    assert (line.free, line.waiting) == (1, 0)


async def test_full_line_refuses_at_once_with_a_hint() -> None:
    line = slots(2, queued_requests=1)
    for _ in range(2):
        await line.acquire()
    (task,) = await waiting(line, 1)
    with pytest.raises(LimitExceeded, match="3 requests") as refused:
        await line.acquire()
    assert refused.value.retry_after_ms
    task.cancel()


async def test_wait_is_bounded() -> None:
    line = slots(1, queue_wait_ms=1)
    slot = await line.acquire()
    with pytest.raises(LimitExceeded, match="1 milliseconds"):
        await line.acquire()
    assert line.waiting == 0
    line.release(slot)
    assert line.free == 1


async def test_waiter_that_gives_up_leaves_the_line() -> None:
    line = slots(1)
    slot = await line.acquire()
    first, second = await waiting(line, 2)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert line.waiting == 1
    line.release(slot)
    assert await second == slot


async def test_slot_handed_to_a_waiter_in_the_moment_it_gives_up_goes_to_the_next() -> None:
    line = slots(1)
    slot = await line.acquire()
    first, second = await waiting(line, 2)
    line.release(slot)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert await second == slot
    line.release(slot)
    assert line.free == 1
