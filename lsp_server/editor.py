"""One editor's connection: its settings, its documents, and the one request in flight for each document.

The life of a request: take the text around the position; cancel the older request for the document; complete; show the
suggestion if the document is still the same. Every failure is an empty answer and one line in the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import structlog
from lsprotocol import types

from decoding.errors import DeadlineExceeded, SlipstreamError, TargetUnavailable
from decoding.traces import trace
from drafts.detection import CONTENT_CHARACTERS, detect
from lsp_server import notifications
from lsp_server.context import CHARACTERS_A_TOKEN
from lsp_server.documents import Change, Document, Documents, Silence, Window
from lsp_server.positions import PositionEncoding
from lsp_server.settings import LspSettings, overridden
from lsp_server.suggestion import Buffer, CompletionRequest, CompletionResult, Progress

log = structlog.get_logger()

Notify = Callable[[str, Any], None]
MessageId = str | int


class Suggestions(Protocol):
    """What completes text; `completion.CompletionService`, or a stand-in."""

    def warm(self) -> None:
        """Begin what the first request would have to wait for."""

    async def complete(
        self, request: CompletionRequest, *, deliver: Callable[[Progress], None]
    ) -> CompletionResult: ...


class Editor:
    """Plain methods for each message. `suggestions` gives the service for settings; `name` begins request ids."""

    def __init__(
        self, settings: LspSettings, *, suggestions: Callable[[LspSettings], Suggestions], notify: Notify, name: str
    ) -> None:
        self._base = settings
        self.settings = settings
        self.encoding = PositionEncoding.UTF16
        self._suggestions = suggestions
        self._notify = notify
        self._name = name
        self._count = 0
        self._away = False
        self._documents = Documents(
            limit=settings.max_open_documents, max_bytes=settings.max_document_bytes, private=settings.private
        )
        self._running: dict[str, asyncio.Task[CompletionResult | None]] = {}

    def initialize(self, options: object, encoding: str) -> None:
        self.encoding = PositionEncoding(encoding)
        self._base = self._override(options)
        self.settings = self._base

    def ready(self) -> None:
        """The editor is set up: its first request comes soon."""
        with suppress(SlipstreamError):  # that request will say so
            self._suggestions(self.settings).warm()

    def configure(self, options: object) -> None:
        """Settings as the editor now has them, over those that it began with."""
        self.settings = self._override(options)

    def opened(self, item: types.TextDocumentItem) -> None:
        self._cancel(item.uri)
        document = self._documents.open(
            uri=item.uri, language_id=item.language_id, version=item.version, text=item.text
        )
        _note_silence(document, before=None)

    def changed(self, params: types.DidChangeTextDocumentParams) -> None:
        identifier = params.text_document
        self._cancel(identifier.uri)
        document = self._documents.get(identifier.uri)
        if document is None:
            return
        before = document.silence
        document.apply(
            [_change(change) for change in params.content_changes], version=identifier.version, encoding=self.encoding
        )
        _note_silence(document, before=before)

    def closed(self, uri: str) -> None:
        self._cancel(uri)
        self._documents.close(uri)

    async def complete(
        self, params: types.InlineCompletionParams, message_id: MessageId | None
    ) -> types.InlineCompletionList:
        """The suggestion at a position: one item, or none. Raises only CancelledError, when the editor cancels."""
        nothing = types.InlineCompletionList(items=[])
        uri = params.text_document.uri
        self._cancel(uri)
        document = self._documents.get(uri)
        if document is None or document.silence is not None:
            return nothing
        selected = params.context.selected_completion_info
        window = self._window(document, params.position, selected)
        if window is None:
            log.info("position outside the file", line=params.position.line)
            return nothing
        if not window.prefix.strip():
            return nothing  # nothing to go by
        version = document.version
        task = asyncio.create_task(self._run(document, window, message_id))
        self._running[uri] = task
        try:
            result = await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            return nothing  # a newer request or a change of the document took its place
        finally:
            if self._running.get(uri) is task:
                del self._running[uri]
        if result is None or not result.text or self._documents.get(uri) is not document or document.version != version:
            return nothing
        return types.InlineCompletionList(items=[self._item(result.text, window, selected)])

    async def _run(self, document: Document, window: Window, message_id: MessageId | None) -> CompletionResult | None:
        """One request to its end, logged. None where it failed or came too late."""
        settings = self.settings
        self._count += 1
        request_id = f"{self._name}-{self._count}"
        place = {"id": message_id, "requestId": request_id, "uri": document.uri, "version": document.version}

        def deliver(progress: Progress) -> None:
            if settings.stream:
                self._notify(notifications.TOKENS, notifications.tokens(progress, place))

        request = CompletionRequest(
            request_id=request_id,
            prefix=window.prefix,
            suffix=window.suffix,
            # The window may begin far below the lines that tell.
            language_id=detect(document.language_id, document.path, document.beginning(CONTENT_CHARACTERS)),
            path=document.path,
            buffers=self._buffers(document, settings),
            buffer_tokens=settings.buffer_tokens,
            sampling=settings.sampling,
            stop=settings.stop,
            prompt_tokens=settings.prompt_tokens,
            drafting=settings.drafting,
            placement=settings.placement,
            deadline_s=settings.deadline_ms / 1000,
        )
        line = log.bind(request=request_id, language=document.language_id[:32])
        try:
            async with asyncio.timeout(settings.deadline_ms / 1000):
                result = await self._suggestions(settings).complete(request, deliver=deliver)
        except (TimeoutError, DeadlineExceeded):
            line.info("completion", outcome="late", deadline_ms=settings.deadline_ms)
        except asyncio.CancelledError:
            line.info("completion", outcome="cancelled")
            raise
        except TargetUnavailable as error:
            say = line.debug if self._away else line.info  # once, until it is back
            say("completion", outcome="target unavailable", problem=str(error))
            self._away = True
        except SlipstreamError as error:
            line.warning("completion", outcome=type(error).__name__, problem=str(error))
        except Exception as error:  # whatever breaks, the editor gets its empty answer
            line.error("completion", outcome="failed", trace=trace(error))
        else:
            self._away = False
            line.info("completion", outcome="complete" if result.text else "empty", **result.log_fields())
            if settings.stream:
                self._notify(notifications.COMPLETED, notifications.completed(result, place))
            return result
        return None

    def _window(
        self, document: Document, position: types.Position, selected: types.SelectedCompletionInfo | None
    ) -> Window | None:
        """The text around the cursor, as if what the editor's own menu has selected were typed already."""
        reach = self.settings.prompt_tokens * CHARACTERS_A_TOKEN
        if selected is None:
            place = (position.line, position.character)
            return document.around(place, encoding=self.encoding, before=reach, after=reach)
        start, end = (
            document.around((place.line, place.character), encoding=self.encoding, before=reach, after=reach)
            for place in (selected.range.start, selected.range.end)
        )
        if start is None or end is None:
            return None
        return Window(prefix=start.prefix + selected.text, suffix=end.suffix, position=end.position)

    def _item(
        self, text: str, window: Window, selected: types.SelectedCompletionInfo | None
    ) -> types.InlineCompletionItem:
        if selected is not None:
            return types.InlineCompletionItem(insert_text=selected.text + text, range=selected.range)
        line, character = window.position
        place = types.Position(line=line, character=character)
        return types.InlineCompletionItem(insert_text=text, range=types.Range(start=place, end=place))

    def _buffers(self, document: Document, settings: LspSettings) -> tuple[Buffer, ...]:
        reach = settings.buffer_tokens * CHARACTERS_A_TOKEN
        buffers: list[Buffer] = []
        for other in self._documents.others(document):
            if len(buffers) >= settings.buffer_documents:
                break
            buffers.append(Buffer(key=other.uri, text=other.beginning(reach)))
        return tuple(buffers)

    def _override(self, options: object) -> LspSettings:
        settings, problems = overridden(self._base, options)
        for problem in problems:
            log.warning("setting ignored", problem=str(problem))
            message = types.LogMessageParams(type=types.MessageType.Warning, message=f"slipstream: {problem}")
            self._notify(types.WINDOW_LOG_MESSAGE, message)
        return settings

    def _cancel(self, uri: str) -> None:
        task = self._running.pop(uri, None)
        if task is not None:
            task.cancel()


def _change(change: types.TextDocumentContentChangeEvent) -> Change:
    if isinstance(change, types.TextDocumentContentChangePartial):
        start, end = change.range.start, change.range.end
        return Change(text=change.text, start=(start.line, start.character), end=(end.line, end.character))
    return Change(text=change.text)


def _note_silence(document: Document, *, before: Silence | None) -> None:
    """One line when a document stops getting suggestions; its name and text stay unsaid."""
    if document.silence is not None and document.silence is not before:
        log.info("no suggestions in document", reason=document.silence.value, bytes=document.size)
