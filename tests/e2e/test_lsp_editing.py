"""The language server against a real client over TCP; what completes is scripted, so that its timing is the test's."""

from __future__ import annotations

import json

import pytest
from lsp_bench import Bench, lsp_serving
from lsp_clients import URI, Client, connected
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from decoding.errors import TargetFailed, TargetUnavailable
from lsp_server.settings import LspSettings

CANARY = "canary_4711"


def place(item: types.InlineCompletionItem) -> tuple[int, int, int, int]:
    found = item.range
    assert found is not None
    return found.start.line, found.start.character, found.end.line, found.end.character


async def test_inline_completion_is_offered(bench: Bench) -> None:
    async with connected(bench.port) as client:
        capabilities = (await client.begin()).capabilities
        assert capabilities.inline_completion_provider
        assert capabilities.position_encoding == types.PositionEncodingKind.Utf16
        sync = capabilities.text_document_sync
        assert isinstance(sync, types.TextDocumentSyncOptions)
        assert sync.open_close
        assert sync.change == types.TextDocumentSyncKind.Incremental


async def test_a_suggestion_stands_at_the_cursor(bench: Bench, editor: Client) -> None:
    editor.open("def f():\n    x = '😀'; \n    return x\n")
    (item,) = await editor.ask(1, 14)
    assert (item.insert_text, place(item)) == ("pass", (1, 14, 1, 14))
    request = bench.script.requests[0]
    assert request.prefix == "def f():\n    x = '😀'; "
    assert request.suffix == "\n    return x\n"
    assert (request.language_id, request.path) == ("python", "/project/example.py")


@pytest.mark.parametrize(
    ("encoding", "column"),
    [
        (types.PositionEncodingKind.Utf8, 7),
        (types.PositionEncodingKind.Utf16, 5),
        (types.PositionEncodingKind.Utf32, 4),
    ],
)
async def test_the_clients_favourite_encoding_is_used(
    bench: Bench, encoding: types.PositionEncodingKind, column: int
) -> None:
    async with connected(bench.port) as client:
        result = await client.begin(encodings=["utf-7", encoding])
        assert result.capabilities.position_encoding == encoding
        client.open('x="😋"')
        await client.ask(0, column)
        assert bench.script.requests[0].prefix == 'x="😋'
        client.change("!", (0, column), version=2)
        await client.ask(0, column + 1)
        assert bench.script.requests[1].prefix == 'x="😋!'


async def test_columns_past_the_line_are_its_end_and_lines_past_the_file_are_nothing(
    bench: Bench, editor: Client
) -> None:
    editor.open("ab\r\ncd")
    (item,) = await editor.ask(0, 99)
    assert place(item) == (0, 2, 0, 2)
    (item,) = await editor.ask(1, 99)
    assert place(item) == (1, 2, 1, 2)
    assert await editor.ask(2, 0) == []
    assert len(bench.lines("position outside the file")) == 1


async def test_lines_break_only_where_lsp_says(bench: Bench, editor: Client) -> None:
    editor.open("a\fb\u2028c\x0bd\x85e\nf\n")
    editor.change("X", (1, 1), version=2)
    await editor.ask(1, 2)
    assert bench.script.requests[0].prefix == "a\fb\u2028c\x0bd\x85e\nfX"


async def test_what_the_menu_has_selected_counts_as_typed(bench: Bench, editor: Client) -> None:
    editor.open("import os\nos.pa\nx = 1\n")
    selected = types.SelectedCompletionInfo(range=types.Range(types.Position(1, 3), types.Position(1, 5)), text="path")
    (item,) = await editor.ask(1, 5, selected=selected)
    assert bench.script.requests[0].prefix == "import os\nos.path"
    assert bench.script.requests[0].suffix == "\nx = 1\n"
    assert (item.insert_text, place(item)) == ("pathpass", (1, 3, 1, 5))


async def test_a_newer_request_takes_the_place_of_the_older(bench: Bench, editor: Client) -> None:
    editor.open("a = 1\nb = 2\n")
    bench.script.let.clear()
    older = editor.ask(0, 5)
    first = await bench.script.begun.get()
    newer = editor.ask(1, 5)
    await bench.script.begun.get()
    assert await older == []
    assert bench.script.cancelled == [first]
    bench.script.let.set()
    assert len(await newer) == 1


async def test_requests_for_other_documents_go_on(bench: Bench, editor: Client) -> None:
    editor.open("a = 1\n")
    editor.open("b = 1\n", uri="file:///project/other.py")
    bench.script.let.clear()
    one, other = editor.ask(0, 5), editor.ask(0, 5, uri="file:///project/other.py")
    await bench.script.begun.get()
    await bench.script.begun.get()
    bench.script.let.set()
    assert [len(await one), len(await other)] == [1, 1]
    assert bench.script.cancelled == []


async def test_a_changed_or_closed_document_gets_nothing(bench: Bench, editor: Client) -> None:
    editor.open("a = 1\n")
    for disturb in (lambda: editor.change("2", (0, 5), version=2), editor.close_document):
        bench.script.let.clear()
        answer = editor.ask(0, 5)
        await bench.script.begun.get()
        disturb()
        assert await answer == []
    assert len(bench.script.cancelled) == 2
    assert await editor.ask(0, 5) == []  # closed: nothing is read from disk


async def test_cancelling_answers_so_and_stops_the_work(bench: Bench, editor: Client) -> None:
    editor.open("a = 1\n")
    bench.script.let.clear()
    answer = editor.ask(0, 5)
    request = await bench.script.begun.get()
    editor.cancel(editor.last_id)
    with pytest.raises(JsonRpcException) as caught:
        await answer
    assert caught.value.code == types.LSPErrorCodes.RequestCancelled
    assert bench.script.cancelled == [request]
    assert not [line for line in bench.log if line["log_level"] in ("warning", "error")]


