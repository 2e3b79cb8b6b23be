"""An editor, as far as completion sees one: a language client over the stdio of a language server's process."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from lsprotocol import types
from pygls.lsp.client import LanguageClient

from evaluation.errors import EvaluationFailed
from evaluation.scenes import Scene
from lsp_server.notifications import COMPLETED, TOKENS
from lsp_server.suggestion import Piece

ANSWER_TIMEOUT_S = 300.0
_KEPT_LOG_LINES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """What an editor got for one request, with the times that it saw itself, in milliseconds from asking.

    text: to be inserted; tokens, sources, counts: as `slipstream/completed` has them (docs/protocol.md).
    """

    text: str
    pieces: tuple[Piece, ...]
    tokens: tuple[int, ...]
    sources: tuple[str, ...]
    mode: str
    finish: str | None
    prompt_tokens: int
    cached_tokens: int
    drafted: int
    judged: int
    accepted: int
    verify_steps: int
    first_token_ms: float
    total_ms: float


class EditorClient:
    """One editor window. Begin it with `editing`; one request at a time. `words`: what the server said last."""

    def __init__(self, client: LanguageClient, words: Sequence[str]) -> None:
        self._client = client
        self._words = words
        self._version = 0
        self._pieces: list[Piece] = []
        self._first_at = 0.0
        self._completed: Any = None
        self._show: Callable[[Sequence[Piece]], None] = lambda _: None

        @client.feature(TOKENS)  # type: ignore[untyped-decorator]  # which takes functions only, no methods
        def tokens(params: Any) -> None:
            self._first_at = self._first_at or time.perf_counter()
            self._pieces += [Piece(token=piece.token, source=piece.source, text=piece.text) for piece in params.pieces]
            self._show(self._pieces)

        @client.feature(COMPLETED)  # type: ignore[untyped-decorator]
        def completed(params: Any) -> None:
            self._completed = params

    def configure(self, **settings: object) -> None:
        """Change what an editor may change of the server's settings."""
        self._client.workspace_did_change_configuration(
            types.DidChangeConfigurationParams(settings={"slipstream": settings})
        )

    async def suggest(self, scene: Scene, *, show: Callable[[Sequence[Piece]], None] = lambda _: None) -> Suggestion:
        """Open the scene's file, ask at its cursor, close it. `show` hears all pieces so far whenever some come.

        Raises EvaluationFailed.
        """
        client, uri = self._client, scene.path.as_uri()
        self._version += 1
        self._pieces, self._first_at, self._completed, self._show = [], 0.0, None, show
        document = types.TextDocumentIdentifier(uri=uri)
        line, character = scene.position
        client.text_document_did_open(
            types.DidOpenTextDocumentParams(
                text_document=types.TextDocumentItem(
                    uri=uri, language_id=scene.language, version=self._version, text=scene.text
                )
            )
        )
        start = time.perf_counter()
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                answer = await client.text_document_inline_completion_async(
                    types.InlineCompletionParams(
                        text_document=document,
                        position=types.Position(line, character),
                        context=types.InlineCompletionContext(trigger_kind=types.InlineCompletionTriggerKind.Automatic),
                    )
                )
        except TimeoutError as error:
            raise EvaluationFailed(f"{scene.name}: no answer within {ANSWER_TIMEOUT_S:g} s") from error
        end = time.perf_counter()
        client.text_document_did_close(types.DidCloseTextDocumentParams(text_document=document))
        return self._suggestion(scene, answer, start=start, end=end)

    def _suggestion(self, scene: Scene, answer: Any, *, start: float, end: float) -> Suggestion:
        done = self._completed
        if done is None:
            raise EvaluationFailed("\n".join((f"{scene.name}: the server completed nothing. Its log:", *self._words)))
        items = answer.items if isinstance(answer, types.InlineCompletionList) else answer or ()
        counts = done.statistics
        return Suggestion(
            text="".join(str(item.insert_text) for item in items[:1]),
            pieces=tuple(self._pieces),
            tokens=tuple(done.tokens),
            sources=tuple(done.sources),
            mode=done.mode,
            finish=done.finish,
            prompt_tokens=counts.promptTokens,
            cached_tokens=counts.cachedTokens,
            drafted=counts.draftedTokens,
            judged=counts.judgedTokens,
            accepted=counts.acceptedTokens,
            verify_steps=counts.verifySteps,
            first_token_ms=((self._first_at or end) - start) * 1000,
            total_ms=(end - start) * 1000,
        )


@asynccontextmanager
async def editing(command: Sequence[str], options: Mapping[str, object]) -> AsyncIterator[EditorClient]:
    """Start a language server, greet it with `options`, and leave it as an editor does.

    Raises EvaluationFailed, with the server's last words, where it ends before it is told to.
    """
    client = LanguageClient("slipstream-demo", version("slipstream-completion"))
    words: deque[str] = deque(maxlen=_KEPT_LOG_LINES)
    editor = EditorClient(client, words)
    await client.start_io(*command)
    process: asyncio.subprocess.Process = client._server  # type: ignore[assignment]  # noqa: SLF001 - it has no accessor
    listening = asyncio.create_task(_listen(process.stderr, words))
    try:
        await client.initialize_async(
            types.InitializeParams(
                capabilities=types.ClientCapabilities(), initialization_options={"slipstream": dict(options)}
            )
        )
        client.initialized(types.InitializedParams())
        yield editor
        await client.shutdown_async(None)
        client.exit(None)
    except RuntimeError as error:  # how pygls says that the process has gone
        await listening
        raise EvaluationFailed("the language server ended early:\n" + "\n".join(words)) from error
    finally:
        if process.stdin is not None:
            process.stdin.close()
        await client.stop()  # type: ignore[no-untyped-call]
        await listening


async def _listen(stream: asyncio.StreamReader | None, words: deque[str]) -> None:
    """Keep the last lines that a process says, and keep its pipe from filling up."""
    if stream is None:
        return
    async for line in stream:
        words.append(line.decode(errors="replace").rstrip())
