"""One request's account: what it did, settled once into the metrics and one log line. Knows nothing of gRPC or text.

The account hears of everything that the engine answers, so that a request that is cancelled or breaks is counted by
what it did, as `target_server.metrics` says.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import structlog

from decoding.drafting import Draft
from decoding.traces import trace
from decoding.verdict import (
    DecodeRequest,
    Finished,
    FinishReason,
    Opened,
    Statistics,
    Target,
    Verdict,
    Verifier,
)
from target_server.metrics import Metrics, Settled


class Account:
    """Mutable, of one request; made when its call arrives, which may be a little before its first message.

    method: "decode" or "complete".
    clock: seconds, monotonic.
    """

    def __init__(self, *, method: str, metrics: Metrics, clock: Callable[[], float]) -> None:
        self.request_id = ""
        self.language = ""
        self.drafter = ""
        self._method = method
        self._metrics = metrics
        self._clock = clock
        self._arrived = clock()
        self._first_token_at: float | None = None
        self._statistics = Statistics()
        self._queue_us = 0
        self._opened = False
        self._finished: Finished | None = None
        self._settled = False

    def opened(self, opened: Opened) -> None:
        """A sequence was opened."""
        self._opened = True
        self._metrics.session_opened()
        self._statistics = Statistics(prompt_tokens=opened.prompt_tokens, cached_tokens=opened.cached_tokens)

    def closed(self) -> None:
        """The sequence was freed."""
        self._metrics.session_closed()

    def judged(self, verdict: Verdict) -> None:
        """The engine ran one step."""
        if verdict.tokens and self._first_token_at is None:
            self._first_token_at = self._clock()
        so_far = self._statistics
        self._queue_us += verdict.queue_us
        self._statistics = replace(
            so_far,
            drafted_tokens=so_far.drafted_tokens + verdict.drafted,
            judged_tokens=so_far.judged_tokens + verdict.judged,
            accepted_tokens=so_far.accepted_tokens + verdict.accepted,
            emitted_tokens=so_far.emitted_tokens + len(verdict.tokens),
            verify_steps=so_far.verify_steps + 1,
        )

    def finished(self, finished: Finished) -> None:
        """The sequence ended as it should; its own statistics hold."""
        self._finished = finished

    def settle(self, status: str, error: BaseException | None = None) -> None:
        """Count and log the request, the first time this is called. `error` is given where something broke."""
        if self._settled:
            return
        self._settled = True
        settled = self._summary(status)
        self._metrics.settle(settled)
        log = structlog.get_logger()
        language, drafter = self._metrics.labels(settled.language, settled.drafter)  # never what a client invents
        statistics = settled.statistics
        (log.error if error is not None else log.info)(
            "request",
            method=settled.method,
            request_id=settled.request_id,
            language=language,
            drafter=drafter,
            status=settled.status,
            reason=settled.reason,
            prompt_tokens=statistics.prompt_tokens,
            cached_tokens=statistics.cached_tokens,
            drafted_tokens=statistics.drafted_tokens,
            judged_tokens=statistics.judged_tokens,
            accepted_tokens=statistics.accepted_tokens,
            emitted_tokens=statistics.emitted_tokens,
            verify_steps=statistics.verify_steps,
            queue_ms=settled.queue_us / 1e3,
            first_token_ms=settled.first_token_us / 1e3,
            total_ms=settled.total_us / 1e3,
            **({"trace": trace(error)} if error is not None else {}),
        )

    def _summary(self, status: str) -> Settled:
        ours = self._finished or Finished(
            reason=FinishReason.CLOSED,
            statistics=self._statistics,
            queue_us=self._queue_us,
            first_token_us=0 if self._first_token_at is None else self._microseconds(self._first_token_at),
            total_us=self._microseconds(self._clock()),
        )
        return Settled(
            method=self._method,
            request_id=self.request_id,
            language=self.language,
            drafter=self.drafter,
            reason=ours.reason if self._finished else None,
            status=status,
            opened=self._opened,
            statistics=ours.statistics,
            queue_us=ours.queue_us,
            first_token_us=ours.first_token_us,
            total_us=ours.total_us,
        )

    def _microseconds(self, moment: float) -> int:
        return round((moment - self._arrived) * 1e6)


@asynccontextmanager
async def watched(target: Target, request: DecodeRequest, account: Account) -> AsyncIterator[Verifier]:
    """Open a sequence of which `account` hears everything."""
    async with target.open(request) as verifier:
        account.opened(verifier.opened)
        try:
            yield _Watched(verifier, account)
        finally:
            account.closed()


class _Watched:
    """A Verifier that tells an account what another one answers."""

    def __init__(self, verifier: Verifier, account: Account) -> None:
        self._verifier = verifier
        self._account = account

    @property
    def opened(self) -> Opened:
        return self._verifier.opened

    async def verify(self, draft: Draft) -> Verdict:
        verdict = await self._verifier.verify(draft)
        self._account.judged(verdict)
        return verdict

    async def run(self, limit: int, *, drafter: str = "") -> AsyncIterator[Verdict]:
        async for verdict in self._verifier.run(limit, drafter=drafter):
            self._account.judged(verdict)
            yield verdict

    async def finish(self) -> Finished:
        finished = await self._verifier.finish()
        self._account.finished(finished)
        return finished
