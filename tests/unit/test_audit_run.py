"""The audit at work, on toys: what it asks of its two targets, and that whatever goes wrong is an outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from audits import BOUNDS, case, sources
from numpy.typing import NDArray
from tiny_models import save_tokenizer
from toy_target import ToyTarget
from toy_verifier import ToyVerifier

from decoding.arithmetic import NumpyArithmetic
from decoding.drafting import Draft, DraftingRequest
from decoding.errors import TargetFailed
from decoding.sequence import Sequence
from decoding.session import Mode
from decoding.verdict import DecodeRequest, Opened, Verdict
from drafts.registry import DrafterRegistry
from drafts.settings import DraftSettings
from drafts.vocabulary import Vocabulary
from evaluation.audit_cases import Case, Reuse, draw_groups
from evaluation.audit_drafting import Desk, Drafters
from evaluation.audit_prompts import Prompts
from evaluation.audit_run import Auditor, Outcome

CONTEXT_TOKENS = 400
Spoil = Callable[[Draft, Verdict], Verdict]


class Logits(ToyTarget):
    """A row as wide as the tiny tokenizer's vocabulary, from the last tokens."""

    def logits(self, tokens: tuple[int, ...]) -> NDArray[Any]:
        return np.random.default_rng(tokens[-self.order :]).normal(size=self.size).astype(np.float32) * 4


class Verifier(ToyVerifier):
    def __init__(self, target: Target, request: DecodeRequest) -> None:
        super().__init__(Logits(size=target.vocabulary.size), request)
        self.sequence = Sequence(
            request,
            end_of_text=frozenset(target.vocabulary.end_of_text_ids),
            token_bytes=target.vocabulary.token_bytes,
            vocabulary_size=target.vocabulary.size,
            context_length=CONTEXT_TOKENS,
            arithmetic=NumpyArithmetic(),
        )
        self.request = request
        self.spoil = target.spoil
        self.desk = target.desk

    @property
    def opened(self) -> Opened:
        return Opened(prompt_tokens=len(self.request.prompt), cached_tokens=0, seed=0, noise_version="toy")

    async def verify(self, draft: Draft) -> Verdict:
        await asyncio.sleep(0)
        return self.spoil(draft, await super().verify(draft))

    async def run(self, limit: int, *, drafter: str = "") -> AsyncGenerator[Verdict, None]:
        known = DraftingRequest(prompt=self.request.prompt, language="python", sampling=self.request.sampling)
        drafting = self.desk("python", drafter, known) if drafter else None
        if drafting:
            drafting.extend(self.history[len(self.request.prompt) :])
            self._guess = lambda history, room: drafting.propose(room).tokens if room else ()
        async for verdict in super().run(limit, drafter=drafter if drafting else ""):
            if drafting:
                drafting.extend(verdict.tokens)
            yield verdict


class Target:
    """Opens toys. `spoil` may change each verdict; `asked` are the requests so far; `most` were open at once."""

    def __init__(self, vocabulary: Vocabulary, spoil: Spoil = lambda draft, verdict: verdict) -> None:
        self.vocabulary = vocabulary
        self.spoil = spoil
        self.desk = Desk()
        self.asked: list[DecodeRequest] = []
        self.most = 0
        self._now = 0

    @asynccontextmanager
    async def open(self, request: DecodeRequest) -> AsyncIterator[Verifier]:
        self.asked.append(request)
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            yield Verifier(self, request)
        finally:
            self._now -= 1


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    folder = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(folder)
    return Vocabulary.load(folder)


async def outcomes(audited: Target, *groups: tuple[Case, ...], plain: Target | None = None) -> list[Outcome]:
    vocabulary = audited.vocabulary
    auditor = Auditor(
        plain=plain or Target(vocabulary),
        audited=audited,
        desk=audited.desk,
        drafters=Drafters(DrafterRegistry(DraftSettings(), vocabulary), vocabulary),
        prompts=Prompts(sources(), vocabulary, prompt_tokens=BOUNDS.prompt_tokens),
        vocabulary=vocabulary,
        context_tokens=CONTEXT_TOKENS,
        clock=time.monotonic_ns,
    )
    return [outcome async for group in auditor.run(groups) for outcome in group]


