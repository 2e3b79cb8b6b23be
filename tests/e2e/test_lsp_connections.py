"""The language server's connections: several editors, vanished ones, malformed messages, outages."""

from __future__ import annotations

import asyncio
import json

import pytest
from lsp_bench import Bench, lsp_serving
from lsp_clients import Client, connected
from lsprotocol import types

from decoding.errors import TargetUnavailable
from lsp_server.errors import AddressUnavailable
from lsp_server.server import serve_tcp
from lsp_server.settings import LspSettings

CANARY = "canary_4711"


async def test_editors_do_not_see_each_other(bench: Bench, editor: Client) -> None:
    async with connected(bench.port) as other:
        await other.begin()
        editor.open("a = 1\n")
        assert await other.ask(0, 5) == []
        await other.end()
    assert len(await editor.ask(0, 5)) == 1


async def test_one_client_too_many_is_refused(bench: Bench, editor: Client) -> None:
    async with connected(bench.port) as second:
        await second.begin()
        reader, writer = await asyncio.open_connection("127.0.0.1", bench.port)
        assert await reader.read() == b""
        writer.close()
    assert len(bench.lines("connection refused")) == 1


async def test_a_vanished_editors_work_is_stopped(bench: Bench, editor: Client) -> None:
    editor.open("a = 1\n")
    async with connected(bench.port) as other:
        await other.begin()
        other.open("a = 1\n")
        bench.script.let.clear()
        answer = other.ask(0, 5)
        request = await bench.script.begun.get()
    answer.cancel()
    other_answer = editor.ask(0, 5)
    await bench.script.begun.get()
    assert await bench.script.stopped.get() == request
    bench.script.let.set()
    assert len(await other_answer) == 1


def framed(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


async def test_malformed_messages_are_answered_and_survived(bench: Bench) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", bench.port)

    async def answer() -> dict[str, object]:
        header = await reader.readuntil(b"\r\n\r\n")
        length = int(header.split(b"Content-Length: ")[1].split(b"\r\n")[0])
        found = json.loads(await reader.readexactly(length))
        assert isinstance(found, dict)
        return found

    writer.write(framed(b"{" + CANARY.encode()))
    assert (await answer())["error"]["code"] == types.ErrorCodes.ParseError  # type: ignore[index]
    writer.write(framed(b'\xff\xfe"' + CANARY.encode()))
    assert (await answer())["error"]["code"] == types.ErrorCodes.ParseError  # type: ignore[index]
    writer.write(framed(b"[]"))
    ask = {"jsonrpc": "2.0", "id": 5, "method": "textDocument/inlineCompletion", "params": {"position": CANARY}}
    writer.write(framed(json.dumps(ask).encode()))
    wrong = await answer()
    assert (wrong["id"], wrong["error"]["code"]) == (5, types.ErrorCodes.InvalidParams)  # type: ignore[index]
    unknown = {"jsonrpc": "2.0", "id": 6, "method": "textDocument/" + CANARY, "params": {}}
    writer.write(framed(json.dumps(unknown).encode()))
    assert (await answer())["error"]["code"] == types.ErrorCodes.MethodNotFound  # type: ignore[index]
    change = {"jsonrpc": "2.0", "method": "textDocument/didChange", "params": {"textDocument": CANARY}}
    writer.write(framed(json.dumps(change).encode()))
    begin = {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {"capabilities": {}, "processId": None}}
    writer.write(framed(json.dumps(begin).encode()))
    assert "capabilities" in (await answer())["result"]  # type: ignore[operator]
    writer.write(b"nonsense\r\n\r\n")
    assert await reader.read() == b""
    writer.close()
    assert CANARY not in json.dumps(bench.log, default=str)


async def test_a_message_over_the_limit_is_skipped() -> None:
    async with lsp_serving(LspSettings(port=0, max_message_bytes=2**16)) as bench, connected(bench.port) as client:
        await client.begin()
        client.open("x" * 2**16, uri="file:///large.py")
        client.open("a = 1\n")
        assert await client.ask(0, 0, uri="file:///large.py") == []
        assert len(await client.ask(0, 5)) == 1
        assert len(bench.lines("message skipped")) == 1


async def test_an_outage_is_one_line(bench: Bench, editor: Client) -> None:
    editor.open("a = 1\n")
    for _ in range(2):
        bench.script.answer = TargetUnavailable("loading")
        for _ in range(3):
            assert await editor.ask(0, 5) == []
        bench.script.answer = "pass"
        await editor.ask(0, 5)
    levels = [line["log_level"] for line in bench.lines("completion")]
    assert levels == ["info", "debug", "debug", "info"] * 2


async def test_a_taken_port_is_said_with_what_to_do(bench: Bench) -> None:
    with pytest.raises(AddressUnavailable, match=f"127.0.0.1:{bench.port} .* --port"):
        await serve_tcp(LspSettings(port=bench.port), lambda _: bench.script)
