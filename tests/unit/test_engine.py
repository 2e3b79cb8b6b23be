"""The engine on a tiny model: limits, failures, cancellation, turns."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from engines import decode_plainly, decode_with, plain_draft, request_for, settings, tokens_of

from decoding.drafting import Draft, DraftingRequest
from decoding.errors import (
    ContractViolation,
    DeadlineExceeded,
    InvalidSetting,
    LimitExceeded,
    Mismatch,
    StalePosition,
    TargetFailed,
    TargetUnavailable,
)
from decoding.sampling import SamplingConfig
from decoding.verdict import DecodeRequest, FinishReason
from target_server.engine import Engine
from target_server.errors import BudgetExceeded
from target_server.loader import LoadedModel
from target_server.steps import Outcome, Segment

pytestmark = pytest.mark.arithmetic

PROMPT = tuple(range(1, 41))


@pytest.fixture
async def engine(tiny_loaded: LoadedModel) -> AsyncIterator[Engine]:
    engine = Engine(tiny_loaded, settings())
    yield engine
    engine.close()


@pytest.fixture
def request_(tiny_loaded: LoadedModel) -> DecodeRequest:
    return request_for(tiny_loaded, PROMPT, max_tokens=16)


async def until_free(engine: Engine, slots: int) -> None:
    async with asyncio.timeout(30):
        while engine.free_sessions < slots:  # noqa: ASYNC110
            await asyncio.sleep(0)


Segments = Sequence[Segment]
Outcomes = list[Outcome]


class Held:
    """Wraps steps so that those with blocks (or chunks) wait on the step loop's thread until they are let go."""

    def __init__(self, step: Any, *, prefill: bool) -> None:
        self.step, self.prefill, self.calls = step, prefill, 0
        self.entered, self.let_go = threading.Event(), threading.Event()

    def __call__(self, segments: Segments, *, total: int) -> Outcomes:
        if any(segment.prefill is self.prefill for segment in segments):
            self.calls += 1
            self.entered.set()
            assert self.let_go.wait(30)
        return self.step(segments, total=total)


async def test_greedy_output_is_transformers_own(tiny_loaded: LoadedModel, engine: Engine, tiny_model_folder) -> None:
    from transformers import AutoModelForCausalLM

    reference = AutoModelForCausalLM.from_pretrained(tiny_model_folder)
    for prompt in (PROMPT, (7,), tuple(range(300, 200, -1))):
        generated = reference.generate(torch.tensor([prompt]), max_new_tokens=48, do_sample=False)
        verdicts, finished = await decode_plainly(engine, request_for(tiny_loaded, prompt, max_tokens=48))
        assert tokens_of(verdicts) == generated[0, len(prompt) :].tolist()
        assert finished.statistics.prompt_tokens == len(prompt)


async def test_log_probabilities_are_the_models(
    tiny_loaded: LoadedModel, engine: Engine, request_, tiny_model_folder
) -> None:
    from transformers import AutoModelForCausalLM

    reference = AutoModelForCausalLM.from_pretrained(tiny_model_folder)
    verdicts, _ = await decode_plainly(engine, request_)
    output = tokens_of(verdicts)
    with torch.inference_mode():
        logits = reference(torch.tensor([[*PROMPT, *output]])).logits[0, len(PROMPT) - 1 : -1].double()
    expected = logits.log_softmax(-1).gather(1, torch.tensor(output)[:, None])[:, 0]
    found = torch.tensor([value for verdict in verdicts for value in verdict.log_probabilities], dtype=torch.float64)
    assert torch.allclose(found, expected, atol=1e-4)


async def test_finished_counts_what_happened(engine: Engine, request_) -> None:
    known = tokens_of((await decode_plainly(engine, request_))[0])
    verdicts, finished = await decode_with(engine, request_, lambda n: known[n : n + 3])
    statistics = finished.statistics
    assert finished.reason is FinishReason.TOKEN_LIMIT
    assert statistics.verify_steps == len(verdicts) == 4
    assert statistics.emitted_tokens == 16
    assert statistics.accepted_tokens == sum(verdict.accepted for verdict in verdicts) == 12
    assert 0 < finished.first_token_us <= finished.total_us
    assert all(verdict.verify_us > 0 for verdict in verdicts)
    assert finished.queue_us >= sum(verdict.queue_us for verdict in verdicts)


