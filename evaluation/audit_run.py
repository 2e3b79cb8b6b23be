"""The audit at work: each case decoded plainly and alone, then disturbed among its group, and compared.

Two targets over the same weights: on one every case is decoded plainly, alone, and for the first time; on the other all
the rest happens. Targets are handed in, so that a broken one can be.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

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
class Outcome:
    """One case, decoded both ways.

    sessions: of its group. drafter: that it got. prompt_tokens: as counted.
    plain: what it should be. audited: what it was, None where an error ended it.
    fell_back: whether drafting was ended from outside.
    differences: none, if the promise holds.
    """

    case: Case
    sessions: int
    drafter: str
    prompt_tokens: int
    plain: Output
    audited: Output | None
    fell_back: bool
    differences: tuple[Difference, ...]


class Auditor:
    """Runs groups of cases.

    plain, audited: the two targets; the latter makes its own drafts by asking `desk`.
    context_tokens: of both, prompt and output together.
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
        context_tokens: int,
        clock: Callable[[], int],
    ) -> None:
        self._plain = plain
        self._audited = audited
        self._desk = desk
        self._drafters = drafters
        self._prompts = prompts
        self._vocabulary = vocabulary
        self._context_tokens = context_tokens
        self._clock = clock

    async def run(self, groups: Sequence[Group]) -> AsyncGenerator[tuple[Outcome, ...], None]:
        """A group's outcomes at a time. Raises what plain decoding raises; the audited target's errors are outcomes."""
        for group in groups:
            requests = [self._prompts.request(case, drafter="") for case in group]
            plain = [await self._plainly(self._plain, request) for request in requests]
            for case in group:
                before = self._prompts.asked_before(case)
                if before:
                    await self._plainly(self._audited, before)
            disturbed = (self._disturbed(case, known, len(group)) for case, known in zip(group, plain, strict=True))
            yield tuple(await asyncio.gather(*disturbed))

    async def _plainly(self, target: Target, request: DecodeRequest) -> Output:
        return await self._driven(target, self._session(request, Mode.PLAIN), None)

    async def _disturbed(self, case: Case, plain: Output, sessions: int) -> Outcome:
        name = f"{case.drafter}-{case.number}"
        request = self._prompts.request(case, drafter=name)
        opener = self._drafters.opener(case, plain)
        self._desk.leave(name, opener)
        session = self._session(
            request,
            case.mode,
            block_rows=case.draft_tokens + 1,
            guard=GuardRules(rate=case.guard_rate, server_run_tokens=case.run_tokens),
        )
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
            fell_back=session.draft_stop is DraftStop.GATE,
            differences=found,
        )

    def _session(
        self, request: DecodeRequest, mode: Mode, *, block_rows: int = 1, guard: GuardRules | None = None
    ) -> Session:
        return Session(
            request,
            mode=mode,
            block_rows=block_rows,
            context_length=self._context_tokens,
            token_bytes=self._vocabulary.token_bytes,
            end_of_text=self._vocabulary.end_of_text_ids,
            guard=guard,
        )

    async def _driven(
        self, target: Target, session: Session, drafting: DraftSession | None, *, fallback_after: int | None = None
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
