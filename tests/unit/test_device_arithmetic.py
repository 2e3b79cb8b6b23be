"""Which arithmetic decides on which device, and that numpy over a tensor's memory reads what is in it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from decoding.acceptance import pick, pick_all
from decoding.processors import Context
from decoding.sampling import SamplingConfig
from target_server.arithmetic import HostArithmetic, TorchArithmetic, arithmetic_for

SIZE = 2000
CONFIGS = [
    SamplingConfig(),
    SamplingConfig(temperature=0.8, repetition_penalty=1.2),
    SamplingConfig(temperature=1.0, top_k=50, top_p=0.9),
    SamplingConfig(temperature=1.0, min_p=0.05, logit_bias=((3, 2.0),), banned=(1, 2)),
]


def rows(dtype: torch.dtype) -> torch.Tensor:
    with torch.inference_mode():  # as a model's step makes them
        return (torch.randn(4, SIZE + 8, generator=torch.Generator().manual_seed(1)) * 3).to(dtype)


def test_a_cpu_decides_row_by_row_and_other_devices_all_at_once() -> None:
    assert arithmetic_for(torch.device("cpu")).rows_at_once == 1
    assert arithmetic_for(torch.device("cuda", 1)).rows_at_once > 8


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("config", CONFIGS)
def test_numpy_over_tensors_picks_as_torch_does(dtype: torch.dtype, config: SamplingConfig) -> None:
    block = rows(dtype)
    before = block.clone()
    for position, row in enumerate(block):
        ours = pick(row, Context(range(9)), position, config, HostArithmetic(), valid_size=SIZE)
        theirs = pick(row, Context(range(9)), position, config, TorchArithmetic(), valid_size=SIZE)
        assert ours.token == theirs.token
        assert ours.log_probability == pytest.approx(theirs.log_probability, abs=1e-12)
    assert torch.equal(block, before)


def test_words_are_ordered_without_sign() -> None:
    """Signed words with their top bit set are the largest, not the smallest."""
    words = np.array([[1, 2**63 - 1, 2**63, 2**64 - 2**13]], dtype=np.uint64)
    largest = TorchArithmetic().largest_gumbel(torch.from_numpy(words.view(np.int64))).item()
    assert largest == pytest.approx(float(HostArithmetic().largest_gumbel(words)[0, 0]), rel=1e-14)
    assert largest > 30


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no accelerator")
@pytest.mark.parametrize("config", CONFIGS)
def test_an_accelerator_picks_as_the_host_does(config: SamplingConfig) -> None:
    block, device = rows(torch.float32), torch.device("cuda")
    there = pick_all(
        list(block.to(device)), (5, 6, 5), Context(range(9)), 7, config, arithmetic_for(device), valid_size=SIZE
    )
    here = pick_all(list(block), (5, 6, 5), Context(range(9)), 7, config, HostArithmetic(), valid_size=SIZE)
    for theirs, ours in zip(there, here, strict=True):
        assert theirs.token == ours.token  # type: ignore[union-attr]
        assert theirs.log_probability == pytest.approx(ours.log_probability, abs=1e-11)  # type: ignore[union-attr]
