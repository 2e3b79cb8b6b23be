"""The language server: pygls wired to one `Editor` a connection, over stdio or TCP.

Standard output belongs to the protocol: whatever else prints there is sent to standard error instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import uuid
from collections.abc import Callable, Coroutine
from importlib.metadata import version
from typing import Any

import structlog
from lsprotocol import types

from lsp_server.editor import Editor, Suggestions
from lsp_server.errors import AddressUnavailable
from lsp_server.protocol import EditorServer, LibraryLogs
from lsp_server.services import Services
from lsp_server.settings import LspSettings
from lsp_server.transport import DescriptorWriter, SocketWriter, standard_input

log = structlog.get_logger()

Source = Callable[[LspSettings], Suggestions]


def build_server(settings: LspSettings, suggestions: Source) -> EditorServer:
    """A server for one connection; `suggestions` gives what completes under given settings."""
    server = EditorServer("slipstream", version("slipstream-completion"))
    editor = Editor(settings, suggestions=suggestions, notify=server.protocol.notify, name=uuid.uuid4().hex[:8])

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        chosen = server.workspace.position_encoding or types.PositionEncodingKind.Utf16
        editor.initialize(params.initialization_options, types.PositionEncodingKind(chosen).value)

    @server.feature(types.INITIALIZED)
    def initialized(_params: types.InitializedParams) -> None:
        editor.ready()

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def configured(params: types.DidChangeConfigurationParams) -> None:
        editor.configure(params.settings)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        editor.opened(params.text_document)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeTextDocumentParams) -> None:
        editor.changed(params)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        editor.closed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_INLINE_COMPLETION, types.InlineCompletionOptions())
    async def inline_completion(params: types.InlineCompletionParams) -> types.InlineCompletionList:
        return await editor.complete(params, server.protocol.msg_id)

    return server


async def serve_stdio(settings: LspSettings, suggestions: Source) -> int:
    """Serve the editor that started this process, until it exits or closes our input; the exit code."""
    LibraryLogs().install()
    output = os.dup(1)
    os.dup2(2, 1)
    server = build_server(settings, suggestions)
    reader = await standard_input()
    log.info("serving", transport="stdio", target=settings.target)
    return await server.converse(reader, DescriptorWriter(output), max_message_bytes=settings.max_message_bytes)


async def serve_tcp(
    settings: LspSettings, suggestions: Source, *, ready: Callable[[int], None] = lambda _port: None
) -> None:
    """Serve editors over TCP until cancelled, each with a server object of its own. Raises AddressUnavailable.

    ready: called with the port once connections are taken.
    """
    LibraryLogs().install()
    clients: set[asyncio.Task[Any]] = set()

    async def connected(reader: asyncio.StreamReader, stream: asyncio.StreamWriter) -> None:
        writer = SocketWriter(stream)
        task = asyncio.current_task()
        if len(clients) >= settings.max_clients or task is None:
            log.warning("connection refused", limit=settings.max_clients, unit="clients")
            writer.close()
            return
        clients.add(task)
        try:
            server = build_server(settings, suggestions)
            await server.converse(reader, writer, max_message_bytes=settings.max_message_bytes)
        finally:
            clients.discard(task)

    try:
        listener = await asyncio.start_server(connected, settings.host, settings.port)
    except OSError as error:
        raise AddressUnavailable(settings.host, settings.port, error.strerror or type(error).__name__) from error
    try:
        port: int = listener.sockets[0].getsockname()[1]
        log.info("serving", transport="tcp", host=settings.host, port=port, target=settings.target)
        ready(port)
        await listener.serve_forever()
    finally:
        listener.close()
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)


def run_stdio(settings: LspSettings, services: Services) -> int:
    """`slipstream lsp`: one editor over standard input and output; the process's exit code."""

    async def serve(services: Services) -> int:
        return await serve_stdio(settings, services)

    return asyncio.run(_until_stopped(serve, services))


def run_tcp(settings: LspSettings, services: Services) -> int:
    """`slipstream lsp --tcp`: editors over TCP until SIGTERM or SIGINT. Raises AddressUnavailable."""

    async def serve(services: Services) -> int:
        await serve_tcp(settings, services)
        return 0

    return asyncio.run(_until_stopped(serve, services))


async def _until_stopped(serve: Callable[[Services], Coroutine[Any, Any, int]], services: Services) -> int:
    """Serve to the end, or until a signal says so, which is an orderly end too."""
    task = asyncio.create_task(serve(services))
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):  # an event loop without signals, as on Windows
            loop.add_signal_handler(name, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        return 0
    finally:
        await services.close()
