"""One blocking call beside the event loop, on a thread that a process told to stop does not wait for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

T = TypeVar("T")


async def in_background(work: Callable[[], T], *, name: str) -> T:
    """Run `work` on a daemon thread and await it; cancelled, it runs on and its result is dropped."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def give(value: T) -> None:
        if not result.done():
            result.set_result(value)

    def fail(error: BaseException) -> None:
        if not result.done():
            result.set_exception(error)

    def run() -> None:
        try:
            value = work()
        except BaseException as error:
            tell(partial(fail, error))
        else:
            tell(partial(give, value))

    def tell(what: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has closed meanwhile
            loop.call_soon_threadsafe(what)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await result
