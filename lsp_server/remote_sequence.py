"""One sequence at the target, over one Decode stream. Knows nothing of connections or of how drafts are made.

    open ─> opened    then    draft ─> verdict    run ─> verdict*    half-close ─> finished

Each answer is held to that order, and each verdict to the position that the stream is at.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from decoding.drafting import Draft
from decoding.errors import ContractViolation
from decoding.verdict import Finished, Opened, Verdict
from lsp_server.decode_stream import DecodeStream
from slipstream.fields import require
from slipstream.opening import OpenMessage, RunMessage


class RemoteSequence:
    """A `decoding.verdict.Verifier`. Not for use by two tasks at once; a cancelled call ends the stream."""

    def __init__(self, stream: DecodeStream, opened: Opened) -> None:
        self._stream = stream
        self._opened = opened
        self._position = opened.prompt_tokens
        self._running = False
        self._ended = False
        self._finished: Finished | None = None

    @classmethod
    async def open(cls, stream: DecodeStream, message: OpenMessage) -> RemoteSequence:
        """Send the first message and take its answer. Raises what the target's status says, or ContractViolation."""
        stream.send(message)
        opened = await stream.receive()
        if not isinstance(opened, Opened):
            raise ContractViolation(f"the target opened with {_name(opened)}")
        require(opened.prompt_tokens == len(message.request.prompt), "opened: another prompt length than was sent")
        return cls(stream, opened)

    @property
    def opened(self) -> Opened:
        return self._opened

    async def verify(self, draft: Draft) -> Verdict:
        """Judge one draft. Any error ends the sequence."""
        self._say(draft)
        return await self._verdict()

    async def run(self, limit: int, *, drafter: str = "") -> AsyncIterator[Verdict]:
        """Verdicts of at most `limit` tokens together. After leaving it early only `finish` is left to call."""
        self._say(RunMessage(limit=limit, drafter=drafter))
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
            if not self._ended:  # else the target ends the stream by itself
                self._stream.close()
            answer = await self._stream.receive()
            while isinstance(answer, Verdict) and self._running:  # of a run that was left early
                answer = await self._stream.receive()
            if not isinstance(answer, Finished):
                raise ContractViolation(f"the target ended with {_name(answer)}")
            self._finished = answer
            await self._stream.expect_end()
        return self._finished

    def _say(self, value: Draft | RunMessage) -> None:
        if self._running or self._ended or self._finished is not None:
            raise ContractViolation("the sequence has ended, or still runs: finish it")
        self._stream.send(value)

    async def _verdict(self) -> Verdict:
        answer = await self._stream.receive()
        if not isinstance(answer, Verdict):
            raise ContractViolation(f"the target answered a draft or run with {_name(answer)}")
        require(answer.position == self._position, "verdict: it stands at another position than the sequence")
        require(bool(answer.tokens) or answer.finish is not None, "verdict: it neither emits a token nor ends")
        self._position += len(answer.tokens)
        self._ended = answer.finish is not None
        return answer


def _name(answer: Opened | Verdict | Finished) -> str:
    return type(answer).__name__.lower()
