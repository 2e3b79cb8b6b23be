"""The whole target with a real, tiny language model behind it: text in, speculated text out, and sequences freed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from grpc import aio
from serving import Serving, Stream, eventually, local, opening, serving

from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules
from decoding.verdict import Finished, Verdict
from drafts.settings import DraftSettings
from slipstream import services, wire
from slipstream.completion import CompletionRequest
from slipstream.opening import RunMessage
from target_server.engine import Engine
from target_server.lifecycle import Served
from target_server.loading import load
from target_server.model import Model
from target_server.steps import Outcome, Segment

PREFIX = "class Limits:\n    def __init__(self, sessions: int) -> None:\n        self."


@pytest.fixture(scope="module")
def served(tiny_model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    settings = local(model=str(tiny_model_folder), context_tokens=256, prompt_tokens=128, sessions=2, threads=1)
    loaded = load(settings, DraftSettings(), cache_folder=tmp_path_factory.mktemp("cache"))

    async def stays_open() -> None:
        """For the next test."""

    yield replace(loaded, close=stays_open)
    asyncio.run(loaded.close())


@pytest.fixture
async def running(served: Served) -> AsyncIterator[Serving]:
    async with serving(served) as started:
        yield started


def _engine(served: Served) -> Engine:
    assert isinstance(served.target, Engine)
    return served.target


def _asking(*, plain: bool = False, temperature: float = 0.0, max_tokens: int = 64) -> CompletionRequest:
    return CompletionRequest(
        prefix=PREFIX,
        language="python",
        sampling=SamplingConfig(temperature=temperature, seed=11),
        stop=StopRules(max_tokens=max_tokens),
        plain=plain,
    )


class Turnstile:
    """Counts the model's decode steps, and lets so many through; the next one waits on the device thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, steps: int) -> None:
        self.permits = threading.Semaphore(steps)
        self.begun = 0
        self.waiting = threading.Event()
        step = Model.step

        def counted(model: Model, segments: Sequence[Segment], *, total: int) -> list[Outcome]:
            if any(not segment.prefill for segment in segments):
                self.begun += 1
                if not self.permits.acquire(blocking=False):
                    self.waiting.set()
                    self.permits.acquire(timeout=20)
            return step(model, segments, total=total)

        monkeypatch.setattr(Model, "step", counted)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
async def test_speculated_text_is_the_plain_text(running: Serving, temperature: float) -> None:
    _, plain, plainly = await running.complete(_asking(plain=True, temperature=temperature))
    started, drafted, finished = await running.complete(_asking(temperature=temperature))
    assert started.drafter == "lookup"  # the shipped tables are of another tokenizer
    assert "".join(delta.text for delta in drafted) == "".join(delta.text for delta in plain)
    assert [token for delta in drafted for token in delta.tokens] == [
        token for delta in plain for token in delta.tokens
    ]
    assert plainly.statistics.drafted_tokens == 0
    assert finished.statistics.emitted_tokens == plainly.statistics.emitted_tokens
    if temperature == 0:
        assert finished.statistics.accepted_tokens > 0
        assert finished.statistics.verify_steps < plainly.statistics.verify_steps


async def test_counters_are_the_sums_of_all_requests(running: Serving, served: Served) -> None:
    answers = await asyncio.gather(*(running.complete(_asking(plain=number == 0)) for number in range(3)))
    stream = Stream(running.target)
    prompt = served.vocabulary.encode(PREFIX)
    await stream.send(opening(prompt, served.vocabulary.fingerprint))
    await stream.send(RunMessage(limit=24, drafter="lookup"))
    run = (await stream.rest())[-1]
    assert isinstance(run, Finished)
    finished = [*(answer[2] for answer in answers), run]
    for field in ("prompt", "cached", "drafted", "judged", "accepted", "emitted"):
        expected = sum(getattr(each.statistics, f"{field}_tokens") for each in finished)
        assert running.total(f"{field}_tokens_total") == expected, field
    assert running.total("verify_steps_total") == sum(each.statistics.verify_steps for each in finished)
    first_tokens = sum(each.first_token_us for each in finished) / 1e6
    assert running.total("time_to_first_token_seconds_sum") == pytest.approx(first_tokens)


@pytest.mark.parametrize("method", ["decode", "complete"])
async def test_a_cancel_mid_stream_frees_the_slot_within_one_step(
    running: Serving, served: Served, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    turnstile = Turnstile(monkeypatch, steps=3)
    if method == "decode":
        stream = Stream(running.target)
        await stream.send(opening(served.vocabulary.encode(PREFIX), served.vocabulary.fingerprint))
        await stream.send(RunMessage(limit=24))
        call = stream.call
    else:
        stub = services.completion_stub(running.channel)
        call = stub.Complete(wire.completion_request_message(_asking(plain=True)))
    for _ in range(4):
        assert await call.read() is not aio.EOF
    assert await asyncio.to_thread(turnstile.waiting.wait, 20)
    engine = _engine(served)
    assert engine.open_sessions == 1
    call.cancel()  # while the fourth step is on the device
    await eventually(lambda: running.total("errors_total", status="CANCELLED") == 1)
    turnstile.permits.release()
    await eventually(lambda: engine.open_sessions == 0)
    monkeypatch.undo()
    await running.complete(_asking())  # the slot is of use again
    assert turnstile.begun == 4
    assert running.total("emitted_tokens_total", drafter="none") == 3


async def test_a_crash_in_the_model_ends_its_request_only(
    running: Serving, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("CUDA error over canary")

    _, expected, _ = await running.complete(_asking())
    monkeypatch.setattr(Model, "step", broken)
    with pytest.raises(aio.AioRpcError) as raised:
        await running.complete(_asking())
    assert raised.value.code() is grpc.StatusCode.INTERNAL
    assert "canary" not in str(raised.value.details())
    monkeypatch.undo()
    _, again, _ = await running.complete(_asking())
    assert again == expected
    assert _engine(served).open_sessions == 0


async def test_more_requests_than_slots_wait_their_turn(running: Serving) -> None:
    answers = await asyncio.gather(*(running.complete(_asking(max_tokens=16)) for _ in range(6)))
    texts = {"".join(delta.text for delta in deltas) for _, deltas, _ in answers}
    assert len(texts) == 1
    assert running.total("requests_total", reason="token_limit") == 6


async def test_the_description_is_the_models(running: Serving, served: Served) -> None:
    description = wire.description_value(await running.target.Describe(wire.describe_request()))
    assert description.model_id == "tiny"
    assert len(description.model_revision) == 16
    assert (description.context_length, description.limits.prompt_tokens, description.limits.sessions) == (256, 128, 2)
    assert ("python", "lookup") in description.drafters
    stream = Stream(running.target)
    await stream.send(opening(served.vocabulary.encode(PREFIX), description.tokenizer_fingerprint))
    await stream.send(RunMessage(limit=4))
    await stream.answer()
    assert isinstance(await stream.answer(), Verdict)
    await stream.close()
    await stream.rest()
