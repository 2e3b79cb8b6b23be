"""One client of a storm: it drives its request to the moment at which it is to be left, and leaves. Counts nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from random import Random

from decoding.drafting import Draft
from decoding.errors import DeadlineExceeded, SlipstreamError, TargetUnavailable
from decoding.verdict import DecodeRequest, Verdict, Verifier
from evaluation.storm_cases import Case, Ending, Moment
from lsp_server.target_client import TargetClient

LEFT = "left"
FINISHED = "finished"
TOO_LATE = "too late"
EXPECTED = (LEFT, FINISHED, TOO_LATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long things take in the crowd that the storm is, seconds: to open, the prompt, one step, a whole request."""

    opening_s: float
    prefill_s: float
    step_s: float
    whole_s: float

    def of(self, moment: Moment) -> float:
        match moment:
            case Moment.OPENING:
                return self.opening_s
            case Moment.PREFILL:
                return self.prefill_s
            case _:
                return self.step_s


class StormClient:
    """shared: the connection of all that don't close theirs. connect: makes one for a request that does."""

    def __init__(
        self, shared: TargetClient, *, connect: Callable[[], TargetClient], pace: Pace, vocabulary_size: int
    ) -> None:
        self._shared = shared
        self._connect = connect
        self._pace = pace
        self._vocabulary_size = vocabulary_size

    async def suffer(self, case: Case) -> str:
        """Run one case: LEFT, FINISHED where the end was sooner, TOO_LATE; else the name of an error nobody meant."""
        alone = self._connect() if case.ending is Ending.CLOSE else None
        try:
            return await self._suffer(case, alone or self._shared)
        finally:
            if alone is not None:
                await alone.close()

    async def _suffer(self, case: Case, client: TargetClient) -> str:
        due = case.ending is Ending.DEADLINE
        timeout_s = max(0.001, case.share * self._pace.whole_s) if due else None
        reached = asyncio.Event()
        task = asyncio.create_task(self._drive(case, client, reached, timeout_s))
        if not due:
            waiting = asyncio.create_task(reached.wait())
            await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            await asyncio.sleep(case.share * self._pace.of(case.moment))
            if case.ending is Ending.CLOSE:
                await client.close()
            task.cancel()
        (outcome,) = await asyncio.gather(task, return_exceptions=True)
        return _named(outcome, case.ending)

    async def _drive(self, case: Case, client: TargetClient, reached: asyncio.Event, timeout_s: float | None) -> None:
        """To the end, if nobody ends it; `reached` is set at the moment."""
        if case.moment is Moment.OPENING:
            reached.set()
        async with client.open(case.request, timeout_s=timeout_s) as verifier:
            if case.moment is Moment.PREFILL or (case.moment is Moment.STEP and not case.steps):
                reached.set()
            seen = 0
            async for _ in self._steps(case, verifier):
                seen += 1
                if seen < case.steps or case.moment is Moment.FINISH:
                    continue
                reached.set()
                if case.moment is Moment.BETWEEN:
                    await asyncio.sleep(2 * self._pace.step_s)
            reached.set()
            await verifier.finish()

    def _steps(self, case: Case, verifier: Verifier) -> AsyncIterator[Verdict]:
        match case.moment:
            case Moment.RUN:
                return verifier.run(case.request.stop.max_tokens)
            case Moment.FINISH:  # of the output, or of what the client wants of it
                return verifier.run(case.request.stop.max_tokens if case.steps % 2 else case.steps + 1)
            case _:
                dice = Random(case.number)  # noqa: S311 - to be drawn again
                return drafted(verifier, case.request, case.draft_tokens, self._vocabulary_size, dice)


async def drafted(
    verifier: Verifier, request: DecodeRequest, tokens: int, vocabulary_size: int, dice: Random
) -> AsyncIterator[Verdict]:
    """Verdicts on random drafts, to the end of the output."""
    verdict: Verdict | None = None
    position = len(request.prompt)
    while verdict is None or verdict.finish is None:
        guess = tuple(dice.randrange(vocabulary_size) for _ in range(tokens))
        verdict = await verifier.verify(Draft(position=position, tokens=guess, sampling_fingerprint=""))
        position += len(verdict.tokens)
        yield verdict


def _named(outcome: object, ending: Ending) -> str:
    match outcome:
        case None:
            return FINISHED
        case asyncio.CancelledError():
            return LEFT
        case DeadlineExceeded() if ending is Ending.DEADLINE:
            return TOO_LATE
        case TargetUnavailable() if ending is Ending.CLOSE:
            return LEFT
        case SlipstreamError():
            return f"{type(outcome).__name__}: {outcome}"
        case _:
            return type(outcome).__name__
