"""The audit at work: each case decoded plainly and alone, then disturbed among its group, and compared.

Two targets over the same weights: on one every case is decoded plainly, alone, and for the first time; on the other all
the rest happens. Targets are handed in, so that a broken one can be.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from decoding.drafting import DraftingRequest, DraftSession
from decoding.errors import SlipstreamError
from decoding.rules import GuardRules
from decoding.session import DraftStop, Mode, Session
from decoding.verdict import DecodeRequest, Target
from drafts.speculation import DraftBudget, speculate
from drafts.vocabulary import Vocabulary
from evaluation.audit_cases import Case, Group
from evaluation.audit_comparison import Difference, Output, differences
from evaluation.audit_drafting import Desk, Drafters
from evaluation.audit_prompts import Prompts

_PATIENT = DraftBudget(draft_us=60_000_000)  # a busy machine must not decide what is tried


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of both targets: tokens of prompt and output together, and rows of a verify block."""

    context_tokens: int
    block_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One case, decoded both ways.

    sessions: of its group. drafter: that it got. prompt_tokens: as counted.
    plain: what it should be. audited: what it was, None where an error ended it.
    cached_tokens: of the prompt, that the audited target and the plain one had kept.
    fell_back: whether drafting was ended from outside.
    differences: none, if the promise holds.
    """

    case: Case
    sessions: int
    drafter: str
    prompt_tokens: int
    plain: Output
    audited: Output | None
    cached_tokens: int
    plain_cached_tokens: int
    fell_back: bool
    differences: tuple[Difference, ...]


class Auditor:
    """Runs groups of cases.

    plain, audited: the two targets; the latter makes its own drafts by asking `desk`.
    clock: nanoseconds, monotonic.
    """

    def __init__(
        self,
        *,
        plain: Target,
        audited: Target,
        desk: Desk,
        drafters: Drafters,
        prompts: Prompts,
        vocabulary: Vocabulary,
        limits: Limits,
        clock: Callable[[], int],
    ) -> None:
        self._plain = plain
        self._audited = audited
        self._desk = desk
        self._drafters = drafters
        self._prompts = prompts
        self._vocabulary = vocabulary
        self._limits = limits
        self._clock = clock

    async def run(self, groups: Sequence[Group]) -> AsyncGenerator[tuple[Outcome, ...], None]:
        """A group's outcomes at a time. Raises what plain decoding raises; the audited target's errors are outcomes."""
        for group in groups:
            plain = [await self._plainly(case) for case in group]
            for case in group:
                before = self._prompts.asked_before(case)
                if before:
                    await self._decode(self._audited, before, mode=Mode.PLAIN)
            disturbed = (self._disturbed(case, known, len(group)) for case, known in zip(group, plain, strict=True))
            yield tuple(await asyncio.gather(*disturbed))

    async def _plainly(self, case: Case) -> tuple[Output, Session]:
        return await self._decode(self._plain, self._prompts.request(case, drafter=""), mode=Mode.PLAIN)

    async def _disturbed(self, case: Case, known: tuple[Output, Session], sessions: int) -> Outcome:
        plain, plain_session = known
        name = f"{case.drafter}-{case.number}"
        request = self._prompts.request(case, drafter=name)
        opener = self._drafters.opener(case, plain)
        self._desk.leave(name, opener)
        session = self._session(request, case.mode, case)
        drafting = opener(DraftingRequest(prompt=request.prompt, language=case.language, sampling=request.sampling))
        audited: Output | None = None
        await asyncio.sleep(case.delay_ms / 1000)
        try:
            audited = await self._driven(self._audited, session, drafting, fallback_after=case.fallback_after)
            found = differences(plain, audited, prompt_tokens=len(request.prompt))
        except SlipstreamError as error:
            said = f"{type(error).__name__}: {error}"
            found = (Difference(field="error", position=session.position, plain=None, audited=said),)
        finally:
            self._desk.take_back(name)
        return Outcome(
            case=case,
            sessions=sessions,
            drafter=self._drafters.name(case),
            prompt_tokens=len(request.prompt),
            plain=plain,
            audited=audited,
            cached_tokens=session.statistics.cached_tokens,
            plain_cached_tokens=plain_session.statistics.cached_tokens,
            fell_back=session.draft_stop is DraftStop.GATE,
            differences=found,
        )

    async def _decode(self, target: Target, request: DecodeRequest, *, mode: Mode) -> tuple[Output, Session]:
        session = self._session(request, mode, None)
        return await self._driven(target, session, None, fallback_after=None), session

    def _session(self, request: DecodeRequest, mode: Mode, case: Case | None) -> Session:
        guard = GuardRules()
        block_rows = self._limits.block_rows
        if case is not None:
            guard = replace(guard, rate=case.guard_rate, server_run_tokens=case.run_tokens)
            block_rows = case.draft_tokens + 1
        return Session(
            request,
            mode=mode,
            block_rows=block_rows,
            context_length=self._limits.context_tokens,
            token_bytes=self._vocabulary.token_bytes,
            end_of_text=self._vocabulary.end_of_text_ids,
            guard=guard,
        )

    async def _driven(
        self, target: Target, session: Session, drafting: DraftSession | None, *, fallback_after: int | None
    ) -> Output:
        """A session to its end, its drafting ended once so many tokens have come."""
        tokens: list[int] = []
        text: list[str] = []
        log_probabilities: list[float] = []

        def fall_back_when_due() -> None:
            if fallback_after is not None and len(tokens) >= fallback_after:
                session.stop_drafting(DraftStop.GATE)

        fall_back_when_due()
        async with target.open(session.request) as verifier:
            loop = speculate(session, drafting, verifier, clock=self._clock, budget=_PATIENT)
            async with aclosing(loop) as chunks:
                async for chunk in chunks:
                    tokens += chunk.tokens
                    text.append(chunk.text)
                    log_probabilities += chunk.log_probabilities
                    fall_back_when_due()
            finished = await verifier.finish()
        return Output(
            tokens=tuple(tokens),
            text="".join(text),
            log_probabilities=tuple(log_probabilities),
            finish=finished.reason,
            statistics=finished.statistics,
        )
