"""pygls' protocol, less what does harm here, and the loop that feeds it one connection's messages.

pygls would keep a second copy of every document and split it into lines at each keystroke, by rules that aren't LSP's;
exit the process, with every other client, when one client says so; leave a malformed request unanswered; and put
what it choked on into its logs. Knows nothing of completion.
"""

from __future__ import annotations

import asyncio
import json
import logging
from functools import cache
from typing import Any, Protocol

import structlog
from cattrs import Converter
from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams, JsonRpcParseError
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, default_converter
from pygls.protocol.language_server import lsp_method

from decoding.traces import trace
from lsp_server.transport import frames

log = structlog.get_logger()


class Writer(Protocol):
    """Where messages to the editor go; never blocks for long, never raises."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...


class EditorProtocol(LanguageServerProtocol):
    """The LSP state of one connection. `exit_code` is set once the editor has asked for the end."""

    exit_code: int | None = None

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        self.fm.features[types.TEXT_DOCUMENT_DID_OPEN](params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        self.fm.features[types.TEXT_DOCUMENT_DID_CHANGE](params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        self.fm.features[types.TEXT_DOCUMENT_DID_CLOSE](params)

    @lsp_method(types.EXIT)
    def lsp_exit(self, *_: object) -> None:  # type: ignore[override]  # a plain handler does as well as a generator
        self.exit_code = 0 if self._shutdown else 1

    def receive(self, body: bytes) -> None:
        """Take in one message. A request that can't be read is answered with an error."""
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            log.warning("unreadable message", bytes=len(body))
            self._send_data({"jsonrpc": "2.0", "id": None, "error": _plain(JsonRpcParseError())})
            return
        if not isinstance(data, dict) or "jsonrpc" not in data:
            log.warning("message that is no JSON-RPC", bytes=len(body))
            return
        try:
            self.handle_message(self.structure_message(data))
        except JsonRpcException as error:
            log.warning("message of a wrong shape", method=_method(data), error=type(error).__name__)
            if "id" in data and "method" in data:
                self._send_data({"jsonrpc": "2.0", "id": data["id"], "error": _plain(JsonRpcInvalidParams())})

    def cancel_all(self) -> list[asyncio.Task[Any]]:
        """Cancel what is in flight; the tasks to wait for."""
        futures: list[object] = list(self._request_futures.values())  # pygls files tasks under another type
        tasks = [future for future in futures if isinstance(future, asyncio.Task)]
        for task in tasks:
            task.cancel()
        return tasks


@cache
def _converter() -> Converter:
    """Shared by all connections: making one takes longer than serving many a request."""
    converter: Converter = default_converter()  # type: ignore[no-untyped-call]
    return converter


class EditorServer(LanguageServer):
    """A pygls server that shows no dialogs: what goes wrong is logged, by type and place."""

    protocol: EditorProtocol

    def __init__(self, name: str, version: str) -> None:
        super().__init__(name, version, protocol_cls=EditorProtocol, converter_factory=_converter)

    def report_server_error(self, error: Exception, source: object) -> None:
        log.error("handler failed", source=getattr(source, "__name__", "?"), trace=trace(error))

    async def converse(self, reader: asyncio.StreamReader, writer: Writer, *, max_message_bytes: int) -> int:
        """Serve one editor until it exits or its stream ends; the exit code that LSP asks for."""
        protocol = self.protocol
        protocol.set_writer(writer)
        try:
            async for body in frames(reader, max_bytes=max_message_bytes):
                if body is None:
                    log.warning("message skipped", limit=max_message_bytes, unit="bytes")
                    continue
                protocol.receive(body)
                # A request's task begins here: it must see the document as it is before the next one.
                await asyncio.sleep(0)
                if protocol.exit_code is not None:
                    return protocol.exit_code
            return 0
        finally:
            await asyncio.gather(*protocol.cancel_all(), return_exceptions=True)
            writer.close()


class LibraryLogs(logging.Handler):
    """Says that pygls had something to say, and where: its messages quote the editor's text, so they stay unsaid."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        log.warning(
            "pygls complains",
            where=f"{record.name}:{record.lineno}",
            **({"trace": trace(error)} if error is not None else {}),
        )

    def install(self) -> None:
        """Take over the library's logging, whatever level is configured for it. Its warnings are all routine."""
        library = logging.getLogger("pygls")
        library.handlers = [self]
        library.propagate = False
        library.setLevel(logging.ERROR)


def _plain(error: JsonRpcException) -> dict[str, object]:
    return {"code": error.CODE, "message": error.MESSAGE}


def _method(data: dict[str, Any]) -> str:
    """A method's name, fit for a log."""
    method = data.get("method")
    return method if isinstance(method, str) and method in types.METHOD_TO_TYPES else "?"
