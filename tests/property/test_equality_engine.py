"""Hundreds of random requests to the engine itself, up to four at a time: what comes of each is plain decoding's.

SLIPSTREAM_EQUALITY_ENGINE_CASES=6000 draws as many cases for each model instead.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from engines import request_for, settings, tokens_of
from equality_cases import Case, Free, Output, check_counts, draw_case, draw_sampling, draw_stop, joined
from equality_drafters import drafting_of, guess_of
from structlog.testing import capture_logs
from tiny_models import save_tiny_model

from decoding.drafting import DraftingRequest, DraftSession
from decoding.sampling import SamplingConfig
from decoding.session import Mode
from decoding.verdict import DecodeRequest, FinishReason
from drafts.speculation import speculate
from target_server.engine import Engine
from target_server.loader import LoadedModel, load
from target_server.store import locate

pytestmark = pytest.mark.arithmetic

FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen3": {"tie_word_embeddings": True},
    "mistral": {"sliding_window": 24},
}
CASES = int(os.environ.get("SLIPSTREAM_EQUALITY_ENGINE_CASES", "240"))
TOGETHER = 4
CONTEXT = 96
SMALL = settings(sessions=TOGETHER, context_tokens=CONTEXT, prompt_tokens=90)


@pytest.fixture(scope="module", params=FAMILIES)
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder = save_tiny_model(tmp_path_factory.mktemp("models") / "tiny", kind=request.param, **FAMILIES[request.param])
    return load(locate(str(folder), folder), SMALL)


class Bench:
    """An engine, and the drafters that the cases under way let it draft with, by name."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.drafting: dict[str, DraftSession] = {}
        self.end = loaded.vocabulary.end_of_text_ids[0]
        self.engine = Engine(loaded, SMALL, drafting=self._named)

    def _named(self, language: str, name: str, request: DraftingRequest) -> DraftSession | None:
        return self.drafting.get(name)

    async def free(self, prompt: tuple[int, ...], config: SamplingConfig, most: int) -> Free:
        """Plain decoding by the engine, nobody beside it."""
        request = request_for(self.loaded, prompt, sampling=config, max_tokens=most)
        async with self.engine.open(request) as verifier:
            verdicts = [verdict async for verdict in verifier.run(most)]
        return Free(
            tokens=tuple(tokens_of(verdicts)),
            log_probabilities=tuple(value for verdict in verdicts for value in verdict.log_probabilities),
            ended=verdicts[-1].finish is FinishReason.END_OF_TEXT,
        )

    async def check(self, case: Case, dice: Random, request: DecodeRequest, free: Free) -> Counter[str]:
        """One case, among others: that its output is what its stop rules leave of the free one."""
        room, token_bytes = CONTEXT - len(request.prompt), self.loaded.vocabulary.token_bytes
        expected = free.cut(request.stop, room=room, token_bytes=token_bytes)
        guess = guess_of(case, dice, len(request.prompt), free.tokens, self.end, self.loaded.vocabulary_size)
        drafting = drafting_of(case, request, guess)
        self.drafting[request.drafter] = drafting
        ends = self.loaded.vocabulary.end_of_text_ids
        session = case.session(request, context_length=CONTEXT, token_bytes=token_bytes, end_of_text=ends)
        chunks = []
        async with self.engine.open(request) as verifier:
            async for chunk in speculate(session, drafting, verifier, clock=itertools.count().__next__):
                chunks.append(chunk)
                if len(chunks) == case.stop_after:
                    session.stop_drafting(case.stop_reason)
            finished = await verifier.finish()
        del self.drafting[request.drafter]
        found: Output = joined(chunks)
        assert found == expected, f"case {case.number}"
        assert finished.reason is expected.finish
        assert replace(finished.statistics, cached_tokens=0) == replace(session.statistics, cached_tokens=0)
        check_counts(finished.statistics, expected, request.stop)
        counts = finished.statistics
        return Counter(
            {
                str(expected.finish): 1,
                str(case.mode): 1,
                "accepted tokens": counts.accepted_tokens,
                "cached tokens": counts.cached_tokens,
            }
        )

    async def group(self, first: int) -> Counter[str]:
        """Cases with two prompts between them, decoded freely one after the other, then all together."""
        dice = Random(f"engine-{first}")  # noqa: S311
        vocabulary = self.loaded.vocabulary
        telling = [self.end, *vocabulary.encode("\n"), *dice.sample(range(300, 512), 4)]
        openings = []
        for _ in range(2):
            prompt = tuple(dice.randrange(1, 512) for _ in range(dice.choice((1, 7, 33, 65, 90))))
            config = draw_sampling(dice, telling, bias=25.0)
            most = dice.choice((4, 12, 20))
            openings.append((prompt, config, most, await self.free(prompt, config, most)))
        checks = []
        for number in range(first, first + TOGETHER):
            prompt, config, most, free = openings[number % 2]
            stop = draw_stop(dice, vocabulary.decode(free.tokens), free.tokens, most=most)
            request = replace(
                request_for(self.loaded, prompt, sampling=config),
                stop=stop,
                drafter=f"case-{number}",
                request_id=f"case-{number}",
            )
            case = draw_case(number, dice)
            checks.append(self.check(case, dice, request, free))
        return sum(await asyncio.gather(*checks), Counter())


@pytest.fixture
def bench(loaded: LoadedModel) -> Iterator[Bench]:
    bench = Bench(loaded)
    yield bench
    bench.engine.close()


async def test_requests_together_are_each_as_plain_decoding_has_them(bench: Bench) -> None:
    """Stops, limits and ends inside blocks, every processor, drafters of every kind; log-probabilities to the bit."""
    situations: Counter[str] = Counter()
    await bench.engine.warm_up()
    with capture_logs():  # drafters that break, which is a line each
        for first in range(0, CASES, TOGETHER):
            situations += await bench.group(first)
    assert bench.engine.open_sessions == 0
    wanted = {*FinishReason} - {FinishReason.CLOSED}
    assert not [each for each in (*wanted, *Mode, "accepted tokens", "cached tokens") if not situations[each]]
