"""Decode steps of a fixed shape, computed as they are on the CPU: the model's own steps once more, bit for bit.

What CUDA makes of them is in tests/gpu.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import torch
from engines import decode_plainly, decode_with, noisy_oracle, request_for, settings, tokens_of
from structlog.testing import capture_logs
from tiny_models import random_model
from torch import Tensor

from decoding.sampling import SamplingConfig
from target_server.adoption import adopt
from target_server.engine import Engine
from target_server.graphs import Capture, Compute, Computed, Tile, Tiles, as_it_is, record_decoding, tiles_for
from target_server.loader import LoadedModel
from target_server.model import Model, StepShape
from target_server.shapes import Shapes
from target_server.steps import Segment

pytestmark = pytest.mark.arithmetic

ROWS, SLOTS, VOCABULARY = 8, 4, 512
CLOSE = 2e-5  # of the logits' largest magnitude
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "qwen3, normed queries": ("qwen3", {}),
    "mistral, window": ("mistral", {"sliding_window": 24}),
    "gemma3, window in some layers": (
        "gemma3_text",
        {"sliding_window": 24, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "gpt-bigcode, learned positions": ("gpt_bigcode", {}),
}


def engine_model(kind: str = "llama", config: dict[str, Any] | None = None) -> Model:
    """A model whose slots hold keys and values of no particular text."""
    hf = random_model(kind, **(config or {}))
    layers = adopt(hf, name="tiny")
    shape = StepShape(block_rows=ROWS, prefill_rows=32, context_tokens=160, slots=SLOTS)
    model = Model(hf, layers, shape=shape, kv_cache_bytes=2**26)
    model.shapes = Shapes(decode=(8, 16, 32), prefill=(32,))
    generator = torch.Generator().manual_seed(0)
    for slot in range(SLOTS):
        model.cache.scramble(slot, generator)
    return model


def block(slot: int, start: int, length: int = ROWS) -> Segment:
    dice = Random(slot)  # noqa: S311
    return Segment(
        slot=slot, start=start, tokens=tuple(dice.randrange(VOCABULARY) for _ in range(length)), prefill=False
    )


def logits_of(tile: Tile, *blocks: Segment) -> list[Tensor]:
    found = [outcome.logits for outcome in tile.run(blocks) if outcome.finite and outcome.logits is not None]
    assert [len(logits) for logits in found] == [len(block.tokens) for block in blocks]
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_tile_gives_and_caches_what_the_models_own_step_does(family: str) -> None:
    model = engine_model(*FAMILIES[family])
    blocks = [block(2, 30), block(0, 0, 5), block(3, 159, 1)]
    tile = Tile(model, sequences=4, capture=as_it_is)
    found = logits_of(tile, *blocks)
    cached = [model.cache.snapshot(each.slot, each.start + len(each.tokens)) for each in blocks]
    expected = [outcome.logits for outcome in model.step(blocks, total=32)]
    for each, one, other, stored in zip(blocks, found, expected, cached, strict=True):
        assert other is not None
        assert torch.allclose(one, other, rtol=0, atol=CLOSE * float(other.abs().max()))
        for mine, theirs in zip(stored, model.cache.snapshot(each.slot, each.start + len(each.tokens)), strict=True):
            assert torch.allclose(mine, theirs, rtol=0, atol=CLOSE * float(theirs.abs().max()))


@pytest.mark.parametrize("family", FAMILIES)
def test_no_bit_depends_on_the_row_the_place_or_the_others(family: str) -> None:
    model = engine_model(*FAMILIES[family])
    tile = Tile(model, sequences=4, capture=as_it_is)
    whole = block(1, 70)
    (expected,) = logits_of(tile, whole)
    for neighbours in ([block(0, 3)], [block(3, 150, 2), block(2, 9), block(0, 0, 1)]):
        for place in range(len(neighbours) + 1):
            blocks = [*neighbours[:place], whole, *neighbours[place:]]
            assert torch.equal(logits_of(tile, *blocks)[place], expected)
    for index, token in enumerate(whole.tokens):
        alone = Segment(slot=1, start=70 + index, tokens=(token,), prefill=False)
        assert torch.equal(logits_of(tile, alone)[0][0], expected[index])


def test_only_blocks_of_slots_of_their_own_that_fit_go_to_a_tile_and_to_the_least() -> None:
    model = engine_model()
    used: list[int] = []

    def noting(size: int) -> Capture:
        def capture(compute: Compute) -> Compute:
            def run() -> Computed:
                used.append(size)
                return compute()

            return run

        return capture

    tiles = Tiles({size: Tile(model, sequences=size, capture=noting(size)) for size in (1, 2)})
    chunk = Segment(slot=3, start=0, tokens=(1, 2), prefill=True)
    for segments in ([], [chunk], [block(0, 9), chunk], [block(0, 9), block(0, 9)], [block(n, 9) for n in range(3)]):
        assert tiles.run(segments) is None
    assert len(tiles.run([block(1, 9)]) or ()) == 1
    assert len(tiles.run([block(1, 9), block(0, 9)]) or ()) == 2
    assert used == [1, 2]


def test_who_is_not_finite_is_said_of_each() -> None:
    model = engine_model()
    tile = Tile(model, sequences=2, capture=as_it_is)
    with torch.no_grad():
        model._hf.get_input_embeddings().weight[7] = torch.nan
    spoiled = Segment(slot=1, start=40, tokens=(1, 7), prefill=False)
    healthy = Segment(slot=0, start=40, tokens=(1, 2), prefill=False)
    assert [outcome.finite for outcome in tile.run([healthy, spoiled])] == [True, False]


def test_logits_outlive_the_next_step() -> None:
    model = engine_model()
    memory = torch.empty(ROWS, VOCABULARY)

    def in_place(compute: Compute) -> Compute:
        return lambda: Computed(memory.copy_((found := compute()).logits), found.finite)

    tile = Tile(model, sequences=1, capture=in_place)
    (first,) = logits_of(tile, block(0, 9))
    kept = first.clone()
    logits_of(tile, block(1, 40))
    assert torch.equal(first, kept)


def test_tiles_are_refused_all_together_where_one_differs_in_a_bit() -> None:
    model = engine_model()
    assert isinstance(tiles_for(model, vocabulary_size=VOCABULARY, capture=as_it_is), Tiles)
    assert not any(stored.any() for slot in range(SLOTS) for stored in model.cache.snapshot(slot, 160))

    def off_by_a_bit(compute: Compute) -> Compute:
        def run() -> Computed:
            logits, finite = compute()
            if len(logits) == 16:
                logits[0, 0] = torch.nextafter(logits[0, 0], torch.tensor(torch.inf))
            return Computed(logits, finite)

        return run

    assert tiles_for(model, vocabulary_size=VOCABULARY, capture=off_by_a_bit) is None


def test_no_size_whose_rows_are_not_the_models_is_tried() -> None:
    model = engine_model()
    model.shapes = Shapes(decode=(24,), prefill=(32,))
    assert tiles_for(model, vocabulary_size=VOCABULARY, capture=as_it_is) is None


def test_nothing_is_recorded_on_the_cpu() -> None:
    model = engine_model()
    with capture_logs() as logs:
        record_decoding(model, vocabulary_size=VOCABULARY)
    assert (model.shortcut, logs) == (None, [])


@pytest.mark.skipif(torch.cuda.is_available(), reason="recording works here")
def test_recording_that_fails_leaves_steps_as_they_are_and_says_so_once() -> None:
    model = engine_model()
    model.device = torch.device("cuda:0")  # which isn't there
    with capture_logs() as logs:
        record_decoding(model, vocabulary_size=VOCABULARY)
    assert model.shortcut is None
    assert [(line["event"], line["log_level"]) for line in logs] == [
        ("decode steps are not replayed from CUDA graphs", "warning")
    ]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
async def test_drafts_change_no_token_through_tiles(tiny_loaded: LoadedModel, temperature: float) -> None:
    engine = Engine(tiny_loaded, settings(retained_prefixes=0))  # trying the tiles wipes all slots
    try:
        await engine.warm_up()
        request = request_for(
            tiny_loaded, range(1, 41), max_tokens=48, sampling=SamplingConfig(temperature=temperature, seed=3)
        )
        before, _ = await decode_plainly(engine, request)

        def shorten(model: Model) -> None:
            model.shortcut = tiles_for(model, vocabulary_size=VOCABULARY, capture=as_it_is)
            assert model.shortcut is not None

        await engine.inspect(shorten)
        plain, _ = await decode_plainly(engine, request)
        known = tokens_of(plain)
        assert known == tokens_of(before)
        guess = noisy_oracle(known, right=0.8, vocabulary=VOCABULARY, longest=7, seed=1)
        drafted, finished = await decode_with(engine, request, guess)
        assert tokens_of(drafted) == known
        assert finished.statistics.accepted_tokens > 0
    finally:
        engine.close()
