"""Messages that reach the language server in one burst: each is answered as of its place in the order."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from decoding.errors import TargetUnavailable
from lsp_server.server import serve_tcp
from lsp_server.settings import LspSettings
from lsp_server.suggestion import CompletionRequest, CompletionResult

URI = "file:///project/example.py"


class Recorder:
    """Keeps what it is asked, and has no target."""

    def __init__(self) -> None:
        self.prefixes: list[str] = []

    def warm(self) -> None:
        pass

    async def complete(self, request: CompletionRequest, **_: Any) -> CompletionResult:
        self.prefixes.append(request.prefix)
        await asyncio.sleep(0)
        raise TargetUnavailable("none here")


def frame(method: str, params: Any, message_id: int | None = None) -> bytes:
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    body = json.dumps(message if message_id is None else message | {"id": message_id}).encode()
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def asking(message_id: int, line: int, character: int) -> bytes:
    return frame(
        "textDocument/inlineCompletion",
        {
            "textDocument": {"uri": URI},
            "position": {"line": line, "character": character},
            "context": {"triggerKind": 2},
        },
        message_id,
    )


def opening(text: str) -> bytes:
    item = {"uri": URI, "languageId": "python", "version": 1, "text": text}
    return frame("textDocument/didOpen", {"textDocument": item})


def changing(text: str, version: int) -> bytes:
    return frame(
        "textDocument/didChange",
        {"textDocument": {"uri": URI, "version": version}, "contentChanges": [{"text": text}]},
    )


async def exchange(port: int, burst: bytes, last: int) -> dict[int, dict[str, Any]]:
    """Send all at once; the answers by id, until that of request `last` has come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(frame("initialize", {"capabilities": {}, "processId": None, "rootUri": None}, 0) + burst)
    answers: dict[int, dict[str, Any]] = {}
    while last not in answers:
        header = await reader.readuntil(b"\r\n\r\n")
        length = int(header.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        message = json.loads(await reader.readexactly(length))
        if "id" in message:
            answers[message["id"]] = message
    writer.close()
    await writer.wait_closed()
    return answers


@pytest.fixture
async def served() -> Any:
    recorder = Recorder()
    port = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve_tcp(LspSettings(port=0), lambda _: recorder, ready=port.set_result))
    yield recorder, await port
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_request_never_sees_a_change_that_came_after_it(served: Any) -> None:
    recorder, port = served
    burst = opening("alpha = 1\n") + asking(1, 0, 5) + changing("# another text\n", 2)
    answers = await exchange(port, burst, 1)
    assert answers[1]["result"]["items"] == []
    assert all(prefix == "alpha" for prefix in recorder.prefixes)


async def test_a_request_cancelled_in_the_same_burst_is_answered_so(served: Any) -> None:
    _, port = served
    burst = opening("alpha = 1\n") + asking(1, 0, 5) + frame("$/cancelRequest", {"id": 1})
    answers = await exchange(port, burst, 1)
    assert answers[1]["error"]["code"] == -32800


async def test_every_request_of_a_storm_is_answered_once_and_none_sees_another_text(served: Any) -> None:
    recorder, port = served
    burst = opening("x1")
    for version in range(2, 102):
        burst += changing(f"x{version}", version) + asking(version, 0, 99)
    answers = await exchange(port, burst, 101)
    assert sorted(answers)[1:] == list(range(2, 102))
    assert all(answer["result"]["items"] == [] for number, answer in answers.items() if number)
    assert set(recorder.prefixes) <= {f"x{version}" for version in range(2, 102)}
