"""The client of the target over real sockets: a sequence's life, its errors, its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from toy_server import ToyService, serving
from toy_stream import OPENED, draft, request

from decoding.drafting import Draft
from decoding.errors import (
    ContractViolation,
    DeadlineExceeded,
    InvalidSetting,
    LimitExceeded,
    Mismatch,
    SlipstreamError,
    StalePosition,
    TargetFailed,
    TargetUnavailable,
)
from decoding.sampling import SamplingConfig
from decoding.verdict import FinishReason
from lsp_server.target_client import TargetClient
from slipstream import wire


@pytest.fixture
async def service() -> ToyService:
    return ToyService()


@pytest.fixture
async def client(service: ToyService, tmp_path: Path) -> AsyncIterator[TargetClient]:
    async with serving(service) as address:
        client = TargetClient(address, cache_folder=tmp_path)
        yield client
        await client.close()


async def plain_tokens(client: TargetClient) -> tuple[int, ...]:
    tokens: tuple[int, ...] = ()
    async with client.open(request()) as verifier:
        async for answer in verifier.run(24):
            tokens += answer.tokens
    return tokens


async def test_drafted_and_run_sequences_agree_and_count(client: TargetClient) -> None:
    plain = await plain_tokens(client)
    tokens: tuple[int, ...] = ()
    async with client.open(request()) as verifier:
        assert verifier.opened.seed == 7
        while True:
            at = len(tokens)
            answer = await verifier.verify(draft(2 + at, *plain[at : at + 2], 0))
            tokens += answer.tokens
            if answer.finish is not None:
                break
        last = await verifier.finish()
        assert await verifier.finish() == last
    assert tokens == plain
    assert len(plain) > 4
    assert last.reason is answer.finish
    assert last.statistics.emitted_tokens == len(tokens)
    assert last.statistics.accepted_tokens <= last.statistics.judged_tokens <= last.statistics.drafted_tokens
    assert last.statistics.verify_steps < len(tokens)


async def test_runs_and_drafts_alternate_on_one_stream(client: TargetClient) -> None:
    plain = await plain_tokens(client)
    async with client.open(request()) as verifier:
        first = [token async for answer in verifier.run(3) for token in answer.tokens]
        second = (await verifier.verify(draft(5, *plain[3:5]))).tokens
        third = [token async for answer in verifier.run(2) for token in answer.tokens]
    assert (*first, *second, *third) == plain[: 3 + len(second) + 2]


async def test_request_id_and_deadline_arrive(client: TargetClient, service: ToyService) -> None:
    async with client.open(request(), timeout_s=50):
        assert service.metadata["x-request-id"] == "request-1"
        assert service.time_remaining_s is not None
        assert 45 < service.time_remaining_s < 51  # the two ends read clocks of their own: 50.1 was seen


async def test_half_close_ends_an_open_sequence(client: TargetClient) -> None:
    async with client.open(request()) as verifier:
        answer = await verifier.verify(draft(2))
        last = await verifier.finish()
        with pytest.raises(ContractViolation, match="has ended"):
            await verifier.verify(draft(3))
    assert last.reason is FinishReason.CLOSED
    assert last.statistics.emitted_tokens == len(answer.tokens) == 1


async def test_a_run_left_early_can_still_be_finished(client: TargetClient) -> None:
    async with client.open(request()) as verifier:
        verdicts = verifier.run(5)
        await anext(verdicts)
        with pytest.raises(ContractViolation, match="still runs"):
            await verifier.verify(draft(3))
        assert (await verifier.finish()).statistics.emitted_tokens == 5


async def test_stale_position_says_where_the_sequence_stands(client: TargetClient) -> None:
    async with client.open(request()) as verifier:
        with pytest.raises(StalePosition) as caught:
            await verifier.verify(draft(9, 1))
    assert (caught.value.expected, caught.value.got) == ("2", "9")


async def test_a_draft_under_another_sampling_is_refused(client: TargetClient) -> None:
    other = SamplingConfig(top_k=50).fingerprint()
    async with client.open(request()) as verifier:
        with pytest.raises(Mismatch) as caught:
            await verifier.verify(Draft(position=2, tokens=(1,), sampling_fingerprint=other))
    assert caught.value.what == "sampling fingerprint"
    assert caught.value.got == other


@pytest.mark.parametrize(
    "error",
    [
        LimitExceeded("sessions", limit=4, unit="sequences", got=5, retry_after_ms=250),
        TargetUnavailable("the model loads"),
        TargetFailed("the model broke"),
        InvalidSetting("open.prompt", "ids must be from 0 to 11"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_errors_arrive_as_they_were_raised(
    client: TargetClient, service: ToyService, error: SlipstreamError
) -> None:
    async def refuse(messages: AsyncIterator[Any], context: Any) -> None:
        raise error

    service.decode = refuse
    with pytest.raises(type(error)) as caught:
        async with client.open(request()):
            pass
    assert str(caught.value) == str(error)
    assert vars(caught.value) == vars(error)


async def test_a_target_that_ends_the_call_as_a_draft_is_written(client: TargetClient, service: ToyService) -> None:
    async def drain(messages: AsyncIterator[Any], context: Any) -> None:
        await context.write(wire.answer_message(OPENED))
        raise TargetUnavailable("the target drains")

    service.decode = drain
    for _ in range(30):
        with pytest.raises(TargetUnavailable, match="drains"):
            async with client.open(request()) as verifier:
                await verifier.verify(draft(2))


async def test_a_bug_in_the_target_tells_nothing_of_its_text(client: TargetClient, service: ToyService) -> None:
    async def break_down(messages: AsyncIterator[Any], context: Any) -> None:
        raise ZeroDivisionError

    service.decode = break_down
    with pytest.raises(TargetFailed):
        async with client.open(request()):
            pass


class Hanging:
    """A target that opens a sequence and then answers nothing, and tells when its call is ended."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def __call__(self, messages: AsyncIterator[Any], context: Any) -> None:
        stream = aiter(messages)
        await anext(stream)
        await context.write(wire.answer_message(OPENED))
        try:
            await anext(stream)
            self.reached.set()
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()