async def test_sound_targets_differ_in_nothing(vocabulary: Vocabulary) -> None:
    drawn = draw_groups(sources(), count=60, seed=0, bounds=BOUNDS)
    groups = tuple(tuple(replace(each, delay_ms=0) for each in group) for group in drawn)
    plain, audited = Target(vocabulary), Target(vocabulary)
    found = await outcomes(audited, *groups, plain=plain)
    assert [outcome.differences for outcome in found] == [()] * 60
    assert (plain.most, audited.most) == (1, 8)
    assert len({request.prompt for request in plain.asked}) == len(plain.asked) == 60
    drafted = dict.fromkeys((outcome.drafter for outcome in found), 0)
    for outcome in found:
        assert outcome.audited is not None
        drafted[outcome.drafter] += outcome.audited.statistics.drafted_tokens
    assert drafted["none"] == 0
    assert drafted["noise"] > 0
    assert drafted["oracle"] > 0


async def test_what_is_to_be_reused_is_asked_right_before_and_only_then(vocabulary: Vocabulary) -> None:
    audited = Target(vocabulary)
    group = (case(number=1, reuse=Reuse.SHORTER), case(number=2), case(number=3, reuse=Reuse.LONGER))
    await outcomes(audited, group)
    lengths = [(request.request_id, len(request.prompt)) for request in audited.asked]
    assert lengths[:2] == [("audit-1", 59), ("audit-3", 69)]
    assert sorted(lengths[2:]) == [("audit-1", 64), ("audit-2", 64), ("audit-3", 64)]


@pytest.mark.parametrize("mode", [Mode.EDGE, Mode.SERVER])
async def test_drafting_ends_when_the_case_says(vocabulary: Vocabulary, mode: Mode) -> None:
    drafter = case(right=1.0, mode=mode, run_tokens=4)
    at_once, late, never = await outcomes(
        Target(vocabulary),
        *((replace(drafter, number=n, fallback_after=after),) for n, after in enumerate((0, 6, None))),
    )
    counts = [outcome.audited.statistics.drafted_tokens for outcome in (at_once, late, never) if outcome.audited]
    assert counts[0] == 0 < counts[1] < counts[2]
    assert [outcome.fell_back for outcome in (at_once, late, never)] == [True, True, False]


async def test_a_target_that_judges_drafts_wrongly_is_caught(vocabulary: Vocabulary) -> None:
    def nudged(draft: Draft, verdict: Verdict) -> Verdict:
        if not draft.tokens:
            return verdict
        last = float(np.nextafter(verdict.log_probabilities[-1], 0))
        return replace(verdict, log_probabilities=(*verdict.log_probabilities[:-1], last))

    drafting, plain = await outcomes(Target(vocabulary, nudged), (case(), case(number=8, drafter="none")))
    assert [difference.field for difference in drafting.differences] == ["log_probabilities"]
    assert plain.differences == ()


async def test_an_error_is_an_outcome_of_its_case_alone(vocabulary: Vocabulary) -> None:
    def failing(draft: Draft, verdict: Verdict) -> Verdict:
        if draft.tokens and verdict.position > 66:
            raise TargetFailed("the model failed")
        return verdict

    broken, beside = await outcomes(Target(vocabulary, failing), (case(right=1.0), case(number=8, drafter="none")))
    (difference,) = broken.differences
    assert (difference.field, difference.plain) == ("error", None)
    assert str(difference.audited).startswith("TargetFailed")
    assert difference.position is not None
    assert difference.position > 66
    assert broken.audited is None
    assert beside.differences == ()


async def test_a_verdict_that_breaks_the_contract_is_a_difference(vocabulary: Vocabulary) -> None:
    found = await outcomes(Target(vocabulary, lambda _, verdict: replace(verdict, position=1)), (case(),))
    assert str(found[0].differences[0].audited).startswith("ContractViolation")
