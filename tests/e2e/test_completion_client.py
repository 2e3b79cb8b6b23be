"""Text completion through the client, over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from toy_server import ToyService, finished, serving

from decoding.errors import ContractViolation, InvalidSetting, LimitExceeded
from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules
from decoding.verdict import FinishReason, Statistics
from lsp_server.target_client import TargetClient
from slipstream import wire
from slipstream.completion import CompletionDelta, CompletionRequest, CompletionStarted
from slipstream.statuses import to_status

STARTED = CompletionStarted(language="go", drafter="mix", seed=3, noise_version="n", request_id="request-1")
DELTA = CompletionDelta(text="é = 1\n", tokens=(1, 2), sources=("lookup", "target"))
FINISHED = finished(FinishReason.TOKEN_LIMIT, Statistics(prompt_tokens=4, emitted_tokens=2, verify_steps=1))


def request(**changes: Any) -> CompletionRequest:
    fields: dict[str, Any] = {
        "prefix": "x := ",
        "suffix": "\n}",
        "path": "main.go",
        "sampling": SamplingConfig(seed=3),
        "stop": StopRules(max_lines=1),
        "request_id": "request-1",
    }
    return CompletionRequest(**(fields | changes))


@pytest.fixture
async def service() -> ToyService:
    return ToyService()


@pytest.fixture
async def client(service: ToyService, tmp_path: Path) -> AsyncIterator[TargetClient]:
    async with serving(service) as address:
        client = TargetClient(address, cache_folder=tmp_path)
        yield client
        await client.close()


async def test_answers_arrive_in_order_and_the_request_as_it_was(client: TargetClient, service: ToyService) -> None:
    received = []

    async def complete(message: Any, context: Any) -> None:
        received.append(wire.completion_request_value(message))
        received.append(dict(context.invocation_metadata())["x-request-id"])
        for answer in (STARTED, DELTA, DELTA, FINISHED):
            await context.write(wire.completion_answer_message(answer))

    service.complete = complete
    answers = [answer async for answer in client.complete(request(), timeout_s=30)]
    assert answers == [STARTED, DELTA, DELTA, FINISHED]
    assert received == [request(), "request-1"]


@pytest.mark.parametrize(
    "answers",
    [[], [DELTA], [FINISHED], [STARTED], [STARTED, STARTED], [STARTED, DELTA], [STARTED, FINISHED, DELTA]],
)
async def test_answers_out_of_order_are_found_out(client: TargetClient, service: ToyService, answers: Any) -> None:
    async def complete(message: Any, context: Any) -> None:
        for answer in answers:
            await context.write(wire.completion_answer_message(answer))

    service.complete = complete
    with pytest.raises(ContractViolation):
        async for _ in client.complete(request()):
            pass


async def test_leaving_early_reaches_the_target(client: TargetClient, service: ToyService) -> None:
    ended = asyncio.Event()

    async def complete(message: Any, context: Any) -> None:
        await context.write(wire.completion_answer_message(STARTED))
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    service.complete = complete
    answers = client.complete(request())
    assert await anext(answers) == STARTED
    await answers.aclose()
    await asyncio.wait_for(ended.wait(), 10)


async def test_a_full_target_says_when_to_come_again(client: TargetClient, service: ToyService) -> None:
    async def complete(message: Any, context: Any) -> None:
        error = LimitExceeded("queued requests", limit=8, unit="requests", retry_after_ms=120)
        await context.abort(*to_status(error))

    service.complete = complete
    with pytest.raises(LimitExceeded) as caught:
        await anext(client.complete(request()))
    assert caught.value.retry_after_ms == 120


@pytest.mark.parametrize("field", ["prefix", "suffix", "path", "language"])
async def test_half_a_surrogate_pair_is_named(client: TargetClient, field: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        await anext(client.complete(request(**{field: "a\ud83d"})))
    assert caught.value.field == field
