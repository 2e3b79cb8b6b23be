"""Prompts' beginnings are reused by the engine, and no output shows it: bit for bit what an engine without it says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import pytest
from engines import Guess, noisy_oracle, plain_draft, request_for, settings, tokens_of
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from decoding.errors import TargetFailed
from decoding.sampling import SamplingConfig
from decoding.verdict import DecodeRequest, Verdict
from target_server.engine import Engine
from target_server.loader import LoadedModel
from target_server.step_metrics import StepRecord
from target_server.steps import Outcome, Segment

pytestmark = pytest.mark.arithmetic

ROWS = 32
LENGTH = 5 * ROWS - 3  # of prompts: four whole chunks and a part
MOST = 12
SAMPLING = SamplingConfig(temperature=1.0, top_k=50, seed=11)


def text(seed: int, length: int = LENGTH) -> tuple[int, ...]:
    dice = Random(seed)  # noqa: S311
    return tuple(dice.randrange(1, 512) for _ in range(length))


@dataclass(frozen=True)
class Answer:
    tokens: list[int]
    log_probabilities: list[float]


def joined(verdicts: Sequence[Verdict]) -> Answer:
    return Answer(tokens_of(verdicts), [value for verdict in verdicts for value in verdict.log_probabilities])


class Pair:
    """An engine that reuses prompts, and one that doesn't and has one shape of step; they take turns at the model."""

    def __init__(self, loaded: LoadedModel, **changes: Any) -> None:
        self.loaded = loaded
        self.records: list[StepRecord] = []
        self.copies = 0
        self.reusing = Engine(loaded, settings(**changes))
        self.reusing.observe = self.records.append
        self._fresh = Engine(loaded, settings(sessions=1, retained_prefixes=0))
        self._known: dict[tuple[int, ...], Answer] = {}
        copy = self.reusing._model.cache.copy
        self.reusing._model.cache.copy = partial(self._copy, copy)

    def _copy(self, copy: Any, *places: int) -> None:
        self.copies += 1
        copy(*places)

    def close(self) -> None:
        self.reusing.close()
        self._fresh.close()

    def request(self, prompt: Sequence[int]) -> DecodeRequest:
        return request_for(self.loaded, prompt, sampling=SAMPLING, max_tokens=MOST)

    async def expected(self, prompt: tuple[int, ...]) -> Answer:
        if prompt not in self._known:
            async with self._fresh.open(self.request(prompt)) as sequence:
                assert not sequence.opened.cached_tokens
                self._known[prompt] = joined([verdict async for verdict in sequence.run(MOST)])
        return self._known[prompt]

    async def check(self, prompt: tuple[int, ...], *, guess: Guess = lambda _: (), most: int = MOST) -> int:
        """Decode the first `most` tokens, which must be as expected; the tokens that were found cached."""
        expected = await self.expected(prompt)
        return await self.decode(prompt, expected, guess=guess, most=most)

    async def decode(self, prompt: tuple[int, ...], expected: Answer, *, guess: Guess, most: int) -> int:
        request, verdicts, emitted = self.request(prompt), [], 0
        async with self.reusing.open(request) as sequence:
            while emitted < most and not (verdicts and verdicts[-1].finish):
                verdicts.append(await sequence.verify(plain_draft(request, emitted, guess(emitted))))
                emitted += len(verdicts[-1].tokens)
            cached = sequence.opened.cached_tokens
            finished = await sequence.finish()
        found = joined(verdicts)
        assert found.tokens == expected.tokens[: len(found.tokens)]
        assert found.log_probabilities == expected.log_probabilities[: len(found.tokens)]
        assert len(found.tokens) >= min(most, len(expected.tokens))
        assert finished.statistics.cached_tokens == cached
        assert cached % ROWS == 0
        return cached


@pytest.fixture
async def pair(tiny_loaded: LoadedModel) -> AsyncIterator[Pair]:
    pair = Pair(tiny_loaded)
    yield pair
    pair.close()


