"""The one loop of decoding: it does what a session says, with a drafter on one side and a target on the other.

Every path runs it, plain and speculative, beside the editor and at the target. A drafter can only ever slow a request
down, and not for long: one that raises or takes too long is dropped for the request, which goes on plainly. Decides
nothing of decoding itself; knows nothing of models or sockets.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass

import structlog

from decoding.drafting import DraftSession
from decoding.errors import InvalidSetting
from decoding.session import Chunk, Done, DraftStop, Mode, Propose, Run, Session, Verify
from decoding.traces import trace
from decoding.verdict import Verifier

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftBudget:
    """How long one draft may take, since drafting runs on the event loop.

    draft_us: microseconds a draft, the drafter's reading of new tokens included; 1 or more.
    strikes: drafts in a row over that before the drafter is dropped for the request, 1 or more.
    """

    draft_us: int = 20_000
    strikes: int = 3

    def __post_init__(self) -> None:
        for field in ("draft_us", "strikes"):
            if getattr(self, field) < 1:
                raise InvalidSetting(f"budget.{field}", f"must be 1 or more, got {getattr(self, field)}")


async def speculate(
    session: Session,
    drafting: DraftSession | None,
    verifier: Verifier,
    *,
    clock: Callable[[], int],
    budget: DraftBudget | None = None,
) -> AsyncGenerator[Chunk, None]:
    """Drive a session to its end; a chunk for each verdict.

    drafting: this request's, needed in EDGE mode and unused in the others.
    clock: nanoseconds, monotonic.

    The verifier stays open: the caller asks it for the final statistics, and frees it. Closing the generator early is
    fine at any point. Raises InvalidSetting for EDGE without drafting, what the verifier raises, and
    ContractViolation as the session does.
    """
    session.opened(verifier.opened)
    drafter = _Drafter(session, drafting, clock, budget or DraftBudget())
    while not isinstance(action := session.next(), Done):
        if isinstance(action, Propose):
            drafter.propose(action.limit)
        elif isinstance(action, Verify):
            start = clock()
            verdict = await verifier.verify(action.draft)
            chunk = session.judged(verdict, wait_us=_us(clock() - start))
            drafter.extend(chunk.tokens)
            yield chunk
        else:
            async with aclosing(_run(session, action, verifier, clock)) as chunks:
                async for chunk in chunks:
                    drafter.extend(chunk.tokens)
                    yield chunk


async def _run(session: Session, run: Run, verifier: Verifier, clock: Callable[[], int]) -> AsyncGenerator[Chunk, None]:
    verdicts = verifier.run(run.limit, drafter=run.drafter)
    try:
        start = clock()
        async for verdict in verdicts:
            yield session.judged(verdict, wait_us=_us(clock() - start))
            start = clock()
    finally:
        if isinstance(verdicts, AsyncGenerator):
            await verdicts.aclose()


class _Drafter:
    """A request's drafting on a short leash: timed, and dropped when it fails."""

    def __init__(
        self, session: Session, drafting: DraftSession | None, clock: Callable[[], int], budget: DraftBudget
    ) -> None:
        self._session = session
        self._drafting = drafting if session.mode is Mode.EDGE else None
        self._clock = clock
        self._budget = budget
        self._spent_ns = 0
        self._strikes = 0

    def propose(self, limit: int) -> None:
        """Answer the session's Propose, or end its drafting."""
        if self._drafting is None:
            raise InvalidSetting("session.mode", "edge needs a drafting session")
        start = self._clock()
        try:
            draft = self._drafting.propose(limit)
            spent_us = _us(self._spent_ns + self._clock() - start)
            self._session.drafted(draft, draft_us=spent_us)
        except Exception as error:  # whatever a drafter does, the request goes on
            self._drop(DraftStop.DRAFTER_FAILED, error)
            return
        self._spent_ns = 0
        self._strikes = self._strikes + 1 if spent_us > self._budget.draft_us else 0
        if self._strikes == self._budget.strikes:
            self._drop(DraftStop.OVER_BUDGET)

    def extend(self, tokens: tuple[int, ...]) -> None:
        """Show the drafter what the target emitted, while it is still of use."""
        if self._drafting is None or not self._session.drafting or self._session.finish is not None:
            return
        start = self._clock()
        try:
            self._drafting.extend(tokens)
        except Exception as error:  # as above
            self._drop(DraftStop.DRAFTER_FAILED, error)
        self._spent_ns += self._clock() - start

    def _drop(self, reason: DraftStop, error: Exception | None = None) -> None:
        self._drafting = None
        self._session.stop_drafting(reason)
        request = self._session.request
        log.warning(
            "drafter dropped for this request",
            reason=reason.value,
            drafter=request.drafter,
            language=request.language,
            request_id=request.request_id,
            error=trace(error) if error else None,
        )


def _us(nanoseconds: int) -> int:
    return nanoseconds // 1000