async def test_wrong_requests_are_refused(tiny_loaded: LoadedModel, engine: Engine, request_) -> None:
    async def opening(request: DecodeRequest) -> None:
        async with engine.open(request):
            pass

    with pytest.raises(Mismatch, match="tokenizer"):
        await opening(replace(request_, tokenizer_fingerprint="0" * 64))
    with pytest.raises(LimitExceeded, match="160 tokens, got 161"):
        await opening(replace(request_, prompt=(1,) * 161))
    with pytest.raises(InvalidSetting, match="prompt"):
        await opening(replace(request_, prompt=()))
    with pytest.raises(InvalidSetting, match="prompt"):
        await opening(replace(request_, prompt=(tiny_loaded.vocabulary_size,)))
    assert engine.free_sessions == 2


async def test_wrong_drafts_are_refused_and_the_sequence_goes_on(engine: Engine, request_) -> None:
    async with engine.open(request_) as sequence:
        with pytest.raises(StalePosition, match="expected 40, got 41"):
            await sequence.verify(plain_draft(request_, 1))
        with pytest.raises(LimitExceeded, match="7 tokens, got 8"):
            await sequence.verify(plain_draft(request_, tokens=(1,) * 8))
        with pytest.raises(Mismatch, match="sampling"):
            await sequence.verify(Draft(position=40, tokens=(1,), sampling_fingerprint="0" * 16))
        with pytest.raises(InvalidSetting, match="ids"):
            await sequence.verify(plain_draft(request_, tokens=(512,)))
        assert len((await sequence.verify(plain_draft(request_))).tokens) == 1
        first = asyncio.create_task(sequence.verify(plain_draft(request_, 1)))
        await asyncio.sleep(0)
        with pytest.raises(ContractViolation, match="before the verdict"):
            await sequence.verify(plain_draft(request_, 1))
        await first
        await sequence.finish()
        with pytest.raises(ContractViolation):
            await sequence.verify(plain_draft(request_, 2))


