"""A language client for tests: pygls' own, with what an editor does in a line each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from lsprotocol import types
from pygls.lsp.client import BaseLanguageClient
from pygls.protocol import default_converter

URI = "file:///project/example.py"


_converter = cache(default_converter)  # making one takes longer than most tests


class Client(BaseLanguageClient):
    """Notifications of ours are kept in `told`, log messages in `logged`, dialogs in `shown`."""

    def __init__(self) -> None:
        super().__init__("test", "1", converter_factory=_converter)
        self.told: list[tuple[str, Any]] = []
        self.logged: list[str] = []
        self.shown: list[str] = []
        for method in ("slipstream/tokens", "slipstream/completed"):
            self._keep(method)

        @self.feature(types.WINDOW_LOG_MESSAGE)
        def log_message(params: types.LogMessageParams) -> None:
            self.logged.append(params.message)

        @self.feature(types.WINDOW_SHOW_MESSAGE)
        def show_message(params: types.ShowMessageParams) -> None:
            self.shown.append(params.message)

    def _keep(self, method: str) -> None:
        @self.feature(method)
        def keep(params: Any) -> None:
            self.told.append((method, params))

    async def begin(
        self, options: object = None, encodings: list[types.PositionEncodingKind | str] | None = None
    ) -> types.InitializeResult:
        general = types.GeneralClientCapabilities(position_encodings=encodings) if encodings else None
        result = await self.initialize_async(
            types.InitializeParams(
                capabilities=types.ClientCapabilities(general=general),
                initialization_options={"slipstream": options} if options is not None else None,
            )
        )
        self.initialized(types.InitializedParams())
        return result

    def open(self, text: str, *, uri: str = URI, language: str = "python", version: int = 1) -> None:
        self.text_document_did_open(
            types.DidOpenTextDocumentParams(
                text_document=types.TextDocumentItem(uri=uri, language_id=language, version=version, text=text)
            )
        )

    def change(
        self,
        text: str,
        at: tuple[int, int] | None = None,
        *,
        uri: str = URI,
        version: int,
        to: tuple[int, int] | None = None,
    ) -> None:
        """Insert at a place, replace up to `to`, or replace all."""
        event: types.TextDocumentContentChangeEvent
        if at is None:
            event = types.TextDocumentContentChangeWholeDocument(text=text)
        else:
            event = types.TextDocumentContentChangePartial(
                range=types.Range(types.Position(*at), types.Position(*at)), text=text
            )
        self.text_document_did_change(
            types.DidChangeTextDocumentParams(
                text_document=types.VersionedTextDocumentIdentifier(uri=uri, version=version), content_changes=[event]
            )
        )

    def close_document(self, uri: str = URI) -> None:
        self.text_document_did_close(
            types.DidCloseTextDocumentParams(text_document=types.TextDocumentIdentifier(uri=uri))
        )

    def ask(
        self, line: int, character: int, *, uri: str = URI, selected: types.SelectedCompletionInfo | None = None
    ) -> asyncio.Future[list[types.InlineCompletionItem]]:
        """Ask for a suggestion: the items to come. The request's id is in `last_id`."""
        self.last_id = f"ask-{len(self.protocol._request_futures)}-{id(object())}"
        params = types.InlineCompletionParams(
            text_document=types.TextDocumentIdentifier(uri=uri),
            position=types.Position(line, character),
            context=types.InlineCompletionContext(
                trigger_kind=types.InlineCompletionTriggerKind.Automatic, selected_completion_info=selected
            ),
        )
        answer = self.protocol.send_request_async(types.TEXT_DOCUMENT_INLINE_COMPLETION, params, msg_id=self.last_id)

        async def items() -> list[types.InlineCompletionItem]:
            result = await answer
            return list(result.items if isinstance(result, types.InlineCompletionList) else result or ())

        return asyncio.ensure_future(items())

    def cancel(self, message_id: str) -> None:
        self.protocol.notify(types.CANCEL_REQUEST, types.CancelParams(id=message_id))

    async def end(self) -> None:
        await self.shutdown_async(None)
        self.exit(None)


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Client]:
    """A client over TCP, not yet initialized."""
    client = Client()
    await client.start_tcp("127.0.0.1", port)
    try:
        yield client
    finally:
        client.protocol.writer.close()  # type: ignore[union-attr]
        await client.stop()
