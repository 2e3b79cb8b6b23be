"""The driver: what a drafter may do to a request (nothing), what is measured, and how it ends early."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing

import pytest
from structlog.testing import capture_logs
from toy_target import ToyTarget
from toy_verifier import PROMPT, ToyDrafting, ToyVerifier, reference, request, session

from decoding.drafting import Draft
from decoding.errors import ContractViolation, DeadlineExceeded, InvalidSetting
from decoding.sampling import SamplingConfig
from decoding.session import Chunk, DraftStop, Mode
from decoding.stopping import StopRules
from decoding.verdict import Opened, Verdict
from drafts.speculation import DraftBudget, speculate

TARGET = ToyTarget()
# Sampled, without an end: 24 tokens that don't repeat.
OPENING = request(sampling=SamplingConfig(temperature=1, seed=3, banned=(0,)), stop=StopRules(max_tokens=24))


def frozen() -> int:
    return 0


async def plain_tokens() -> tuple[int, ...]:
    return tuple(token for verdict in await reference(TARGET, OPENING) for token in verdict.tokens)


def emitted(chunks: Sequence[Chunk]) -> tuple[int, ...]:
    return tuple(token for chunk in chunks for token in chunk.tokens)


async def oracle() -> Callable[[tuple[int, ...], int], tuple[int, ...]]:
    truth = await plain_tokens()
    return lambda history, limit: truth[len(history) - len(PROMPT) :][:limit]


async def test_a_good_drafter_makes_few_rounds() -> None:
    subject = session(OPENING, Mode.EDGE, block_rows=8)
    verifier = ToyVerifier(TARGET, OPENING)
    chunks = [chunk async for chunk in speculate(subject, ToyDrafting(await oracle()), verifier, clock=frozen)]
    assert emitted(chunks) == await plain_tokens()
    assert len(chunks) == 3
    assert verifier.runs == []
    assert chunks[0].sources == ("toy",) * 7 + ("target",)
    assert subject.statistics.cached_tokens == 1


async def test_the_server_drafts_by_the_name_of_the_drafter() -> None:
    subject = session(OPENING, Mode.SERVER)
    verifier = ToyVerifier(TARGET, OPENING, guess=await oracle())
    chunks = [chunk async for chunk in speculate(subject, None, verifier, clock=frozen)]
    assert emitted(chunks) == await plain_tokens()
    assert verifier.runs == [(24, "toy")]
    assert chunks[0].sources[0] == "server"


class Breaks(ToyDrafting):
    """Good, until the `fails_at`-th draft, or the reading before it, goes wrong."""

    def __init__(self, guess: Callable[[tuple[int, ...], int], tuple[int, ...]], fault: str, fails_at: int) -> None:
        super().__init__(guess)
        self.calls = 0
        self._fault = fault
        self._fails_at = fails_at

    def extend(self, tokens: Sequence[int]) -> None:
        if self._fault == "reading raises" and self.calls == self._fails_at:
            raise KeyError("def secret():")
        super().extend(tokens)

    def propose(self, limit: int) -> Draft:
        self.calls += 1
        draft = super().propose(limit)
        if self.calls < self._fails_at:
            return draft
        match self._fault:
            case "drafting raises":
                raise ValueError("def secret():")
            case "too long":
                return Draft(position=draft.position, tokens=(1,) * (limit + 1), sampling_fingerprint="")
            case "stale":
                return Draft(position=draft.position - 1, tokens=(1,), sampling_fingerprint="")
            case "another config":
                return Draft(position=draft.position, tokens=(1,), sampling_fingerprint="0" * 16)
        return draft


@pytest.mark.parametrize("fails_at", [1, 2, 3])
@pytest.mark.parametrize("fault", ["drafting raises", "reading raises", "too long", "stale", "another config"])
async def test_a_drafter_that_breaks_is_dropped_and_changes_nothing(fault: str, fails_at: int) -> None:
    subject = session(OPENING, Mode.EDGE, block_rows=4)
    drafting = Breaks(await oracle(), fault, fails_at)
    verifier = ToyVerifier(TARGET, OPENING)
    with capture_logs() as logs:
        chunks = [chunk async for chunk in speculate(subject, drafting, verifier, clock=frozen)]
    assert emitted(chunks) == await plain_tokens()
    assert subject.draft_stop is DraftStop.DRAFTER_FAILED
    assert drafting.calls == fails_at  # never asked again
    assert len(verifier.runs) == 1
    (entry,) = logs
    assert entry["reason"] == "drafter_failed"
    assert entry["log_level"] == "warning"
    assert (entry["language"], entry["drafter"], entry["request_id"]) == ("python", "toy", "toy")
    assert "secret" not in repr(entry)


class Clock:
    """Nanoseconds that pass only where they are told to."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


