"""One Decode call as values out and values in, with the errors that the target meant. Knows nothing of their order.

What is sent goes through a queue, and only receiving fails. For grpc.aio marks a call whose write failed as INTERNAL,
be it before the status that ended the call has come or over it: a target that ends a call (a deadline, a drain) just as
a draft is written would seem broken. So the first status is noted as it comes, and a late one is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from grpc import StatusCode, aio

from decoding.drafting import Draft
from decoding.errors import ContractViolation
from decoding.verdict import Finished, Opened, Verdict
from slipstream import wire
from slipstream.opening import OpenMessage, RunMessage
from slipstream.services import DecodeRequestMessage, DecodeResponseMessage, TargetStub
from slipstream.statuses import from_rpc_error, translated

Value = TypeVar("Value")

_WRITE_FAILED = "Internal error from Core"
_STATUS_WAIT_S = 1.0
_STATUS_POLL_S = 0.001


class DecodeStream:
    """For one task at a time; cancelling it while it receives ends the call.

    timeout_s: seconds for the whole call; None is no deadline.
    """

    def __init__(
        self, stub: TargetStub, *, timeout_s: float | None = None, metadata: tuple[tuple[str, str], ...] = ()
    ) -> None:
        self._outbox: asyncio.Queue[DecodeRequestMessage | None] = asyncio.Queue()
        self._call: Any = stub.Decode(self._outgoing(), timeout=timeout_s, metadata=metadata)
        self._answers: AsyncIterator[DecodeResponseMessage] = aiter(self._call)
        self._noted: aio.AioRpcError | None = None
        self._call.add_done_callback(self._note)

    def send(self, value: OpenMessage | Draft | RunMessage) -> None:
        """Raises InvalidSetting where no message can hold it."""
        self._outbox.put_nowait(wire.request_message(value))

    def close(self) -> None:
        """Close our side: nothing more will be sent."""
        self._outbox.put_nowait(None)

    async def receive(self) -> Opened | Verdict | Finished:
        """Raises what ended the call; ContractViolation where the target ended it without an error."""
        message = await self._next()
        if message is None:
            raise ContractViolation("the target ended the stream early")
        return wire.answer_value(message)

    async def expect_end(self) -> None:
        """Raises ContractViolation where the target goes on."""
        if await self._next() is not None:
            raise ContractViolation("the target went on after it had finished")

    def end(self) -> None:
        """Free the call, at once and at both sides, if it isn't over."""
        self.close()
        self._call.cancel()

    async def _outgoing(self) -> AsyncIterator[DecodeRequestMessage]:
        while (message := await self._outbox.get()) is not None:
            yield message

    async def _next(self) -> DecodeResponseMessage | None:
        """None where the call has ended well."""
        with translated():
            try:
                return await anext(self._answers, None)
            except aio.AioRpcError as error:
                meant = await self._meant(error)
                if meant.code() is StatusCode.OK:
                    return None
                raise from_rpc_error(meant) from error

    async def _meant(self, error: aio.AioRpcError) -> aio.AioRpcError:
        """The status that the target, or the transport, ended the call with."""
        if error.details() != _WRITE_FAILED:
            return error
        deadline = asyncio.get_running_loop().time() + _STATUS_WAIT_S
        while self._noted is None or self._noted.details() == _WRITE_FAILED:
            if asyncio.get_running_loop().time() > deadline:
                return error
            await asyncio.sleep(_STATUS_POLL_S)
            self._note(self._call)
        return self._noted

    def _note(self, call: Any) -> None:
        """Called at the call's first status."""
        self._noted = aio.AioRpcError(
            _now(call.code()),
            _now(call.initial_metadata()),
            _now(call.trailing_metadata()),
            details=_now(call.details()),
        )


def _now(coroutine: Coroutine[Any, Any, Value]) -> Value:
    """The result of one that has nothing to wait for, as all that ask for the status of a call that has one."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: Value = done.value
        return result
    raise AssertionError("a call with a status had none")
