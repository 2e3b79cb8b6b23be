"""Clients that are gone without a word: killed, cut off, or no longer reading. Their sequences are freed."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
from grpc import aio
from serving import PROMPT, Cable, Serving, Stream, eventually, local, opening, serving
from tiny_serving import engine_of, run_to_end, tiny_served

from decoding.drafting import Draft
from decoding.stopping import StopRules
from decoding.verdict import Opened, Verdict
from slipstream import services
from slipstream.opening import RunMessage
from target_server.lifecycle import Served
from target_server.model import Model
from target_server.steps import Outcome, Segment

SCRIPT = Path(__file__).parent.parent / "hold_stream.py"
LONG = 200
STEP_S = 0.05


class Jam(Cable):
    """A cable that, cut, does not even take what is sent: both ends' buffers fill up."""

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(2**16):
            if self.cut.is_set():
                await asyncio.Event().wait()
            writer.write(data)
            await writer.drain()


@pytest.fixture(scope="module")
def served(tiny_model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with tiny_served(tiny_model_folder, tmp_path_factory.mktemp("cache")) as served:
        yield served


@pytest.fixture
async def running(served: Served) -> AsyncIterator[Serving]:
    async with serving(served, settings=local(keepalive_ms=1000, keepalive_timeout_ms=1000)) as started:
        yield started


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that take long enough for a run to be still on when its client is missed."""
    step = Model.step

    def slowed(model: Model, segments: Sequence[Segment], *, total: int) -> list[Outcome]:
        time.sleep(STEP_S)
        return step(model, segments, total=total)

    monkeypatch.setattr(Model, "step", slowed)


async def _freed(running: Serving, served: Served) -> None:
    """As if it had been cancelled: nothing is held, it is counted once, and the next one is served."""
    engine = engine_of(served)
    slots = engine.free_slots + engine.open_sessions
    await eventually(lambda: engine.open_sessions == 0)
    assert engine.free_slots == slots
    await eventually(lambda: running.total("errors_total", status="CANCELLED") == 1)
    assert running.total("requests_total") == 1
    assert running.total("open_sessions") == 0
    assert running.server.lifecycle.open_calls == 0
    assert running.total("emitted_tokens_total") < LONG
    assert len(await run_to_end(running.target, served)) == 24


@pytest.mark.parametrize("tokens", [0, LONG], ids=["idle", "running"])
@pytest.mark.usefixtures("slow")
async def test_a_killed_client_frees_its_sequence(
    running: Serving, served: Served, tiny_model_folder: Path, tokens: int
) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(SCRIPT), running.addresses.grpc, str(tiny_model_folder), str(tokens)),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), 60) == b"open\n"
        assert engine_of(served).open_sessions == 1
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()
    await _freed(running, served)


@pytest.mark.parametrize("kind", [Cable, Jam])
@pytest.mark.parametrize("tokens", [0, LONG], ids=["idle", "running"])
@pytest.mark.usefixtures("slow")
async def test_a_half_open_connection_is_noticed(
    running: Serving, served: Served, kind: type[Cable], tokens: int
) -> None:
    async with kind(running.addresses.grpc) as cable, aio.insecure_channel(cable.address) as channel:
        stream = Stream(services.target_stub(channel))
        await stream.send(opening(PROMPT, served.vocabulary.fingerprint, stop=StopRules(max_tokens=LONG)))
        assert isinstance(await stream.answer(), Opened)
        if tokens:
            await stream.send(RunMessage(limit=tokens))
            assert isinstance(await stream.answer(), Verdict)
        cable.cut.set()
        await _freed(running, served)


async def test_a_client_that_vanishes_from_the_line_gives_its_place_up(running: Serving, served: Served) -> None:
    engine = engine_of(served)
    holders = [Stream(running.target) for _ in range(2)]
    for holder in holders:
        await holder.send(opening(PROMPT, served.vocabulary.fingerprint))
        assert isinstance(await holder.answer(), Opened)
    async with Cable(running.addresses.grpc) as cable, aio.insecure_channel(cable.address) as channel:
        waiting = Stream(services.target_stub(channel))
        await waiting.send(opening(PROMPT, served.vocabulary.fingerprint))
        await eventually(lambda: engine.waiting_requests == 1)
        cable.cut.set()
        await eventually(lambda: engine.waiting_requests == 0)
    for holder in holders:  # who was there before is still served
        await holder.send(Draft(position=len(PROMPT), tokens=(), sampling_fingerprint=""))
        assert isinstance(await holder.answer(), Verdict)
        await holder.close()
        await holder.rest()
    await eventually(lambda: engine.open_sessions == 0)


@pytest.mark.usefixtures("slow")
async def test_a_client_that_reads_nothing_holds_nobody_up(running: Serving, served: Served) -> None:
    """Its answers wait in bounded buffers; the others' outputs come, and are what they were."""
    expected = await run_to_end(running.target, served)
    async with Jam(running.addresses.grpc) as cable, aio.insecure_channel(cable.address) as channel:
        stream = Stream(services.target_stub(channel))
        await stream.send(opening(PROMPT, served.vocabulary.fingerprint, stop=StopRules(max_tokens=LONG)))
        await stream.send(RunMessage(limit=LONG))
        assert isinstance(await stream.answer(), Opened)
        cable.cut.set()
        assert await run_to_end(running.target, served) == expected
        await eventually(lambda: engine_of(served).open_sessions == 0)