async def test_same_prompt_again_finds_all_its_whole_chunks(pair: Pair) -> None:
    assert [await pair.check(text(1)) for _ in range(3)] == [0, 4 * ROWS, 4 * ROWS]


async def test_prompt_that_grows_finds_what_stood_before(pair: Pair) -> None:
    """As when one types: each prompt is the one before with a token more."""
    found = [await pair.check(text(1)[:length]) for length in range(3 * ROWS - 2, 3 * ROWS + 4)]
    assert found == [0, *[2 * ROWS] * 3, 3 * ROWS, 3 * ROWS]  # the last token is decoded, so the chunk comes one later


async def test_prompt_that_goes_on_by_its_own_output_computes_that_anew(pair: Pair) -> None:
    """What decoding cached stands in another shape of step, and is not reused."""
    prompt = text(1)[: 3 * ROWS - 4]
    output = (await pair.expected(prompt)).tokens
    assert await pair.check(prompt) == 0
    assert await pair.check((*prompt, *output, 7, 8, 9)) == 2 * ROWS


@pytest.mark.parametrize("place", [0, ROWS - 1, ROWS, 2 * ROWS + 5, LENGTH - 1])
async def test_prompt_that_was_edited_finds_the_chunks_before_the_edit(pair: Pair, place: int) -> None:
    prompt = text(1)
    edited = (*prompt[:place], prompt[place] % 511 + 1, *prompt[place + 1 :])
    assert await pair.check(prompt) == 0
    assert await pair.check(edited) == place // ROWS * ROWS
    assert await pair.check(edited[: place + 1]) == place // ROWS * ROWS


async def test_prompt_of_an_open_sequence_is_copied(pair: Pair) -> None:
    prompt = text(1)
    expected = await pair.expected(prompt)
    async with pair.reusing.open(pair.request(prompt)) as first:
        early = [verdict async for verdict in first.run(4)]
        other = (*prompt[: ROWS + 3], *text(2, 20))
        assert await pair.check(prompt) == 4 * ROWS
        assert await pair.check(other) == ROWS
        late = [verdict async for verdict in first.run(MOST - 4)]
    assert pair.copies == 2
    assert joined([*early, *late]) == expected


async def test_prompt_that_is_being_cached_is_copied_as_far_as_it_stands(pair: Pair) -> None:
    prompt = text(1)
    expected = await pair.expected(prompt)
    decode = partial(pair.decode, prompt, expected, guess=lambda _: (), most=MOST)
    found = await asyncio.gather(decode(), decode())
    assert found[0] == 0


async def test_copy_holds_though_its_source_is_taken_over_at_once(pair: Pair) -> None:
    prompt, other = text(1), text(2)
    answers = {each: await pair.expected(each) for each in (prompt, other)}
    async with pair.reusing.open(pair.request(prompt)) as first:
        [verdict async for verdict in first.run(2)]
        waiting = asyncio.create_task(pair.decode(prompt, answers[prompt], guess=lambda _: (), most=MOST))
        while pair.reusing.open_sessions < 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
    found = await asyncio.gather(
        waiting, *(pair.decode(each, answers[each], guess=lambda _: (), most=MOST) for each in (other, prompt))
    )
    assert found == [4 * ROWS, 0, 4 * ROWS]


def poisoned(engine: Engine, *, prefill: bool) -> Any:
    """Steps of the model that leave NaN in a slot, with blocks or with chunks."""
    step = engine._model.step

    def poison(segments: Sequence[Segment], *, total: int) -> list[Outcome]:
        for segment in segments:
            if segment.prefill is prefill:
                engine._model.cache._values[0][segment.slot] = float("nan")
        return step(segments, total=total)

    return poison


@pytest.mark.parametrize("prefill", [False, True])
async def test_slot_with_nan_is_not_reused(pair: Pair, prefill: bool) -> None:
    prompt = text(1)
    await pair.expected(prompt)
    assert await pair.check(prompt, most=1) == 0
    step = pair.reusing._model.step
    pair.reusing._model.step = poisoned(pair.reusing, prefill=prefill)
    with pytest.raises(TargetFailed):
        await pair.check((*prompt[: 2 * ROWS], *text(3, 40)))
    pair.reusing._model.step = step
    for expected in (0, 4 * ROWS):
        assert await pair.check(prompt) == expected


