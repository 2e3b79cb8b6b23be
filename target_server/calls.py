"""The frame around every call: its time, its request id, its errors as statuses, its account settled. No method's work.

What breaks becomes INTERNAL with a neutral message, and is traced in the log; the server goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import structlog
from grpc import aio

from decoding.errors import DeadlineExceeded, SlipstreamError, TargetFailed
from decoding.traces import trace
from slipstream.fields import check_request_id
from slipstream.statuses import to_status
from target_server.account import Account
from target_server.lifecycle import Lifecycle
from target_server.metrics import Metrics

REQUEST_ID_KEY = "x-request-id"

Context = aio.ServicerContext[Any, Any]


class Calls:
    """Shared by the services. `clock` is in seconds, monotonic; `draw_bits(n)` gives n random bits."""

    def __init__(
        self,
        *,
        lifecycle: Lifecycle,
        metrics: Metrics,
        timeout_s: float,
        clock: Callable[[], float],
        draw_bits: Callable[[int], int],
    ) -> None:
        self.lifecycle = lifecycle
        self._metrics = metrics
        self._timeout_s = timeout_s
        self._clock = clock
        self._draw_bits = draw_bits

    def seed(self) -> int:
        """A seed for a request that names none."""
        return self._draw_bits(64)

    def request_id(self, context: Context) -> str:
        """The one in the metadata, else a new one. Raises InvalidSetting."""
        stated = str(dict(context.invocation_metadata() or ()).get(REQUEST_ID_KEY, ""))
        check_request_id(stated, REQUEST_ID_KEY)
        return stated or f"{self._draw_bits(64):016x}"

    @asynccontextmanager
    async def answering(self, context: Context) -> AsyncIterator[None]:
        """Frame a call that only reads what is served."""
        self._begin(context)
        try:
            yield
        except Exception as error:
            if not isinstance(error, SlipstreamError):
                structlog.get_logger().error("call", trace=trace(error))
            await context.abort(*to_status(error))

    @asynccontextmanager
    async def accounted(self, context: Context, method: str) -> AsyncIterator[Account]:
        """Frame a call that decodes: within the client's deadline and the server's own limit, with an account."""
        self._begin(context)
        account = Account(method=method, metrics=self._metrics, clock=self._clock)
        remaining: float | None = context.time_remaining()
        limit = self._timeout_s if remaining is None else min(self._timeout_s, remaining)
        timer = asyncio.timeout(limit)
        try:
            async with timer:
                yield account
        except asyncio.CancelledError:
            late = timer.expired() or context.time_remaining() == 0
            account.settle("DEADLINE_EXCEEDED" if late else "CANCELLED")
            raise
        except Exception as raised:
            error = DeadlineExceeded(f"the request had {limit:.3f} seconds") if timer.expired() else raised
            status = to_status(error)
            unexpected = isinstance(error, TargetFailed) or not isinstance(error, SlipstreamError)
            account.settle(status.code.name, error if unexpected else None)
            try:
                await context.abort(*status)
            except aio.InternalError:  # no status can be sent any more: the client has gone in this moment
                raise asyncio.CancelledError from None

    def _begin(self, context: Context) -> None:
        self.lifecycle.call_began()
        # The stubs take the callback's type for a class.
        context.add_done_callback(lambda _: self.lifecycle.call_ended())  # type: ignore[arg-type]
