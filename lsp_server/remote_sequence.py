"""One sequence at the target, over one Decode stream. Knows nothing of connections or of how drafts are made.

    open ─> opened    then    draft ─> verdict    run ─> verdict*    half-close ─> finished

Each answer is held to that order, and each verdict to the position that the stream is at.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from grpc import aio

from decoding.drafting import Draft
from decoding.errors import ContractViolation
from decoding.verdict import Finished, Opened, Verdict
from slipstream import wire
from slipstream.fields import require
from slipstream.opening import OpenMessage, RunMessage
from slipstream.services import DecodeRequestMessage, DecodeResponseMessage
from slipstream.statuses import translated

DecodeCall = aio.StreamStreamCall[DecodeRequestMessage, DecodeResponseMessage]


class RemoteSequence:
    """A `decoding.verdict.Verifier`. Not for use by two tasks at once; a cancelled call ends the stream."""

    def __init__(self, call: DecodeCall, opened: Opened) -> None:
        self._call = call
        self._opened = opened
        self._position = opened.prompt_tokens
        self._running = False
        self._ended = False
        self._finished: Finished | None = None

    @classmethod
    async def open(cls, call: DecodeCall, message: OpenMessage) -> RemoteSequence:
        """Send the first message and take its answer. Raises what the target's status says, or ContractViolation."""
        await _send(call, message)
        opened = await _receive(call)
        if not isinstance(opened, Opened):
            raise ContractViolation(f"the target opened with {_name(opened)}")
        require(opened.prompt_tokens == len(message.request.prompt), "opened: another prompt length than was sent")
        return cls(call, opened)

    @property
    def opened(self) -> Opened:
        return self._opened

    async def verify(self, draft: Draft) -> Verdict:
        """Judge one draft. Any error ends the sequence."""
        await self._say(draft)
        return await self._verdict()

    async def run(self, limit: int, *, drafter: str = "") -> AsyncIterator[Verdict]:
        """Verdicts of at most `limit` tokens together. After leaving it early only `finish` is left to call."""
        await self._say(RunMessage(limit=limit, drafter=drafter))
        self._running = True
        room = limit
        while room > 0 and not self._ended:
            verdict = await self._verdict()
            room -= len(verdict.tokens)
            require(room >= 0, "verdict: the target ran past the limit")
            self._running = room > 0 and not self._ended
            yield verdict

    async def finish(self) -> Finished:
        """Close our side and take the final statistics; again, the same ones."""
        if self._finished is None:
            with translated():
                await self._call.done_writing()
            answer = await _receive(self._call)
            while isinstance(answer, Verdict) and self._running:  # of a run that was left early
                answer = await _receive(self._call)
            if not isinstance(answer, Finished):
                raise ContractViolation(f"the target ended with {_name(answer)}")
            self._finished = answer
            with translated():
                require(await self._call.read() is aio.EOF, "the target went on after it had finished")
        return self._finished

    async def _say(self, value: Draft | RunMessage) -> None:
        if self._running or self._ended or self._finished is not None:
            raise ContractViolation("the sequence has ended, or still runs: finish it")
        await _send(self._call, value)

    async def _verdict(self) -> Verdict:
        answer = await _receive(self._call)
        if not isinstance(answer, Verdict):
            raise ContractViolation(f"the target answered a draft or run with {_name(answer)}")
        require(answer.position == self._position, "verdict: it stands at another position than the sequence")
        require(bool(answer.tokens) or answer.finish is not None, "verdict: it neither emits a token nor ends")
        self._position += len(answer.tokens)
        self._ended = answer.finish is not None
        return answer


async def _send(call: DecodeCall, value: OpenMessage | Draft | RunMessage) -> None:
    message = wire.request_message(value)
    with translated():
        try:
            await call.write(message)
        except asyncio.InvalidStateError:
            # The call is over already; reading raises its status, which says why.
            await call.read()
            raise ContractViolation("the target ended the stream early") from None


async def _receive(call: DecodeCall) -> Opened | Verdict | Finished:
    with translated():
        message = await call.read()
    if not isinstance(message, DecodeResponseMessage):
        raise ContractViolation("the target ended the stream early")
    return wire.answer_value(message)


def _name(answer: Opened | Verdict | Finished) -> str:
    return type(answer).__name__.lower()