async def test_copy_outlives_the_nan_that_its_source_came_to_later(pair: Pair) -> None:
    prompt = text(1)
    expected = await pair.expected(prompt)
    async with pair.reusing.open(pair.request(prompt)) as source:
        await source.verify(plain_draft(pair.request(prompt)))
        async with pair.reusing.open(pair.request(prompt)) as copy:
            assert copy.opened.cached_tokens == 4 * ROWS
            early = [verdict async for verdict in copy.run(2)]
            step = pair.reusing._model.step
            pair.reusing._model.step = poisoned(pair.reusing, prefill=False)
            with pytest.raises(TargetFailed):
                await source.verify(plain_draft(pair.request(prompt), 1))
            pair.reusing._model.step = step
            late = [verdict async for verdict in copy.run(MOST - 2)]
    assert joined([*early, *late]) == expected
    assert await pair.check(prompt) == 4 * ROWS  # of the copy


async def test_least_recently_used_prompt_is_lost_first(tiny_loaded: LoadedModel) -> None:
    pair = Pair(tiny_loaded, sessions=1, retained_prefixes=2)
    one, two, three, four = (text(seed) for seed in range(1, 5))
    schedule = [(one, 0), (two, 0), (three, 0), (one, 4), (four, 0), (one, 4), (three, 4), (two, 0), (four, 0)]
    for prompt, chunks in schedule:
        assert await pair.check(prompt, most=3) == chunks * ROWS
    pair.close()


async def test_without_retained_prefixes_nothing_is_found_again(tiny_loaded: LoadedModel) -> None:
    pair = Pair(tiny_loaded, retained_prefixes=0)
    assert [await pair.check(text(1), most=2) for _ in range(3)] == [0, 0, 0]
    assert pair.reusing._model.shape.slots == 2
    pair.close()


@dataclass(frozen=True)
class Typed:
    """A request: the first `kept` tokens of a text, `more` of its own. right: of its drafts. most: when it goes."""

    text: int
    kept: int
    more: int
    right: float
    most: int

    @property
    def prompt(self) -> tuple[int, ...]:
        return text(self.text)[: self.kept] + text(1000 + self.more, self.more)


TYPED = st.builds(
    Typed,
    text=st.integers(1, 2),
    kept=st.integers(0, LENGTH - 20),
    more=st.integers(1, 20),
    right=st.sampled_from([0.0, 0.7, 1.0]),
    most=st.sampled_from([1, 3, MOST]),
)


def test_any_prompts_that_share_beginnings_several_at_once(tiny_loaded: LoadedModel) -> None:
    """On one engine with few slots: what is found has been left by, or is shared with, any of the requests before."""
    pair = Pair(tiny_loaded, sessions=4, retained_prefixes=2)
    found = 0

    async def together(requests: Sequence[Typed]) -> int:
        answers = [await pair.expected(each.prompt) for each in requests]
        return sum(
            await asyncio.gather(
                *(
                    pair.decode(
                        each.prompt,
                        answer,
                        guess=noisy_oracle(answer.tokens, right=each.right, vocabulary=512, longest=7, seed=each.more),
                        most=each.most,
                    )
                    for each, answer in zip(requests, answers, strict=True)
                )
            )
        )

    with asyncio.Runner() as runner:
        runner.run(pair.reusing.warm_up())

        @given(groups=st.lists(st.lists(TYPED, min_size=1, max_size=5), min_size=1, max_size=4))
        @hypothesis_settings(max_examples=25, deadline=None)
        def check(groups: list[list[Typed]]) -> None:
            nonlocal found
            found += sum(runner.run(together(group)) for group in groups)

        check()
        pair.close()
    assert found > 1000
    assert pair.copies > 10
    if pair.reusing._model.shapes.shared:  # as on most machines
        assert any(record.kind == "mixed" for record in pair.records)
        assert any(record.blocks > 1 for record in pair.records)