async def verifying(client: TargetClient, timeout_s: float | None = None) -> None:
    async with client.open(request(), timeout_s=timeout_s) as verifier:
        await verifier.verify(draft(2))


async def test_cancelling_the_task_reaches_the_target(client: TargetClient, service: ToyService) -> None:
    service.decode = hanging = Hanging()
    task = asyncio.create_task(verifying(client))
    await asyncio.wait_for(hanging.reached.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(hanging.cancelled.wait(), 10)


async def test_leaving_the_context_reaches_the_target(client: TargetClient, service: ToyService) -> None:
    service.decode = hanging = Hanging()
    async with client.open(request()):
        assert not hanging.cancelled.is_set()
    await asyncio.wait_for(hanging.cancelled.wait(), 10)


async def test_the_deadline_ends_both_sides(client: TargetClient, service: ToyService) -> None:
    service.decode = hanging = Hanging()
    with pytest.raises(DeadlineExceeded):
        await verifying(client, timeout_s=0.3)
    await asyncio.wait_for(hanging.cancelled.wait(), 10)


async def test_a_deadline_that_is_over_already(client: TargetClient) -> None:
    with pytest.raises(DeadlineExceeded):
        await verifying(client, timeout_s=-1)


async def test_closing_the_client_fails_its_calls_without_cancelling_their_tasks(
    client: TargetClient, service: ToyService
) -> None:
    service.decode = hanging = Hanging()
    task = asyncio.create_task(verifying(client))
    await asyncio.wait_for(hanging.reached.wait(), 10)
    await client.close()
    with pytest.raises(TargetUnavailable):
        await task
    with pytest.raises(TargetUnavailable, match="closed"):
        await client.describe()
