"""The contract over a real socket, served by `toy_target`; a test may put its own method in the place of any."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from grpc import aio
from toy_target import PIECES, ToyTarget

from decoding.drafting import Draft
from decoding.errors import SlipstreamError
from decoding.noise import NOISE_VERSION
from decoding.verdict import Finished, FinishReason, Opened
from slipstream import services, wire
from slipstream.channels import server_options
from slipstream.description import Limits, TargetDescription
from slipstream.opening import OpenMessage, RunMessage
from slipstream.statuses import to_status

Method = Callable[[Any, Any], Awaitable[None]]

DESCRIPTION = TargetDescription(
    model_id="toy",
    model_revision="0",
    tokenizer_fingerprint="0" * 64,
    vocabulary_size=len(PIECES),
    end_of_text_ids=(0,),
    fim=None,
    context_length=1000,
    dtype="float32",
    device="cpu",
    noise_version=NOISE_VERSION,
    limits=Limits(sessions=4, queued_requests=8, prompt_tokens=900, block_rows=8, message_bytes=1 << 20),
    drafters=(),
    server_version="0",
)


@dataclass
class ToyService(services.TargetServicer, services.CompletionServicer):
    """Serves honestly, except where `decode`, `tokenizer` or `complete` is given."""

    description: TargetDescription = DESCRIPTION
    files: Mapping[str, bytes] = field(default_factory=dict)
    decode: Method | None = None
    complete: Method | None = None
    described: int = 0
    sent_tokenizers: int = 0
    metadata: dict[str, str] = field(default_factory=dict)
    time_remaining_s: float | None = None

    async def Describe(self, _request: Any, _context: Any) -> Any:  # noqa: N802 - the contract's name
        self.described += 1
        return wire.description_message(self.description)

    async def Tokenizer(self, _request: Any, context: Any) -> None:  # noqa: N802
        self.sent_tokenizers += 1
        for chunk in wire.tokenizer_chunks(self.files):
            await context.write(chunk)

    async def Decode(self, messages: AsyncIterator[Any], context: Any) -> None:  # noqa: N802
        self.metadata = dict(context.invocation_metadata())
        self.time_remaining_s = context.time_remaining()
        try:
            await (self.decode or honest)(messages, context)
        except SlipstreamError as error:
            await context.abort(*to_status(error))

    async def Complete(self, request: Any, context: Any) -> None:  # noqa: N802
        assert self.complete is not None
        await self.complete(request, context)


async def honest(messages: AsyncIterator[Any], context: Any) -> None:
    """The Decode stream as the contract has it, over the toy target."""
    target = ToyTarget()
    opening = wire.request_value(await anext(aiter(messages)))
    assert isinstance(opening, OpenMessage)
    request = opening.request
    sequence = target.open(prompt=request.prompt, sampling=request.sampling, stop=request.stop)
    history = request.prompt
    opened = Opened(
        prompt_tokens=len(history), cached_tokens=0, seed=request.sampling.seed, noise_version=NOISE_VERSION
    )
    await context.write(wire.answer_message(opened))

    async def answer(draft: Draft) -> int:
        nonlocal history
        block = sequence.block(draft)
        rows = [target.logits(history + block[1 : index + 1]) for index in range(len(block))]
        verdict = sequence.judge(draft, rows)
        history += verdict.tokens
        await context.write(wire.answer_message(verdict))
        return len(verdict.tokens)

    async for message in messages:
        match wire.request_value(message):
            case Draft() as draft:
                await answer(draft)
            case RunMessage(limit=room):
                while room > 0 and sequence.finish is None:
                    room -= await answer(Draft(position=sequence.position, tokens=(), sampling_fingerprint=""))
        if sequence.finish is not None:
            break
    await context.write(wire.answer_message(finished(sequence.finish, sequence.statistics)))


def finished(reason: FinishReason | None, statistics: Any) -> Finished:
    return Finished(
        reason=reason or FinishReason.CLOSED, statistics=statistics, queue_us=0, first_token_us=0, total_us=0
    )


@asynccontextmanager
async def serving(service: ToyService, *, port: int = 0, message_bytes: int = 1 << 20) -> AsyncIterator[str]:
    """The address that the service is at, until the context is left."""
    server = aio.server(options=server_options(message_bytes=message_bytes))
    services.add_target_servicer(service, server)
    services.add_completion_servicer(service, server)
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield f"127.0.0.1:{bound}"
    finally:
        await server.stop(None)
