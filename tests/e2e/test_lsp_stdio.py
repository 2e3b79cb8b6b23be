"""The language server as editors start it, a process on standard input and output, against a real target server."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from lsp_clients import Client
from lsprotocol import types
from serving import Serving, local, serving
from toy_serving import ToyTarget, toy_served

from drafts.settings import DraftSettings
from drafts.vocabulary import Vocabulary
from target_server.loading import load

CANARY = "canary_4711"
CODE = f"def {CANARY}(values):\n    total = 0\n    for value in values:\n        total += value\n    return "
END = (4, 11)
WAIT_S = 30


class Running(Client):
    """A client whose server is a process; its standard error is read to the end."""

    process: asyncio.subprocess.Process
    errors: asyncio.Task[bytes]

    async def start(self, settings: dict[str, Any], cache: Path) -> None:
        config = cache / "slipstream.toml"
        lines = (f"{name} = {json.dumps(value)}" for name, value in settings.items())
        config.write_text(
            "\n".join(("[drafts]", 'kind = "lookup"', "[log]", 'format = "json"', 'level = "debug"', "[lsp]", *lines))
        )
        environment = os.environ | {"SLIPSTREAM_CACHE": str(cache)}
        await self.start_io(sys.executable, "-m", "cli", "lsp", "--config", str(config), env=environment)
        assert self._server is not None
        assert self._server.stderr is not None
        self.process = self._server
        self.errors = asyncio.create_task(self._server.stderr.read())

    async def log(self) -> list[dict[str, Any]]:
        """What the ended server has logged; anything else on standard error fails."""
        return [json.loads(line) for line in (await self.errors).decode().splitlines()]

    async def code(self) -> int:
        return await asyncio.wait_for(self.process.wait(), WAIT_S)


@asynccontextmanager
async def editing(tmp_path: Path, **settings: Any) -> AsyncIterator[Running]:
    client = Running()
    await client.start(settings, tmp_path)
    try:
        yield client
        if client.process.returncode is None:
            await client.end()
            assert await client.code() == 0
    finally:
        if client.process.returncode is None:
            client.process.kill()
        await client.stop()


def address(running: Serving) -> str:
    return running.addresses.grpc


async def test_drafts_change_nothing_but_the_work(tmp_path: Path, running: Serving, target: ToyTarget) -> None:
    async with editing(tmp_path, target=address(running), max_tokens=40, seed=3) as editor:
        await editor.begin({"stream": True})
        editor.open(CODE)
        outputs = []
        for options in (
            {"placement": "edge"},
            {"placement": "server"},
            {"drafting": False},
            {"placement": "edge", "temperature": 0.7},
            {"drafting": False, "temperature": 0.7},
        ):
            editor.workspace_did_change_configuration(types.DidChangeConfigurationParams({"slipstream": options}))
            editor.told.clear()
            (item,) = await editor.ask(*END)
            assert item.range == types.Range(types.Position(*END), types.Position(*END))
            deltas = [told for method, told in editor.told if method == "slipstream/tokens"]
            (completed,) = [told for method, told in editor.told if method == "slipstream/completed"]
            assert completed.text == item.insert_text
            assert "".join(told.text for told in deltas).startswith(str(item.insert_text))
            assert [piece.token for told in deltas for piece in told.pieces] == completed.tokens
            assert len(completed.tokens) == completed.statistics.emittedTokens == 40
            outputs.append(completed)
    edge, server, plain, warm, warm_plain = outputs
    assert (edge.mode, server.mode, plain.mode) == ("edge", "server", "plain")
    assert edge.tokens == server.tokens == plain.tokens
    assert warm.tokens == warm_plain.tokens != plain.tokens
    assert edge.statistics.acceptedTokens > 0
    assert edge.statistics.verifySteps < plain.statistics.verifySteps == 40
    assert running.total("emitted_tokens_total", language="python") == 200
    log = await editor.log()
    assert CANARY not in json.dumps(log)
    lines = [line for line in log if line["event"] == "completion"]
    assert [line["emitted"] for line in lines] == [40] * 5
    assert len({line["request"] for line in lines}) == 5


async def test_a_newer_request_frees_the_older_at_the_target(
    tmp_path: Path, running: Serving, target: ToyTarget
) -> None:
    held = asyncio.Event()
    async with editing(tmp_path, target=address(running)) as editor:
        await editor.begin()
        editor.open(CODE)
        target.before_step = held.wait
        older = editor.ask(*END)
        await target.until(lambda: target.open_now == 1)
        newer = editor.ask(*END)
        await target.until(lambda: target.opened_ever == 2)
        assert await older == []
        await target.until(lambda: target.open_now == 1)
        held.set()
        assert len(await newer) == 1
        await target.until(lambda: target.open_now == 0)


async def test_cancelling_frees_the_sequence_at_the_target(tmp_path: Path, running: Serving, target: ToyTarget) -> None:
    async with editing(tmp_path, target=address(running)) as editor:
        await editor.begin()
        editor.open(CODE)
        target.before_step = asyncio.Event().wait
        for stop in (
            lambda: editor.cancel(editor.last_id),
            lambda: editor.change("x", END, version=2),
            editor.close_document,
        ):
            editor.open(CODE)
            answer = editor.ask(*END)
            await target.until(lambda: target.open_now == 1)
            stop()
            await target.until(lambda: target.open_now == 0)
            await asyncio.wait([answer])
    log = await editor.log()
    assert [line for line in log if line["level"] in ("warning", "error")] == []


async def test_the_deadline_reaches_the_target(tmp_path: Path, running: Serving, target: ToyTarget) -> None:
    async with editing(tmp_path, target=address(running)) as editor:
        await editor.begin()
        editor.open(CODE)
        assert len(await editor.ask(*END)) == 1
        target.before_step = asyncio.Event().wait
        editor.workspace_did_change_configuration(
            types.DidChangeConfigurationParams({"slipstream": {"deadline_ms": 300}})
        )
        assert await editor.ask(*END) == []
        await target.until(lambda: target.open_now == 0)


async def test_an_unreachable_target_is_one_line_and_comes_back(tmp_path: Path, vocabulary: Vocabulary) -> None:
    async with serving(toy_served(vocabulary, ToyTarget(vocabulary))) as first:
        settings = local(port=int(address(first).rpartition(":")[2]))
    async with editing(tmp_path, target=f"127.0.0.1:{settings.port}") as editor:
        await editor.begin()
        editor.open(CODE)
        for _ in range(5):
            assert await editor.ask(*END) == []
        async with serving(toy_served(vocabulary, ToyTarget(vocabulary)), settings=settings):
            while not await editor.ask(*END):
                pass
        assert editor.shown == []
    log = await editor.log()
    assert len([line for line in log if line["level"] == "warning"]) <= 2  # one an outage: before, and after
    assert not [line for line in log if line["level"] == "error"]


async def test_a_huge_file_is_silent_and_harms_nothing(tmp_path: Path, running: Serving, target: ToyTarget) -> None:
    async with editing(tmp_path, target=address(running), connect_timeout_ms=60_000) as editor:  # our loop is busy
        await editor.begin()
        editor.open("x = 1\n" * (50 * 2**20 // 6), uri="file:///huge.py")
        editor.open("\0" * 1000, uri="file:///binary.py")
        editor.open(CODE)
        assert await editor.ask(0, 5, uri="file:///huge.py") == []
        assert await editor.ask(0, 5, uri="file:///binary.py") == []
        editor.change("x", (0, 0), uri="file:///huge.py", version=2)
        assert len(await editor.ask(*END)) == 1
    assert target.opened_ever == 1


@pytest.mark.parametrize("begun", [False, True])
async def test_closing_its_input_ends_the_server(
    tmp_path: Path, running: Serving, target: ToyTarget, begun: bool
) -> None:
    async with editing(tmp_path, target=address(running)) as editor:
        if begun:
            await editor.begin()
            editor.open(CODE)
            target.before_step = asyncio.Event().wait
            answer = editor.ask(*END)
            await target.until(lambda: target.open_now == 1)
            answer.cancel()
        assert editor.process.stdin is not None
        editor.process.stdin.close()
        assert await editor.code() == 0
        await target.until(lambda: target.open_now == 0)
        log = await editor.log()
    assert [line for line in log if line["level"] in ("warning", "error")] == []


async def test_exit_without_shutdown_is_an_error(tmp_path: Path) -> None:
    async with editing(tmp_path) as editor:
        await editor.begin()
        editor.exit(None)
        assert await editor.code() == 1


async def test_sigterm_ends_the_server_though_its_input_is_open(tmp_path: Path) -> None:
    async with editing(tmp_path) as editor:
        await editor.begin()
        editor.process.terminate()
        assert await editor.code() == 0


async def test_a_real_models_suggestions_are_the_same_drafted_and_plain(
    tmp_path: Path, tiny_model_folder: Path
) -> None:
    settings = local(model=str(tiny_model_folder), context_tokens=256, prompt_tokens=160, sessions=2, threads=1)
    served = await asyncio.to_thread(load, settings, DraftSettings(), cache_folder=tmp_path)
    async with (
        serving(served, settings=settings) as running,
        editing(tmp_path, target=address(running), max_tokens=48, placement="edge") as editor,
    ):
        await editor.begin({"stream": True})
        editor.open(CODE)
        for temperature in (0, 0.8):
            told = []
            for drafting in (True, False):
                options = {"temperature": temperature, "drafting": drafting}
                editor.workspace_did_change_configuration(types.DidChangeConfigurationParams({"slipstream": options}))
                await editor.ask(*END)
                told.append(editor.told[-1][1])
            drafted, plain = told
            assert (drafted.mode, plain.mode) == ("edge", "plain")
            assert drafted.tokens == plain.tokens
            assert drafted.text == plain.text
            assert drafted.statistics.verifySteps <= plain.statistics.verifySteps