async def test_slot_is_freed_within_one_step_of_a_cancel_and_not_before_the_step_ends(engine: Engine, request_) -> None:
    held = Held(engine._model.step, prefill=False)
    engine._model.step = held

    async def decode() -> None:
        async with engine.open(request_) as sequence:
            async for _ in sequence.run(16):
                pass

    task = asyncio.create_task(decode())
    assert await asyncio.to_thread(held.entered.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engine.free_sessions == 1  # the step still writes to its slot
    held.let_go.set()
    await until_free(engine, 2)
    assert held.calls == 1


async def test_cancel_before_the_turn_runs_no_step(engine: Engine, request_) -> None:
    held = Held(engine._model.step, prefill=True)
    engine._model.step = held
    async with engine.open(request_):  # its prefill holds the device
        assert await asyncio.to_thread(held.entered.wait, 30)
        async with engine.open(request_) as second:
            task = asyncio.create_task(second.verify(plain_draft(request_)))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert engine.free_sessions == 1  # freed at once: its own prefill never began
        held.let_go.set()
    await until_free(engine, 2)
    assert held.calls == 1


async def test_crash_fails_one_request_only(engine: Engine, request_) -> None:
    before = tokens_of((await decode_plainly(engine, request_))[0])
    step = engine._model.step

    def crash_in_slot(segments: Segments, *, total: int) -> Outcomes:
        if any(segment.slot == broken_slot for segment in segments):
            raise RuntimeError("out of memory at 'secret source'")
        return step(segments, total=total)

    async with engine.open(request_) as broken, engine.open(request_) as sound:
        broken_slot = broken._lease.slot
        engine._model.step = crash_in_slot
        both = asyncio.gather(
            broken.verify(plain_draft(request_)), sound.verify(plain_draft(request_)), return_exceptions=True
        )
        failed, verdict = await both  # they may have shared the step that broke
        assert isinstance(failed, TargetFailed)
        with pytest.raises(TargetFailed, match="RuntimeError") as failure:  # asked again, it says the same
            await broken.verify(plain_draft(request_))
        assert "secret" not in str(failure.value)
        assert tokens_of([verdict, *[verdict async for verdict in sound.run(15)]]) == before
    engine._model.step = step
    await until_free(engine, 2)
    assert tokens_of((await decode_plainly(engine, request_))[0]) == before


async def test_crash_in_prefill_is_told_at_the_first_step(engine: Engine, request_) -> None:
    def crash(segments: Segments, *, total: int) -> Outcomes:
        raise MemoryError

    engine._model.step = crash
    async with engine.open(request_) as sequence:
        with pytest.raises(TargetFailed):
            await sequence.verify(plain_draft(request_))
    await until_free(engine, 2)


async def test_nan_fails_the_request_and_does_not_reach_the_next_owner_of_the_slot(engine: Engine, request_) -> None:
    before = tokens_of((await decode_plainly(engine, request_))[0])
    step = engine._model.step

    def poison(segments: Segments, *, total: int) -> Outcomes:
        for segment in segments:
            engine._model.cache._values[0][segment.slot] = float("nan")
        return step(segments, total=total)

    engine._model.step = poison
    async with engine.open(request_) as first, engine.open(request_) as second:
        for sequence in (first, second):
            with pytest.raises(TargetFailed):
                await sequence.verify(plain_draft(request_))
    engine._model.step = step
    await until_free(engine, 2)
    for _ in range(2):
        assert tokens_of((await decode_plainly(engine, request_))[0]) == before


async def test_nan_of_a_prompt_does_not_outlive_a_sequence_that_never_decoded(engine: Engine, request_) -> None:
    before = tokens_of((await decode_plainly(engine, request_))[0])
    step, filled = engine._model.step, asyncio.Event()
    loop = asyncio.get_running_loop()

    def poison(segments: Segments, *, total: int) -> Outcomes:
        outcomes = step(segments, total=total)
        for segment in segments:
            engine._model.cache._values[0][segment.slot] = float("nan")
        loop.call_soon_threadsafe(filled.set)
        return [replace(outcome, finite=False) for outcome in outcomes]

    engine._model.step = poison
    for _ in range(2):
        filled.clear()
        async with engine.open(request_):
            await filled.wait()
        await until_free(engine, 2)
    engine._model.step = step
    for _ in range(2):
        assert tokens_of((await decode_plainly(engine, request_))[0]) == before


async def test_full_house_refuses_with_a_retry_hint(tiny_loaded: LoadedModel, request_) -> None:
    engine = Engine(tiny_loaded, settings(sessions=1, queued_requests=0))
    async with engine.open(request_):
        with pytest.raises(LimitExceeded, match="1 requests") as refused:
            async with engine.open(request_):
                pass
        assert refused.value.retry_after_ms
    engine.close()


async def test_waiting_request_gets_the_slot_and_says_how_long_it_waited(tiny_loaded: LoadedModel, request_) -> None:
    engine = Engine(tiny_loaded, settings(sessions=1))
    async with engine.open(request_):
        waiting = asyncio.create_task(decode_plainly(engine, request_))
        while not engine.waiting_requests:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert engine.open_sessions == 1
    _, finished = await waiting
    assert finished.queue_us > 0
    engine.close()


async def test_sequence_that_stays_open_too_long_loses_its_slot(tiny_loaded: LoadedModel, request_) -> None:
    engine = Engine(tiny_loaded, settings(sessions=1, request_timeout_s=0.2))
    async with engine.open(request_) as sequence:
        await until_free(engine, 1)
        with pytest.raises(DeadlineExceeded):
            await sequence.verify(plain_draft(request_))
    assert engine.free_sessions == 1
    engine.close()


async def test_engine_that_is_closed_fails_open_sequences_and_drops_waiting_steps(engine: Engine, request_) -> None:
    held = Held(engine._model.step, prefill=True)
    engine._model.step = held
    async with engine.open(request_) as first, engine.open(request_) as second:
        steps = [asyncio.create_task(sequence.verify(plain_draft(request_))) for sequence in (first, second)]
        assert await asyncio.to_thread(held.entered.wait, 30)
        closing = asyncio.create_task(asyncio.to_thread(engine.close))
        while not engine._steps.closed:  # noqa: ASYNC110
            await asyncio.sleep(0)
        held.let_go.set()
        await closing
        outcomes = await asyncio.gather(*steps, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [TargetUnavailable] * 2
    assert engine.free_sessions == 2
    assert held.calls == 1


async def test_context_full_ends_a_sequence(tiny_loaded: LoadedModel, engine: Engine) -> None:
    request = request_for(tiny_loaded, (5,) * 160, max_tokens=200)
    verdicts, finished = await decode_plainly(engine, request)
    assert finished.reason is FinishReason.CONTEXT_FULL
    assert len(tokens_of(verdicts)) == 32
    known = tokens_of(verdicts)
    drafted, _ = await decode_with(engine, request, lambda n: (known[n : n + 7] + [1] * 7)[:7])
    assert tokens_of(drafted) == known


def test_cache_over_its_budget_is_refused_with_figures(tiny_loaded: LoadedModel) -> None:
    with pytest.raises(BudgetExceeded, match=r"2 sessions of 192 tokens need \d+ bytes .* budget is 1000"):
        Engine(tiny_loaded, settings(kv_cache_bytes=1000))


class Repeater:
    """A drafting session that guesses the last token again, until it breaks."""

    def __init__(self, request: DraftingRequest, calls: int, *, astray: int = 0) -> None:
        self.last, self.position, self.calls = request.prompt[-1], len(request.prompt) + astray, calls
        self.fingerprint = request.sampling.fingerprint()

    def extend(self, tokens: Sequence[int]) -> None:
        self.last = [self.last, *tokens][-1]
        self.position += len(tokens)

    def propose(self, limit: int) -> Draft:
        self.calls -= 1
        if self.calls < 0:
            raise OSError("table gone")
        return Draft(position=self.position, tokens=(self.last,) * limit, sampling_fingerprint=self.fingerprint)


async def test_run_with_a_drafter_that_breaks_goes_on_plainly(tiny_loaded: LoadedModel) -> None:
    def drafting(language: str, name: str, request: DraftingRequest) -> Repeater | None:
        known = {"repeat": Repeater(request, 1), "astray": Repeater(request, 1, astray=1)}
        return known.get(name) if language == "python" else None

    engine = Engine(tiny_loaded, settings(), drafting=drafting)
    request = request_for(tiny_loaded, PROMPT, sampling=SamplingConfig(temperature=1.5, seed=3), max_tokens=16)
    plain = tokens_of((await decode_plainly(engine, request))[0])
    async with engine.open(request) as sequence:
        head = [await sequence.verify(plain_draft(request))]
        tail = [verdict async for verdict in sequence.run(64, drafter="repeat")]
        assert tokens_of(head + tail) == plain
        assert [verdict.drafted for verdict in tail[:2]] == [7, 0]
    async with engine.open(request) as sequence:
        astray = [verdict async for verdict in sequence.run(64, drafter="astray")]
        assert tokens_of(astray) == plain
        assert {verdict.drafted for verdict in astray} == {0}
    async with engine.open(request) as sequence:
        with pytest.raises(InvalidSetting, match="drafter"):
            await anext(aiter(sequence.run(4, drafter="nobody")))
        with pytest.raises(InvalidSetting, match="limit"):
            await anext(aiter(sequence.run(0)))
        assert len(tokens_of([verdict async for verdict in sequence.run(2)])) == 2
    engine.close()


async def test_request_that_bans_everything_is_told_so(tiny_loaded: LoadedModel, engine: Engine) -> None:
    request = request_for(tiny_loaded, PROMPT, sampling=SamplingConfig(banned=tuple(range(512))))
    async with engine.open(request) as sequence:
        for _ in range(2):
            with pytest.raises(InvalidSetting, match="banned"):
                await sequence.verify(plain_draft(request))
    await until_free(engine, 2)
