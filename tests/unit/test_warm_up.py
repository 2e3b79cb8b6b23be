"""What an engine finds out before it serves: the step shapes that give a token the same bits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import torch
from engines import Guess, decode_with, noisy_oracle, request_for, settings
from structlog.testing import capture_logs
from torch import Tensor, nn

from decoding.sampling import SamplingConfig
from decoding.verdict import Verdict
from target_server.engine import Engine
from target_server.errors import UnsupportedModel
from target_server.loader import LoadedModel, load
from target_server.settings import TargetSettings
from target_server.shapes import candidates, canonical
from target_server.steps import Segment
from target_server.store import locate

STRICT = settings(sessions=4, block_rows=8, prefill_rows=32, step_rows=128)
FAST = replace(STRICT, parity="fast")
MOST = 12


class Planted(nn.Module):
    """A norm whose rows depend on what they must not."""

    def __init__(self, norm: nn.Module, mistake: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self._norm, self._mistake = norm, mistake

    def forward(self, rows: Tensor) -> Tensor:
        return self._norm(rows) + self._mistake(rows)


def by_row_count(rows: Tensor) -> Tensor:
    return torch.tensor(0.01 * rows.shape[-2])


def by_neighbours(rows: Tensor) -> Tensor:
    return rows.mean(dim=-2, keepdim=True)


@pytest.fixture
def own(tiny_model_folder: Path) -> LoadedModel:
    """The tiny model, to be tampered with."""
    return load(locate(str(tiny_model_folder), tiny_model_folder), STRICT)


def plant(loaded: LoadedModel, mistake: Callable[[Tensor], Tensor]) -> None:
    layer = loaded.hf.model.layers[0]
    layer.input_layernorm = Planted(layer.input_layernorm, mistake)


@asynccontextmanager
async def warm(loaded: LoadedModel, chosen: TargetSettings = STRICT) -> AsyncIterator[Engine]:
    engine = Engine(loaded, chosen)
    try:
        with capture_logs():
            await engine.warm_up()
        yield engine
    finally:
        engine.close()


Output = tuple[list[int], list[float]]


def joined(verdicts: Sequence[Verdict]) -> Output:
    """Tokens, and their log-probabilities to the bit."""
    return (
        [token for verdict in verdicts for token in verdict.tokens],
        [value for verdict in verdicts for value in verdict.log_probabilities],
    )


async def output(engine: Engine, prompt: Sequence[int], guess: Guess = lambda _: ()) -> Output:
    sampling = SamplingConfig(temperature=0.7, seed=len(prompt))
    request = request_for(engine._loaded, prompt, sampling=sampling, max_tokens=MOST)
    return joined((await decode_with(engine, request, guess))[0])


def prompts(seed: int) -> list[tuple[int, ...]]:
    dice = Random(seed)  # noqa: S311
    return [tuple(dice.randrange(1, 512) for _ in range(length)) for length in (5, 33, 70, 130)]


async def test_strict_shapes_hold_the_canonical_ones(tiny_loaded: LoadedModel) -> None:
    async with warm(tiny_loaded) as engine:
        shapes, tried = engine._model.shapes, set(candidates(least=1, most=128))
        assert 8 in shapes.decode
        assert 32 in shapes.prefill
        assert set(shapes.decode) <= tried
        assert set(shapes.prefill) <= tried
        assert list(shapes.decode) == sorted(shapes.decode)


async def test_a_block_has_the_same_bits_in_every_strict_step(tiny_loaded: LoadedModel) -> None:
    """Beside other blocks and chunks of other slots, in the first place and in the last."""
    dice = Random(3)  # noqa: S311

    def draw(count: int) -> tuple[int, ...]:
        return tuple(dice.randrange(1, 512) for _ in range(count))

    async with warm(tiny_loaded) as engine:
        model = engine._model
        prompt, block = draw(64), Segment(slot=1, start=64, tokens=draw(8), prefill=False)
        model.prefill(1, 0, prompt[:32])
        model.prefill(1, 32, prompt[32:])
        alone = model.step([block], total=8)[0].logits
        assert alone is not None
        for total in model.shapes.decode:
            if total < 16:
                continue
            others = [Segment(slot=2, start=5, tokens=draw(3), prefill=False)]
            if total in model.shapes.prefill:
                rows = min(32, total - 11)
                others.append(Segment(slot=3, start=0, tokens=draw(rows), prefill=True))
            for segments, place in (([block, *others], 0), ([*others, block], len(others))):
                found = model.step(segments, total=total)[place].logits
                assert found is not None
                assert torch.equal(found, alone), f"{total} rows"


async def test_model_that_depends_on_the_row_count_keeps_one_shape_a_kind(own: LoadedModel) -> None:
    plant(own, by_row_count)
    async with warm(own) as engine:
        assert engine._model.shapes == canonical(decode_rows=8, prefill_rows=32)
        alone = [await output(engine, prompt) for prompt in prompts(1)]
        guesses = [
            noisy_oracle(known[0], right=0.7, vocabulary=512, longest=7, seed=seed) for seed, known in enumerate(alone)
        ]
        for _ in range(3):
            together = await asyncio.gather(
                *(output(engine, prompt, guess) for prompt, guess in zip(prompts(1), guesses, strict=True))
            )
            assert together == alone


async def test_tile_of_several_sequences_is_a_shape_that_holds_them(own: LoadedModel) -> None:
    plant(own, by_row_count)
    async with warm(own, replace(STRICT, tile_sequences=4)) as engine:
        assert engine._model.shapes == canonical(decode_rows=32, prefill_rows=32)
        alone = [await output(engine, prompt) for prompt in prompts(2)]
        assert await asyncio.gather(*(output(engine, prompt) for prompt in prompts(2))) == alone


async def test_fast_mode_has_every_shape_and_says_so_by_its_outputs(own: LoadedModel) -> None:
    plant(own, by_row_count)
    async with warm(own, FAST) as engine:
        every = candidates(least=1, most=128)
        assert engine._model.shapes.decode == every
        assert engine._model.shapes.prefill == every
        prompt = prompts(1)[1]
        plain = await output(engine, prompt)
        drafted = await output(engine, prompt, lambda _: [1] * 7)  # 8 rows instead of 1
        assert drafted[1][0] != plain[1][0]


async def test_model_whose_rows_depend_on_their_neighbours_is_refused_unless_fast(own: LoadedModel) -> None:
    plant(own, by_neighbours)
    engine = Engine(own, STRICT)
    with capture_logs(), pytest.raises(UnsupportedModel, match=r"how it is verified \(.*rows.*fast"):
        await engine.warm_up()
    engine.close()
    async with warm(own, FAST) as engine:
        assert len((await output(engine, prompts(1)[0]))[0]) == MOST
