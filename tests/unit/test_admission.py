"""Admission: order, fairness, bounds, and that no place is ever lost."""

from __future__ import annotations

import asyncio

import pytest

from decoding.errors import LimitExceeded
from target_server.admission import Admission, Pass


def admission(sessions: int, *, queued_requests: int = 8, queue_wait_ms: int = 60_000) -> Admission:
    return Admission(sessions, queued_requests=queued_requests, queue_wait_ms=queue_wait_ms, clock=lambda: 0.0)


async def waiting(line: Admission, *clients: str) -> list[asyncio.Task[Pass]]:
    tasks = []
    for client in clients:
        tasks.append(asyncio.create_task(line.enter(client)))
        await asyncio.sleep(0)
    return tasks


async def test_first_come_first_served() -> None:
    line = admission(1)
    held = await line.enter("a")
    for task in await waiting(line, "b", "c", "d"):
        assert line.free == 0
        line.leave(held)
        held = await task
    line.leave(held)
    assert (line.free, line.waiting) == (1, 0)


async def test_a_client_with_many_requests_does_not_hold_up_one_with_a_single_one() -> None:
    line = admission(2)
    first, second = [await line.enter("crowd") for _ in range(2)]
    *crowd, single = await waiting(line, "crowd", "crowd", "crowd", "single")
    line.leave(first)
    assert (await single).client == "single"
    assert not any(task.done() for task in crowd)
    line.leave(second)
    assert (await crowd[0]).client == "crowd"
    for task in crowd[1:]:
        task.cancel()


async def test_full_line_refuses_at_once_with_a_hint() -> None:
    line = admission(2, queued_requests=1)
    for _ in range(2):
        await line.enter("a")
    (task,) = await waiting(line, "a")
    with pytest.raises(LimitExceeded, match="3 requests") as refused:
        await line.enter("a")
    assert refused.value.retry_after_ms
    task.cancel()


async def test_a_client_that_fills_the_line_does_not_lock_others_out() -> None:
    line = admission(1, queued_requests=3)
    held = await line.enter("crowd")
    *_, last = crowd = await waiting(line, "crowd", "crowd", "crowd")
    (single,) = await waiting(line, "single")
    with pytest.raises(LimitExceeded, match="4 requests"):
        await last
    with pytest.raises(LimitExceeded):
        await line.enter("crowd")  # for itself it makes no room
    for task in (*crowd[:2], single):  # among equals, who came first
        line.leave(held)
        held = await task
    assert held.client == "single"


async def test_wait_is_bounded() -> None:
    line = admission(1, queue_wait_ms=1)
    held = await line.enter("a")
    with pytest.raises(LimitExceeded, match="1 milliseconds"):
        await line.enter("a")
    assert line.waiting == 0
    line.leave(held)
    assert line.free == 1


async def test_waiter_that_gives_up_leaves_the_line() -> None:
    line = admission(1)
    held = await line.enter("a")
    first, second = await waiting(line, "a", "b")
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert line.waiting == 1
    line.leave(held)
    assert (await second).client == "b"


async def test_place_handed_to_a_waiter_in_the_moment_it_gives_up_goes_to_the_next() -> None:
    line = admission(1)
    held = await line.enter("a")
    first, second = await waiting(line, "a", "b")
    line.leave(held)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    line.leave(await second)
    assert line.free == 1