async def test_a_late_suggestion_is_dropped() -> None:
    async with lsp_serving(LspSettings(port=0, deadline_ms=1)) as bench, connected(bench.port) as client:
        await client.begin()
        client.open("a = 1\n")
        bench.script.let.clear()
        assert await client.ask(0, 5) == []
        assert [line["outcome"] for line in bench.lines("completion")] == ["late"]


@pytest.mark.parametrize(
    "failure", [TargetFailed("broke"), TargetUnavailable("gone"), RuntimeError(CANARY), ValueError(CANARY)]
)
async def test_failures_are_empty_answers_and_no_dialogs(bench: Bench, editor: Client, failure: Exception) -> None:
    editor.open("a = 1\n")
    bench.script.answer = failure
    assert await editor.ask(0, 5) == []
    bench.script.answer = "pass"
    assert len(await editor.ask(0, 5)) == 1
    assert editor.shown == []
    assert CANARY not in json.dumps(bench.log, default=str)


@pytest.mark.parametrize(
    ("text", "reason"), [("x" * 1001, "too large"), ("a\0b", "binary content"), ("é" * 501, "too large")]
)
async def test_some_documents_are_silent(bench: Bench, editor: Client, text: str, reason: str) -> None:
    editor.open(text)
    for _ in range(2):
        assert await editor.ask(0, 1) == []
    assert [line["reason"] for line in bench.lines("no suggestions in document")] == [reason]
    editor.change("y", (0, 0), version=2)
    assert await editor.ask(0, 1) == []
    editor.change("a = 1", version=3)
    assert len(await editor.ask(0, 5)) == 1
    assert len(bench.lines("no suggestions in document")) == 1


async def test_private_files_are_never_read(bench: Bench, editor: Client) -> None:
    editor.open("SECRET=1\n", uri="file:///project/.env.local")
    assert await editor.ask(0, 7, uri="file:///project/.env.local") == []
    editor.open("a = 1\n")
    await editor.ask(0, 5)
    assert bench.script.requests[0].buffers == ()


async def test_other_files_of_the_language_are_there_to_look_up(bench: Bench, editor: Client) -> None:
    editor.open("one = 1\n", uri="file:///project/one.py")
    editor.open("two = 2\n", uri="file:///project/two.py")
    editor.open("fn three() {}\n", uri="file:///project/three.rs", language="rust")
    editor.open("a = 1\n")
    await editor.ask(0, 5)
    assert [buffer.text for buffer in bench.script.requests[0].buffers] == ["two = 2\n", "one = 1\n"]


async def test_half_a_character_from_the_editor_is_no_harm(bench: Bench, editor: Client) -> None:
    editor.open("a = '\ud83d'\n")
    (item,) = await editor.ask(0, 7)
    assert place(item) == (0, 7, 0, 7)


async def test_blank_documents_get_nothing(bench: Bench, editor: Client) -> None:
    editor.open("\n\n  ")
    assert await editor.ask(2, 2) == []
    assert bench.script.requests == []


async def test_the_first_lines_tell_the_language_however_far_down_the_cursor_is(bench: Bench) -> None:
    async with connected(bench.port) as client:
        await client.begin({"prompt_tokens": 16})
        client.open("#!/usr/bin/env ruby\n" + "x = 1 + 2\n" * 90 + "y", uri="file:///project/run", language="plaintext")
        await client.ask(91, 1, uri="file:///project/run")
    assert "ruby" not in bench.script.requests[0].prefix
    assert bench.script.requests[0].language_id == "ruby"


async def test_an_untitled_document_is_completed(bench: Bench, editor: Client) -> None:
    editor.open("a = 1\n", uri="untitled:Untitled-1")
    assert len(await editor.ask(0, 5, uri="untitled:Untitled-1")) == 1


async def test_streaming_is_told_to_those_who_ask(bench: Bench) -> None:
    async with connected(bench.port) as client:
        await client.begin({"stream": True})
        client.open("a = 1\n")
        (item,) = await client.ask(0, 5)
        (first, tokens), (last, completed) = client.told
    assert (first, last) == ("slipstream/tokens", "slipstream/completed")
    assert tokens.uri == URI
    assert tokens.version == 1
    assert tokens.text == item.insert_text == completed.text
    assert [(piece.token, piece.source, piece.text) for piece in tokens.pieces] == [(7, "lookup", "pass")]
    assert tokens.requestId == completed.requestId == bench.script.requests[0].request_id
    assert completed.statistics.acceptedTokens == 1
    assert completed.seed == str(2**64 - 1)


async def test_who_does_not_ask_is_told_nothing(bench: Bench, editor: Client) -> None:
    editor.open("a = 1\n")
    await editor.ask(0, 5)
    assert editor.told == []


async def test_wrong_settings_fall_back_with_a_message_each(bench: Bench) -> None:
    async with connected(bench.port) as client:
        await client.begin({"max_tokens": -1, "temperature": "hot", "max_lines": 2})
        client.open("a = 1\n")
        await client.ask(0, 5)
        assert len(client.logged) == 2
        stop = bench.script.requests[0].stop
        assert (stop.max_tokens, stop.max_lines) == (64, 2)
        client.workspace_did_change_configuration(
            types.DidChangeConfigurationParams(settings={"slipstream": {"max_tokens": 9, "drafting": False}})
        )
        await client.ask(0, 5)
        request = bench.script.requests[1]
        assert (request.stop.max_tokens, request.stop.max_lines, request.drafting) == (9, 2, False)
        assert client.shown == []
