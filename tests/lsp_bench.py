"""A language server over TCP whose completions are scripted, so that their timing is the test's."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import structlog

from decoding.session import Mode
from decoding.stopping import FinishReason
from decoding.verdict import Statistics
from lsp_server.server import serve_tcp
from lsp_server.settings import LspSettings
from lsp_server.suggestion import CompletionRequest, CompletionResult, Piece, Progress


class Script:
    """Completes with `answer`, at once or when `let` is set; an exception is raised instead."""

    def __init__(self) -> None:
        self.requests: list[CompletionRequest] = []
        self.cancelled: list[str] = []
        self.begun = asyncio.Queue[str]()
        self.stopped = asyncio.Queue[str]()
        self.let = asyncio.Event()
        self.let.set()
        self.answer: str | Exception = "pass"

    def warm(self) -> None:
        pass

    async def complete(
        self, request: CompletionRequest, *, deliver: Callable[[Progress], None] = lambda _: None
    ) -> CompletionResult:
        self.requests.append(request)
        self.begun.put_nowait(request.request_id)
        try:
            await self.let.wait()
        except asyncio.CancelledError:
            self.cancelled.append(request.request_id)
            self.stopped.put_nowait(request.request_id)
            raise
        if isinstance(self.answer, Exception):
            raise self.answer
        deliver(Progress(position=3, text=self.answer, pieces=(Piece(token=7, source="lookup", text=self.answer),)))
        return CompletionResult(
            request_id=request.request_id,
            text=self.answer,
            raw_text=self.answer,
            tokens=(7,),
            sources=("lookup",),
            finish=FinishReason.TOKEN_LIMIT,
            statistics=Statistics(prompt_tokens=3, drafted_tokens=1, judged_tokens=1, accepted_tokens=1),
            language="python",
            drafter="mix",
            mode=Mode.EDGE,
            gate=None,
            transitions=(),
            seed=2**64 - 1,
            noise_version="test",
            first_token_ms=1.0,
            total_ms=2.0,
        )


class Bench:
    """A running server, its script, and what it logged."""

    def __init__(self, script: Script, port: int, log: list[dict[str, object]]) -> None:
        self.script = script
        self.port = port
        self.log = log

    def lines(self, event: str) -> list[dict[str, object]]:
        return [line for line in self.log if line["event"] == event]


@contextlib.asynccontextmanager
async def lsp_serving(settings: LspSettings) -> AsyncIterator[Bench]:
    script = Script()
    port = asyncio.get_running_loop().create_future()
    with structlog.testing.capture_logs() as log:
        task = asyncio.create_task(serve_tcp(settings, lambda _: script, ready=port.set_result))
        try:
            yield Bench(script, await port, log)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
