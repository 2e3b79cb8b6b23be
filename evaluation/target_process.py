"""A target in a process of its own, while it is needed. Knows its command and its log, nothing of its calls."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from evaluation.errors import EvaluationFailed

START_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 30.0
_KEPT_LOG_LINES = 10


@asynccontextmanager
async def target_process(command: Sequence[str]) -> AsyncIterator[str]:
    """Start a target, wait until its model serves, give its gRPC address; on leaving, have it drain.

    command: starts it with its log on standard error as JSON, which is how it says its port.
    Raises EvaluationFailed, with the target's last words, where it ends before it serves.
    """
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    words: deque[str] = deque(maxlen=_KEPT_LOG_LINES)
    serving: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    listening = asyncio.create_task(_listen(process, words, serving))
    try:
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                address = await serving
        except TimeoutError as error:
            raise EvaluationFailed(f"the target did not serve within {START_TIMEOUT_S:g} s") from error
        yield address
    finally:
        await _stop(process)
        await listening


async def _listen(process: asyncio.subprocess.Process, words: deque[str], serving: asyncio.Future[str]) -> None:
    """Read the log to its end: the address from its "serving" line, the last lines for whom it may concern."""
    if process.stderr is None:
        return
    async for line in process.stderr:
        text = line.decode(errors="replace").rstrip()
        words.append(text)
        with suppress(ValueError):  # not everything on standard error is our log
            event = json.loads(text)
            if isinstance(event, dict) and event.get("event") == "serving" and not serving.done():
                serving.set_result(str(event["grpc"]))
    if not serving.done():
        serving.set_exception(EvaluationFailed("the target ended before it served:\n" + "\n".join(words)))


async def _stop(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
