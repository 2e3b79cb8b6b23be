"""How requests end badly at a real server: refused, cancelled, too late, broken; and that nothing stays behind."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from grpc import aio
from serving import PROMPT, Cable, Serving, Stream, eventually, local, opening, refusal, serving
from toy_serving import ToyTarget, toy_served

from decoding.drafting import Draft
from decoding.errors import InvalidSetting, LimitExceeded, Mismatch, StalePosition, TargetFailed
from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules
from decoding.verdict import Finished, Opened, Verdict
from drafts.vocabulary import Vocabulary
from slipstream import services, wire
from slipstream.opening import RunMessage
from slipstream.statuses import from_rpc_error


@pytest.mark.parametrize(
    ("send", "expected", "says"),
    [
        (lambda fp: [RunMessage(limit=1)], InvalidSetting, "open: must be the first message"),
        (
            lambda fp: [opening(PROMPT, "0" * 64)],
            Mismatch,
            "tokenizer fingerprint differs: expected [0-9a-f]+, got 000",
        ),
        (lambda fp: [opening((1,) * 201, fp)], LimitExceeded, "open.prompt: the limit is 200 tokens, got 201"),
        (lambda fp: [opening((1, 512), fp)], InvalidSetting, "open.prompt: ids must be from 0 to 511"),
        (
            lambda fp: [opening(PROMPT, fp, sampling=SamplingConfig(banned=(600,)))],
            InvalidSetting,
            "open.sampling.banned: ids must be from 0 to 511",
        ),
        (lambda fp: [opening(PROMPT, fp), opening(PROMPT, fp)], InvalidSetting, "open: must be the first message only"),
        (
            lambda fp: [opening(PROMPT, fp), RunMessage(limit=1, drafter="nobody")],
            InvalidSetting,
            "run.drafter: must be empty or one of this language's: mix",
        ),
        (
            lambda fp: [opening(PROMPT, fp), Draft(position=3, tokens=(1,), sampling_fingerprint="")],
            StalePosition,
            "position differs: expected 4, got 3",
        ),
        (
            lambda fp: [opening(PROMPT, fp), Draft(position=4, tokens=(1,) * 8, sampling_fingerprint="")],
            LimitExceeded,
            "draft.tokens: the limit is 7 tokens, got 8",
        ),
        (
            lambda fp: [opening(PROMPT, fp), Draft(position=4, tokens=(1,), sampling_fingerprint="f" * 16)],
            Mismatch,
            "sampling fingerprint differs",
        ),
        (
            lambda fp: [opening(PROMPT, fp), Draft(position=4, tokens=(5000,), sampling_fingerprint="")],
            InvalidSetting,
            "draft.tokens: ids must be from 0 to 511",
        ),
    ],
)
async def test_wrong_input_is_refused_by_name_and_frees_everything(
    running: Serving, vocabulary: Vocabulary, target: ToyTarget, send, expected, says
) -> None:
    stream = Stream(running.target)
    error = await refusal(stream, *send(vocabulary.fingerprint))
    assert type(error) is expected
    with pytest.raises(expected, match=says):
        raise error
    assert target.open_now == 0
    status = (await stream.status()).name
    assert running.total("errors_total", status=status) == 1
    assert running.total("open_sessions") == 0


async def test_a_bad_field_of_a_raw_message_is_named(running: Serving, vocabulary: Vocabulary) -> None:
    message = wire.request_message(opening(PROMPT, vocabulary.fingerprint))
    message.open.sampling.temperature = -1
    call = running.target.Decode(iter([message]))
    with pytest.raises(aio.AioRpcError, match=r"open.sampling.temperature: must be 0 \(greedy\)") as raised:
        await call.read()
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_message_over_the_limit_is_refused_and_the_server_goes_on(
    vocabulary: Vocabulary, target: ToyTarget
) -> None:
    async with serving(toy_served(vocabulary, target), settings=local(message_bytes=2**16)) as running:
        assert isinstance(
            await refusal(Stream(running.target), opening((7,) * 70_000, vocabulary.fingerprint)), LimitExceeded
        )
        await running.target.Describe(wire.describe_request())


async def test_too_many_sequences_are_refused_with_a_retry_hint(vocabulary: Vocabulary) -> None:
    target = ToyTarget(vocabulary, sessions=1)
    async with serving(toy_served(vocabulary, target)) as running:
        first = Stream(running.target)
        await first.send(opening(PROMPT, vocabulary.fingerprint))
        assert isinstance(await first.answer(), Opened)
        second = Stream(running.target)
        await second.send(opening(PROMPT, vocabulary.fingerprint))
        with pytest.raises(aio.AioRpcError) as raised:
            await second.rest()
        assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert dict(raised.value.trailing_metadata() or ())["retry-after-ms"] == "50"
        await first.close()
        await first.rest()


async def test_a_cancel_mid_stream_frees_the_sequence_within_one_step(
    running: Serving, vocabulary: Vocabulary, target: ToyTarget
) -> None:
    permits = asyncio.Semaphore(3)
    target.before_step = permits.acquire
    stream = Stream(running.target)
    await stream.send(opening(PROMPT, vocabulary.fingerprint, stop=StopRules(max_tokens=200), drafter="mix"))
    await stream.send(RunMessage(limit=200))
    await stream.answer()
    for _ in range(3):
        assert isinstance(await stream.answer(), Verdict)
    stream.call.cancel()  # the fourth step waits
    await target.until(lambda: target.open_now == 0)
    permits.release()
    assert target.steps == 3
    assert await stream.status() is grpc.StatusCode.CANCELLED
    await eventually(lambda: running.total("errors_total", status="CANCELLED") == 1)
    assert running.total("emitted_tokens_total", drafter="mix") == 3  # what it did is counted
    assert running.total("verify_steps_total", drafter="mix") == 3
    assert running.total("open_sessions") == 0


async def test_a_client_whose_connection_is_gone_frees_its_sequence(
    running: Serving, vocabulary: Vocabulary, target: ToyTarget
) -> None:
    async with aio.insecure_channel(running.addresses.grpc, options=(("grpc.use_local_subchannel_pool", 1),)) as other:
        stream = Stream(services.target_stub(other))
        await stream.send(opening(PROMPT, vocabulary.fingerprint))
        await stream.answer()
        assert target.open_now == 1
    await target.until(lambda: target.open_now == 0)


async def test_a_deadline_frees_the_sequence_and_is_counted(
    running: Serving, vocabulary: Vocabulary, target: ToyTarget
) -> None:
    target.before_step = asyncio.Event().wait  # no step ever ends
    stream = Stream(running.target, timeout_s=0.3)
    await stream.send(opening(PROMPT, vocabulary.fingerprint))
    await stream.send(RunMessage(limit=10))
    with pytest.raises(aio.AioRpcError):
        await stream.rest()
    assert await stream.status() is grpc.StatusCode.DEADLINE_EXCEEDED
    await target.until(lambda: target.open_now == 0)
    assert target.steps == 0
    await eventually(lambda: running.total("errors_total", status="DEADLINE_EXCEEDED") == 1)


async def test_the_servers_own_limit_ends_a_request_without_a_deadline(
    vocabulary: Vocabulary, target: ToyTarget
) -> None:
    async with serving(toy_served(vocabulary, target), settings=local(request_timeout_s=0.2)) as running:
        stream = Stream(running.target)
        await stream.send(opening(PROMPT, vocabulary.fingerprint))
        with pytest.raises(aio.AioRpcError, match=r"the request had 0\.200 seconds"):
            await stream.rest()
        assert await stream.status() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert target.open_now == 0


async def test_a_crash_in_the_model_ends_the_request_and_the_next_one_works(
    running: Serving, vocabulary: Vocabulary, target: ToyTarget
) -> None:
    def broken() -> None:
        raise RuntimeError("CUDA error over canary")

    target.before_step = broken
    stream = Stream(running.target)
    await stream.send(opening(PROMPT, vocabulary.fingerprint))
    await stream.send(RunMessage(limit=10))
    with pytest.raises(aio.AioRpcError) as raised:
        await stream.rest()
    assert raised.value.code() is grpc.StatusCode.INTERNAL
    assert "canary" not in str(raised.value.details())
    assert isinstance(from_rpc_error(raised.value), TargetFailed)
    target.before_step = None
    again = Stream(running.target)
    await again.send(opening(PROMPT, vocabulary.fingerprint))
    await again.send(RunMessage(limit=24))
    assert isinstance((await again.rest())[-1], Finished)
    assert target.open_now == 0


async def test_a_client_that_vanishes_without_a_word_frees_its_sequence(
    vocabulary: Vocabulary, target: ToyTarget
) -> None:
    async with (
        serving(
            toy_served(vocabulary, target), settings=local(keepalive_ms=1000, keepalive_timeout_ms=1000)
        ) as running,
        Cable(running.addresses.grpc) as cable,
        aio.insecure_channel(cable.address) as channel,
    ):
        stream = Stream(services.target_stub(channel))
        await stream.send(opening(PROMPT, vocabulary.fingerprint))
        assert isinstance(await stream.answer(), Opened)
        cable.cut.set()
        await target.until(lambda: target.open_now == 0)
