"""Each processor against an independent reference, alone and together, at every row of a block."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from one_row import process
from toy_target import ToyTarget
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    SuppressTokensLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from decoding.acceptance import pick
from decoding.arithmetic import NumpyArithmetic
from decoding.drafting import Draft
from decoding.errors import InvalidSetting, TargetFailed
from decoding.processors import Context
from decoding.sampling import SamplingConfig
from target_server.arithmetic import TorchArithmetic

SIZE = 200
CONFIGS = {
    "temperature": SamplingConfig(temperature=0.7),
    "top_k": SamplingConfig(temperature=1.0, top_k=20),
    "top_p": SamplingConfig(temperature=1.0, top_p=0.9),
    "min_p": SamplingConfig(temperature=1.0, min_p=0.1),
    "penalty": SamplingConfig(temperature=1.0, repetition_penalty=1.3),
    "reward": SamplingConfig(temperature=1.0, repetition_penalty=0.8),
    "bias": SamplingConfig(temperature=1.0, logit_bias=((3, 5.0), (17, -4.0), (199, 100.0))),
    "bans": SamplingConfig(temperature=1.0, banned=(0, 5, 199)),
    "all": SamplingConfig(
        temperature=1.4,
        top_k=40,
        top_p=0.85,
        min_p=0.05,
        repetition_penalty=1.2,
        logit_bias=((3, 2.0), (9, -1.0)),
        banned=(1, 2),
    ),
    "greedy": SamplingConfig(repetition_penalty=1.2, logit_bias=((3, 2.0),), banned=(1, 2)),
}


def transformers_reference(
    row: NDArray[np.float64], context: tuple[int, ...], config: SamplingConfig
) -> NDArray[np.float64]:
    """What the same settings mean in transformers, which agrees where no two logits are equal at an edge.

    At ties its top-p keeps whichever its sort put first; ours keeps the lowest ids.
    """
    steps = LogitsProcessorList()
    if config.repetition_penalty != 1:
        steps.append(RepetitionPenaltyLogitsProcessor(config.repetition_penalty))
    if config.logit_bias:
        steps.append(SequenceBiasLogitsProcessor([[[token], bias] for token, bias in config.logit_bias]))
    if config.banned:
        steps.append(SuppressTokensLogitsProcessor(list(config.banned)))
    if not config.greedy:
        steps.append(TemperatureLogitsWarper(config.temperature))
        if config.top_k:
            steps.append(TopKLogitsWarper(config.top_k))
        if config.top_p < 1:
            steps.append(TopPLogitsWarper(config.top_p))
        if config.min_p:
            steps.append(MinPLogitsWarper(config.min_p))
    scores = steps(torch.tensor([context]), torch.tensor(row[None].copy()))
    return torch.log_softmax(scores, dim=-1)[0].numpy()


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_processed_rows_agree_with_transformers(name: str, library: str) -> None:
    random = np.random.default_rng(len(name))
    config = CONFIGS[name]
    for _ in range(20):
        row = random.normal(size=SIZE) * 4
        context = tuple(random.integers(0, SIZE, size=30).tolist())
        if library == "numpy":
            ours = process(row, Context(context), config, NumpyArithmetic(), valid_size=SIZE)
        else:
            tensor = torch.from_numpy(row)
            ours = process(tensor, Context(context), config, TorchArithmetic(), valid_size=SIZE)
        np.testing.assert_allclose(ours, transformers_reference(row, context, config), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", CONFIGS)
def test_every_row_of_a_block_is_processed_under_its_own_prefix(name: str) -> None:
    """A fully accepted draft of 6: the log-probability at each row is the reference's for prompt and drafted prefix."""
    random = np.random.default_rng(7)
    config = CONFIGS[name]
    prompt = (4, 9, 9, 30)
    rows = random.normal(size=(7, SIZE)) * 4
    drafted: tuple[int, ...] = ()
    for index in range(6):
        context = Context(prompt + drafted)
        chosen = pick(rows[index], context, len(prompt) + index, config, NumpyArithmetic(), valid_size=SIZE)
        drafted += (chosen.token,)
    sequence = ToyTarget(size=SIZE).open(prompt=prompt, sampling=config)
    draft = Draft(position=len(prompt), tokens=drafted, sampling_fingerprint=config.fingerprint())
    verdict = sequence.judge(draft, rows)
    assert verdict.accepted == 6
    assert verdict.tokens[:6] == drafted
    for index, (token, log_probability) in enumerate(zip(verdict.tokens, verdict.log_probabilities, strict=True)):
        reference = transformers_reference(rows[index], prompt + verdict.tokens[:index], config)
        assert log_probability == pytest.approx(reference[token], abs=1e-12)


def kept(row: list[float], config: SamplingConfig) -> list[int]:
    scores = process(np.array(row), Context(), config, NumpyArithmetic(), valid_size=len(row))
    tensor = process(torch.tensor(row, dtype=torch.float64), Context(), config, TorchArithmetic(), valid_size=len(row))
    assert np.flatnonzero(np.isfinite(scores)).tolist() == np.flatnonzero(np.isfinite(tensor)).tolist()
    return np.flatnonzero(np.isfinite(scores)).tolist()


def test_top_k_keeps_ties_at_its_edge() -> None:
    assert kept([1.0, 3.0, 2.0, 2.0, 0.0], SamplingConfig(temperature=1, top_k=2)) == [1, 2, 3]
    assert kept([1.0, 1.0], SamplingConfig(temperature=1, top_k=5)) == [0, 1]


