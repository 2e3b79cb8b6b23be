"""The one thread that may touch the model. Jobs run one at a time, in the order they came; so sequences take turns."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

from decoding.errors import TargetUnavailable

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran(Generic[Result]):
    """A job's result, with the microseconds that it waited and ran."""

    result: Result
    queue_us: int
    busy_us: int


class Device:
    """Owns the thread. `threads`: CPU threads of one job's matrix products, 0 for torch's choice; clock in seconds."""

    def __init__(self, *, threads: int, clock: Callable[[], float]) -> None:
        self.closed = False
        self._clock = clock
        self._executor = ThreadPoolExecutor(1, "device", initializer=_use_threads, initargs=(threads,))

    def submit(self, job: Callable[[], Result]) -> Future[Ran[Result]]:
        """Put a job in line; one that is cancelled before its turn is skipped. Raises TargetUnavailable once closed."""
        if self.closed:
            raise TargetUnavailable("the target shuts down")
        submitted = self._clock()

        def timed() -> Ran[Result]:
            started = self._clock()
            result = job()
            ended = self._clock()
            return Ran(
                result=result,
                queue_us=round((started - submitted) * 1e6),
                busy_us=round((ended - started) * 1e6),
            )

        return self._executor.submit(timed)

    def close(self) -> None:
        """Drop what waits, and wait for what runs."""
        self.closed = True
        self._executor.shutdown(wait=True, cancel_futures=True)


def _use_threads(threads: int) -> None:
    if threads:
        torch.set_num_threads(threads)
