"""The target as a process: signals, ports in use, and what it says of them."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import grpc
import pytest
from grpc import aio
from serving import PROMPT, Stream, opening, refusal
from toy_serving import toy_vocabulary

from decoding.stopping import StopRules
from decoding.verdict import Finished, FinishReason
from drafts.vocabulary import Vocabulary
from slipstream import services, wire
from slipstream.opening import RunMessage

SCRIPT = Path(__file__).parent.parent / "serve_toy.py"
Start = Callable[..., Awaitable[Process]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy_process")
    toy_vocabulary(folder)
    return folder


@pytest.fixture
async def start(folder: Path) -> AsyncIterator[Start]:
    started: list[Process] = []

    async def start(port: int = 0, http_port: int = 0) -> Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(SCRIPT), str(folder), str(port), str(http_port), stdin=PIPE, stdout=PIPE, stderr=PIPE
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _addresses(process: Process) -> list[str]:
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), 60)
    return line.decode().split()


async def _open(channel: aio.Channel, folder: Path, *, max_tokens: int = 2) -> Stream:
    stream = Stream(services.target_stub(channel))
    fingerprint = Vocabulary.load(folder).fingerprint
    await stream.send(opening(PROMPT, fingerprint, stop=StopRules(max_tokens=max_tokens)))
    await stream.send(RunMessage(limit=max_tokens))
    await stream.answer()
    return stream


async def _until_unavailable(channel: aio.Channel) -> None:
    """The signal is on its way, so some calls may still be answered."""
    for _ in range(1000):
        call = services.target_stub(channel).Describe(wire.describe_request())
        if await call.code() is grpc.StatusCode.UNAVAILABLE:
            return
    raise AssertionError("the signal had no effect")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_drains_and_exits_with_0(start: Start, folder: Path, number: signal.Signals) -> None:
    process = await start()
    (grpc_address, _) = await _addresses(process)
    async with aio.insecure_channel(grpc_address) as channel:
        held = await _open(channel, folder)
        process.send_signal(number)
        await _until_unavailable(channel)
        assert process.stdin is not None
        process.stdin.write(b"12")
        answers = await held.rest()
        assert isinstance(answers[-1], Finished)
        assert answers[-1].reason is FinishReason.TOKEN_LIMIT
    _, logs = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 0
    events = [json.loads(line)["event"] for line in logs.splitlines()]
    assert events[:2] == ["loading", "serving"]
    assert events[-1] == "stopped"


async def test_a_second_signal_does_not_wait(start: Start, folder: Path) -> None:
    process = await start()
    (grpc_address, _) = await _addresses(process)
    async with aio.insecure_channel(grpc_address) as channel:
        held = await _open(channel, folder)  # it never ends by itself
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        await refusal(held)
    assert await asyncio.wait_for(process.wait(), 15) == 0


@pytest.mark.parametrize("which", ["port", "http_port"])
async def test_a_port_in_use_is_said_and_exits_with_1(start: Start, which: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = await start(**{which: port})
        out, logs = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 1
    assert out == b""
    assert logs.decode() == (
        f"error: target.{which}: 127.0.0.1:{port} is in use: stop what listens there, or set another one "
        "(0 takes a free one)\n"
    )


async def test_two_targets_do_not_share_a_port(start: Start) -> None:
    (grpc_address, _) = await _addresses(await start())
    second = await start(port=int(grpc_address.rsplit(":", 1)[1]))
    _, logs = await asyncio.wait_for(second.communicate(), 60)
    assert second.returncode == 1
    assert b"is in use" in logs