def test_top_p_keeps_the_lowest_ids_of_equals_and_stops_when_the_mass_is_reached() -> None:
    quarters = [0.0] * 4
    assert kept(quarters, SamplingConfig(temperature=1, top_p=0.5)) == [0, 1]
    assert kept(quarters, SamplingConfig(temperature=1, top_p=0.51)) == [0, 1, 2]
    assert kept(quarters, SamplingConfig(temperature=1, top_p=1e-9)) == [0]
    halves = [math.log(0.1), math.log(0.5), math.log(0.2), math.log(0.2)]
    assert kept(halves, SamplingConfig(temperature=1, top_p=0.7)) == [1, 2]


def test_min_p_is_relative_to_the_likeliest_and_keeps_its_edge() -> None:
    row = [math.log(0.4), math.log(0.2), math.log(0.1), math.log(0.3)]
    assert kept(row, SamplingConfig(temperature=1, min_p=0.5)) == [0, 1, 3]
    assert kept(row, SamplingConfig(temperature=1, min_p=0.51)) == [0, 3]


@pytest.mark.parametrize("count", [9, 10, 15])
def test_rounding_never_decides_at_an_edge(count: int) -> None:
    """Sums of a tenth miss their round numbers in binary; what the numbers mean still holds."""
    for needed in range(1, count):
        config = SamplingConfig(temperature=1, top_p=needed / count)
        assert kept([0.0] * count, config) == list(range(needed))
        pair = [math.log(count), math.log(needed)]
        assert kept(pair, SamplingConfig(temperature=1, min_p=needed / count)) == [0, 1]


def test_penalty_counts_a_repeated_token_once() -> None:
    config = SamplingConfig(repetition_penalty=2.0)
    once = process(np.array([2.0, -2.0, 1.0]), Context([0, 1]), config, NumpyArithmetic(), valid_size=3)
    thrice = process(np.array([2.0, -2.0, 1.0]), Context([0, 1, 0, 1, 0]), config, NumpyArithmetic(), valid_size=3)
    np.testing.assert_array_equal(once, thrice)
    assert once[0] == once[2]
    assert once[1] == pytest.approx(once[0] - 5)


def test_padding_is_never_kept() -> None:
    row = np.array([0.0, 1.0, 50.0, math.nan])
    scores = process(row, Context(), SamplingConfig(temperature=1), NumpyArithmetic(), valid_size=2)
    assert scores.shape == (2,)
    assert np.exp(scores).sum() == pytest.approx(1)


def test_the_logits_given_are_left_as_they_were() -> None:
    row = np.random.default_rng(0).normal(size=SIZE)
    tensor = torch.tensor(row)
    before = row.copy()
    process(row, Context([1, 2]), CONFIGS["all"], NumpyArithmetic(), valid_size=SIZE)
    process(tensor, Context([1, 2]), CONFIGS["all"], TorchArithmetic(), valid_size=SIZE)
    np.testing.assert_array_equal(row, before)
    np.testing.assert_array_equal(tensor.numpy(), before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", CONFIGS)
def test_numpy_and_torch_pick_the_same_token(dtype: torch.dtype, name: str) -> None:
    generator = torch.Generator().manual_seed(5)
    config = CONFIGS[name]
    context = Context(range(0, 990, 7))
    for position in range(20):
        row = (torch.randn(1000, generator=generator) * 3).to(dtype)
        ours = pick(row.float().numpy(), context, position, config, NumpyArithmetic(), valid_size=990)
        theirs = pick(row, context, position, config, TorchArithmetic(), valid_size=990)
        assert theirs.token == ours.token
        assert theirs.log_probability == pytest.approx(ours.log_probability, abs=1e-12)


def test_greedy_ties_go_to_the_lowest_id() -> None:
    row = np.full(5000, -1.0, dtype=np.float32)
    row[[77, 1234, 4999]] = 2.5
    for token in (
        pick(row, Context(), 0, SamplingConfig(), NumpyArithmetic(), valid_size=5000).token,
        pick(torch.from_numpy(row), Context(), 0, SamplingConfig(), TorchArithmetic(), valid_size=5000).token,
    ):
        assert token == 77


def test_greedy_separates_logits_that_normalizing_would_merge() -> None:
    row = np.array([1e-30, 2e-30, -1.0])
    assert pick(row, Context(), 0, SamplingConfig(), NumpyArithmetic(), valid_size=3).token == 1


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("temperature", [0, 1])
def test_broken_logits_are_the_targets_failure(bad: float, temperature: float) -> None:
    row = np.array([0.0, bad, 1.0])
    config = SamplingConfig(temperature=temperature, banned=(1,))
    with pytest.raises(TargetFailed):
        pick(row, Context(), 0, config, NumpyArithmetic(), valid_size=3)
    with pytest.raises(TargetFailed):
        pick(torch.tensor(row), Context(), 0, config, TorchArithmetic(), valid_size=3)


@pytest.mark.parametrize("shape", [(2,), (1, 3)])
def test_rows_of_another_shape_are_the_targets_failure(shape: tuple[int, ...]) -> None:
    with pytest.raises(TargetFailed):
        pick(np.zeros(shape), Context(), 0, SamplingConfig(), NumpyArithmetic(), valid_size=3)
    with pytest.raises(TargetFailed):
        pick(torch.zeros(shape), Context(), 0, SamplingConfig(), TorchArithmetic(), valid_size=3)


def test_bans_that_leave_nothing_are_refused() -> None:
    config = SamplingConfig(banned=(0, 1, 2))
    with pytest.raises(InvalidSetting) as raised:
        pick(np.zeros(3), Context(), 0, config, NumpyArithmetic(), valid_size=3)
    assert raised.value.field == "sampling.banned"


def test_context_keeps_each_id_once_in_order_of_appearance() -> None:
    tokens = [5, 3, 5, *range(500), 3]
    context = Context(tokens)
    context.add(700)
    context.add(5)
    assert context.ids.tolist() == [*dict.fromkeys(tokens), 700]
