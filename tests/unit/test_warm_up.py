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
from tiny_models import save_tiny_model
from torch import Tensor, nn
from uneven_products import Uneven, as_without_avx512, only_at, plant_products

from decoding.sampling import SamplingConfig
from decoding.verdict import Verdict
from target_server.engine import Engine
from target_server.errors import UnsupportedModel
from target_server.loader import LoadedModel, load
from target_server.packing import HalfProduct, PackedLinear, ReorderedProduct
from target_server.settings import TargetSettings
from target_server.shapes import Shapes, rungs
from target_server.steps import Segment
from target_server.store import locate

pytestmark = pytest.mark.arithmetic

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
    return torch.tensor(0.01 * rows.shape[-2], dtype=rows.dtype)


def by_neighbours(rows: Tensor) -> Tensor:
    return rows.mean(dim=-2, keepdim=True)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """The tiny model with weights that half precision holds, as those of most checkpoints, and with others."""
    models = tmp_path_factory.mktemp("models")
    return {half: save_tiny_model(models / str(half), half_exact=half) for half in (True, False)}


@pytest.fixture(params=[("float32", True), ("float32", False), ("bfloat16", True)], ids=["half", "float32", "bfloat16"])
def own(request: pytest.FixtureRequest, folders: dict[bool, Path]) -> LoadedModel:
    """A tiny model for each kind of product, to be tampered with."""
    dtype, half = request.param
    loaded = load(locate(str(folders[half]), folders[half]), replace(STRICT, dtype=dtype))
    kinds = {type(module.product) for module in loaded.hf.modules() if isinstance(module, PackedLinear)}
    if dtype == "float32" and "fbgemm" in torch.backends.quantized.supported_engines:
        assert kinds == {HalfProduct if half else ReorderedProduct}
    return loaded


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


def holds_a_block_and_a_chunk(shapes: Shapes) -> bool:
    return shapes.decode[-1] >= 8 and shapes.prefill[-1] >= 32


async def test_strict_shapes_hold_a_block_and_a_chunk(own: LoadedModel) -> None:
    async with warm(own) as engine:
        shapes = engine._model.shapes
        assert holds_a_block_and_a_chunk(shapes)
        for counts in (shapes.decode, shapes.prefill):
            assert list(counts) == sorted(set(counts))
            assert counts[-1] <= 128


async def test_a_block_has_the_same_bits_in_every_strict_step(own: LoadedModel) -> None:
    """Beside other blocks and chunks of other slots, in the first place and in the last."""
    dice = Random(3)  # noqa: S311

    def draw(count: int) -> tuple[int, ...]:
        return tuple(dice.randrange(1, 512) for _ in range(count))

    async with warm(own) as engine:
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
        shapes = engine._model.shapes
        assert (len(shapes.decode), len(shapes.prefill)) == (1, 1)
        assert holds_a_block_and_a_chunk(shapes)
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
        shapes = engine._model.shapes
        assert (len(shapes.decode), len(shapes.prefill)) == (1, 1)
        assert shapes.decode[0] >= 32
        alone = [await output(engine, prompt) for prompt in prompts(2)]
        assert await asyncio.gather(*(output(engine, prompt) for prompt in prompts(2))) == alone


async def test_fast_mode_has_every_shape_and_says_so_by_its_outputs(own: LoadedModel) -> None:
    plant(own, by_row_count)
    async with warm(own, FAST) as engine:
        assert set(engine._model.shapes.decode) >= set(rungs(128))
        assert set(engine._model.shapes.prefill) >= set(rungs(128))
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


@pytest.mark.parametrize("uneven", [as_without_avx512, only_at(16), only_at(128)], ids=["many", "16", "128"])
async def test_count_whose_last_rows_differ_by_a_bit_is_not_used(
    own: LoadedModel, uneven: Uneven, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_products(monkeypatch, uneven)
    async with warm(own) as engine:
        shapes = engine._model.shapes
        assert holds_a_block_and_a_chunk(shapes)
        assert not [count for count in (*shapes.decode, *shapes.prefill) if uneven(count)]
        together = [await output(engine, prompt) for prompt in prompts(3)]
        for _ in range(3):
            assert await asyncio.gather(*(output(engine, prompt) for prompt in prompts(3))) == together


async def test_every_place_of_a_base_count_is_compared(own: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tile of four blocks is 32 rows, a chunk too: where those have two rows that differ, others are taken."""
    plant_products(monkeypatch, as_without_avx512)
    async with warm(own, replace(STRICT, tile_sequences=4)) as engine:
        shapes = engine._model.shapes
        assert shapes.decode[-1] >= 32
        assert 32 not in (*shapes.decode, *shapes.prefill)


async def test_fault_that_products_by_themselves_do_not_show_is_seen_in_the_last_rows(own: LoadedModel) -> None:
    """Of a norm, which nobody asks about by itself: whole steps are compared in every row, too."""

    def in_the_last_rows_of_24(rows: Tensor) -> Tensor:
        mistake = torch.zeros_like(rows)
        if rows.shape[-2] == 24:
            mistake[..., -2:, 0] = 2 * torch.finfo(rows.dtype).eps
        return mistake

    plant(own, in_the_last_rows_of_24)
    async with warm(own) as engine:
        shapes = engine._model.shapes
        assert 24 not in (*shapes.decode, *shapes.prefill)
        assert holds_a_block_and_a_chunk(shapes)
