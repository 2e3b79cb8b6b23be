"""Faults that users of other engines met where requests meet: a real server, a real if tiny model, several at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from serving import Serving, local, serving

from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules
from decoding.verdict import Statistics
from drafts.settings import DraftSettings
from slipstream.completion import CompletionRequest
from target_server.loading import load

PREFIX = "class Limits:\n    def __init__(self, sessions: int, tokens: int) -> None:\n        self."


@pytest.fixture
async def running(tiny_model_folder: Path, tmp_path: Path) -> AsyncIterator[Serving]:
    settings = local(model=str(tiny_model_folder), context_tokens=256, prompt_tokens=128, prefill_rows=16, threads=1)
    served = await asyncio.to_thread(load, settings, DraftSettings(least_confidence=0.1), cache_folder=tmp_path)
    async with serving(served) as started:
        yield started


async def complete(running: Serving, seed: int, *, plain: bool) -> tuple[tuple[int, ...], Statistics]:
    asked = CompletionRequest(
        prefix=PREFIX,
        language="python",
        sampling=SamplingConfig(temperature=1.0, seed=seed),
        stop=StopRules(max_tokens=40),
        plain=plain,
    )
    started, deltas, finished = await running.complete(asked)
    assert started.seed == seed
    return tuple(token for delta in deltas for token in delta.tokens), finished.statistics


async def test_seeds_of_requests_that_run_together_do_not_mix(running: Serving) -> None:
    """Each request's draws are keyed to its own seed: alone, together, with drafts and without."""
    seeds = (5, 6, 7, 5)
    alone = [(await complete(running, seed, plain=True))[0] for seed in seeds]
    for plain in (True, False):
        together = await asyncio.gather(*(complete(running, seed, plain=plain) for seed in seeds))
        assert [tokens for tokens, _ in together] == alone
    mixed = await asyncio.gather(*(complete(running, seed, plain=bool(n % 2)) for n, seed in enumerate(seeds)))
    assert [tokens for tokens, _ in mixed] == alone
    assert sum(counts.drafted_tokens for _, counts in mixed) > 0
    assert alone[0] == alone[3]
    assert len(set(alone)) == 3


@pytest.mark.parametrize("plain", [True, False])
async def test_a_prompt_seen_before_is_not_read_again(running: Serving, plain: bool) -> None:
    """As much of it with drafts as without: whole chunks, all but the last token at most."""
    first, cold = await complete(running, 9, plain=plain)
    again, warm = await complete(running, 9, plain=plain)
    assert (cold.cached_tokens, warm.cached_tokens) == (0, (cold.prompt_tokens - 1) // 16 * 16)
    assert warm.cached_tokens > 0
    assert again == first