class Slow(ToyDrafting):
    """Takes as long over each draft as `durations` says, in microseconds."""

    def __init__(
        self, guess: Callable[[tuple[int, ...], int], tuple[int, ...]], clock: Clock, durations: Iterator[int]
    ) -> None:
        super().__init__(guess)
        self._clock = clock
        self._durations = durations
        self.extend_us = 0

    def extend(self, tokens: Sequence[int]) -> None:
        self._clock.now += self.extend_us * 1000
        super().extend(tokens)

    def propose(self, limit: int) -> Draft:
        self._clock.now += next(self._durations) * 1000
        return super().propose(limit)


@pytest.mark.parametrize(
    ("durations", "dropped"),
    [([101, 101, 101, 101], True), ([101, 100], False), ([500, 10, 500, 10], False), ([100], False)],
)
async def test_a_drafter_over_its_budget_is_dropped_when_it_is_so_repeatedly(
    durations: list[int], dropped: bool
) -> None:
    subject = session(OPENING, Mode.EDGE, block_rows=3)
    clock = Clock()
    drafting = Slow(await oracle(), clock, itertools.cycle(durations))
    with capture_logs() as logs:
        chunks = [
            chunk
            async for chunk in speculate(
                subject,
                drafting,
                ToyVerifier(TARGET, OPENING),
                clock=clock,
                budget=DraftBudget(draft_us=100, strikes=2),
            )
        ]
    assert emitted(chunks) == await plain_tokens()
    assert subject.draft_stop is (DraftStop.OVER_BUDGET if dropped else None)
    assert [entry["reason"] for entry in logs] == ["over_budget"] * dropped


async def test_time_is_measured_by_the_clock_that_is_given() -> None:
    clock = Clock()

    class Timed(ToyVerifier):
        async def verify(self, draft: Draft) -> Verdict:
            clock.now += 30_000
            return await super().verify(draft)

    subject = session(OPENING, Mode.EDGE, block_rows=8)
    drafting = Slow(await oracle(), clock, itertools.repeat(5))
    drafting.extend_us = 2
    async for _ in speculate(subject, drafting, Timed(TARGET, OPENING), clock=clock):
        pass
    outcome = subject.outcome()
    # Three rounds of 8 tokens, the first untimed; reading the last verdict belongs to the next draft.
    assert outcome.speculative_tokens == 16
    assert outcome.speculative_us == 2 * (2 + 5 + 30)
    assert (outcome.plain_us, outcome.plain_tokens) == (0, 0)


async def test_closing_early_closes_the_targets_run() -> None:
    verifier = ToyVerifier(TARGET, OPENING)
    async with aclosing(speculate(session(OPENING, Mode.PLAIN), None, verifier, clock=frozen)) as chunks:
        await anext(chunks)
        assert verifier.running
    assert not verifier.running


async def test_the_verifiers_errors_come_through() -> None:
    class Late(ToyVerifier):
        async def verify(self, draft: Draft) -> Verdict:
            raise DeadlineExceeded("too late")

    for mode in (Mode.EDGE, Mode.PLAIN):
        subject = session(OPENING, mode)
        with pytest.raises(DeadlineExceeded):
            async for _ in speculate(subject, ToyDrafting(await oracle()), Late(TARGET, OPENING), clock=frozen):
                pass
        assert subject.outcome().emitted == 0


async def test_a_target_that_opened_another_prompt_is_refused() -> None:
    class Confused(ToyVerifier):
        @property
        def opened(self) -> Opened:
            return Opened(prompt_tokens=3, cached_tokens=0, seed=0, noise_version="")

    with pytest.raises(ContractViolation):
        await anext(speculate(session(OPENING, Mode.PLAIN), None, Confused(TARGET, OPENING), clock=frozen))


async def test_edge_needs_a_drafter() -> None:
    with pytest.raises(InvalidSetting, match=r"session\.mode"):
        await anext(speculate(session(OPENING, Mode.EDGE), None, ToyVerifier(TARGET, OPENING), clock=frozen))


def test_a_budget_out_of_range_names_its_field() -> None:
    with pytest.raises(InvalidSetting, match=r"budget\.draft_us"):
        DraftBudget(draft_us=0)
    with pytest.raises(InvalidSetting, match=r"budget\.strikes"):
        DraftBudget(strikes=0)
