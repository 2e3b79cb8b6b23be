"""Packed linear layers: the same function as what they replace."""

from __future__ import annotations

import pytest
import torch
from tiny_models import random_model
from torch import Tensor, nn

from target_server.packing import HalfProduct, PackedLinear, ReorderedProduct, pack_linears

pytestmark = pytest.mark.arithmetic

# Widths of the default model, and some that are no multiple of anything a kernel likes.
SHAPES = [(576, 192), (576, 1536), (1536, 576), (64, 512), (37, 53)]


def layer(inputs: int, outputs: int, *, half: bool = True, bias: bool = True) -> nn.Linear:
    generator = torch.Generator().manual_seed(inputs + outputs)
    linear = nn.Linear(inputs, outputs, bias=bias)
    with torch.no_grad():
        for parameter in linear.parameters():
            drawn = torch.randn(parameter.shape, generator=generator) * 0.05
            parameter.copy_(drawn.half().float() if half else drawn)
    return linear.requires_grad_(False)


def rows_of(linear: nn.Linear, count: int = 256) -> Tensor:
    return torch.randn(1, count, linear.in_features, generator=torch.Generator().manual_seed(7))


@pytest.mark.parametrize(("inputs", "outputs"), SHAPES)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("half", [True, False])
def test_a_packed_layer_is_the_same_function(inputs: int, outputs: int, bias: bool, half: bool) -> None:
    linear = layer(inputs, outputs, half=half, bias=bias)
    rows = rows_of(linear)
    exact = linear.double()(rows.double())
    found = PackedLinear(linear.float(), rows=8)(rows)
    assert found.shape == exact.shape
    assert (found - exact).abs().max() <= 1e-5 * exact.abs().max()


def test_a_row_keeps_its_bits_beside_one_that_is_no_number() -> None:
    linear = layer(576, 192)
    packed, rows = PackedLinear(linear, rows=8), rows_of(linear, 8)
    spoilt = rows.clone()
    spoilt[:, 3] = float("nan")
    others = [0, 1, 2, 4, 5, 6, 7]
    assert torch.equal(packed(spoilt)[:, others], packed(rows)[:, others])


@pytest.mark.parametrize("weight", [1e-9, 1 + 2**-12, 1e6, float("nan")])
def test_a_weight_that_half_precision_cannot_hold_is_not_made_to_fit(weight: float) -> None:
    linear = layer(64, 64)
    linear.weight[5, 7] = weight
    assert isinstance(PackedLinear(linear, rows=8).product, ReorderedProduct)


def test_bfloat16_weights_are_left_to_kernels_of_their_own() -> None:
    assert not HalfProduct.holds(layer(64, 64).weight.bfloat16())


def test_without_fbgemm_weights_are_reordered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.quantized, "engine", "qnnpack")  # of ARM's CPUs, which have no FBGEMM
    assert isinstance(PackedLinear(layer(64, 64), rows=8).product, ReorderedProduct)


def test_every_plain_linear_layer_is_packed_once() -> None:
    hf = random_model()
    assert pack_linears(hf, rows=8) == 15
    assert pack_linears(hf, rows=8) == 0
