"""Fused parts: the same functions as what they replace, however they are called, and put back where a model minds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny_models import random_model
from torch import Tensor, nn

from target_server.fusing import Fused, JointLinear, JointPart, RootMeanSquareNorm, fuse
from target_server.packing import pack_linears

pytestmark = pytest.mark.arithmetic

TOKENS = torch.randint(512, (1, 40), generator=torch.Generator().manual_seed(3))

# Family, its settings, joined products and one-call norms in two layers.
FAMILIES: list[tuple[str, dict[str, Any], int, int]] = [
    ("llama", {}, 2, 5),
    ("llama", {"num_key_value_heads": 4, "attention_bias": True}, 2, 5),
    ("mistral", {"sliding_window": 24}, 2, 5),
    ("qwen2", {}, 2, 5),
    ("qwen3", {}, 2, 9),
    ("gemma", {"num_key_value_heads": 1}, 2, 5),
    ("gemma3_text", {"sliding_window": 24, "layer_types": ["sliding_attention", "full_attention"]}, 2, 13),
    ("starcoder2", {"sliding_window": None}, 2, 0),
    ("phi3", {}, 0, 5),
]


def logits(model: Any) -> Tensor:
    with torch.inference_mode():
        found: Tensor = model(TOKENS, use_cache=False).logits
    return found


@pytest.mark.parametrize(("kind", "config", "products", "norms"), FAMILIES)
def test_a_fused_model_gives_the_logits_it_gave(kind: str, config: dict[str, Any], products: int, norms: int) -> None:
    model = random_model(kind, **config)
    expected = logits(model)
    assert fuse(model, lambda: logits(model)) == Fused(products=products, norms=norms)
    for packed in (False, True):
        if packed:
            pack_linears(model, rows=8)
        assert (logits(model) - expected).abs().max() <= 2e-5 * expected.abs().max()


def test_a_joined_product_is_packed_once_and_its_layers_are_gone() -> None:
    model = random_model()
    fuse(model, lambda: logits(model))
    assert pack_linears(model, rows=8) == 2 * 5 + 1
    projections = [module for name, module in model.named_modules() if name.endswith(("q_proj", "k_proj", "v_proj"))]
    assert len(projections) == 6
    assert all(isinstance(projection, JointPart) for projection in projections)
    assert not [name for name, _ in model.named_parameters() if "proj" in name]


def test_joining_holds_no_weight_twice() -> None:
    layers = [nn.Linear(16, 16), nn.Linear(16, 8), nn.Linear(16, 8)]
    joint = JointLinear(layers)
    storage = joint.linear.weight.untyped_storage().data_ptr()
    assert {layer.weight.untyped_storage().data_ptr() for layer in layers} == {storage}


class Counted(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.calls = 0

    def forward(self, rows: Tensor) -> Tensor:
        self.calls += 1
        return self.inner(rows)


@pytest.fixture
def three() -> tuple[list[nn.Linear], list[JointPart], Counted]:
    torch.manual_seed(0)
    layers = [nn.Linear(16, 16).requires_grad_(False), nn.Linear(16, 8).requires_grad_(False), nn.Linear(16, 8)]
    joint = JointLinear(layers)
    counted = joint.linear = Counted(joint.linear)
    return layers, [JointPart(joint, index, layer) for index, layer in enumerate(layers)], counted


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 1, 2, 0), (0, 0, 0), (0, 1), (2, 2, 1, 0, 0, 1, 2)])
@torch.no_grad()
def test_each_part_is_its_layer_in_whatever_order(
    order: tuple[int, ...], three: tuple[list[nn.Linear], list[JointPart], Counted]
) -> None:
    layers, parts, _ = three
    first, second = torch.randn(2, 5, 16)
    for rows in (first, second, first, first.clone()):
        for index in order:
            torch.testing.assert_close(parts[index](rows), layers[index](rows))


@torch.no_grad()
def test_three_calls_with_one_tensor_are_one_product(
    three: tuple[list[nn.Linear], list[JointPart], Counted],
) -> None:
    _, parts, counted = three
    for round_ in range(1, 4):
        rows = torch.randn(5, 16)
        for part in parts:
            part(rows)
        assert counted.calls == round_


@torch.no_grad()
def test_interleaved_tensors_are_never_mixed_up(three: tuple[list[nn.Linear], list[JointPart], Counted]) -> None:
    layers, parts, _ = three
    first, second = torch.randn(2, 5, 16)
    for index in (0, 1, 2):
        for rows in (first, second):
            torch.testing.assert_close(parts[index](rows), layers[index](rows))


@torch.no_grad()
def test_a_tensor_that_is_written_over_between_passes_is_computed_anew(
    three: tuple[list[nn.Linear], list[JointPart], Counted],
) -> None:
    layers, parts, _ = three
    rows = torch.randn(5, 16)
    for _ in range(3):
        for part, layer in zip(parts, layers, strict=True):
            torch.testing.assert_close(part(rows), layer(rows))
        rows.add_(1)


def test_projections_that_differ_in_kind_are_left_alone() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q_proj, self.k_proj, self.v_proj = nn.Linear(8, 8), nn.Linear(8, 8, bias=False), nn.Linear(8, 8)

        def forward(self) -> Tensor:
            rows = torch.ones(2, 8)
            return self.q_proj(rows) + self.k_proj(rows) + self.v_proj(rows)

    model = Attention()
    assert fuse(model, model.forward) == Fused(products=0, norms=0)
    assert type(model.q_proj) is nn.Linear


def test_a_model_that_writes_into_its_input_between_projections_is_put_back() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q_proj, self.k_proj, self.v_proj = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self) -> Tensor:
            rows = torch.ones(2, 8)
            queries = self.q_proj(rows)
            return queries + self.k_proj(rows.mul_(2)) + self.v_proj(rows)

    model = Attention()
    expected = model.forward()
    assert fuse(model, model.forward) == Fused(products=0, norms=0)
    assert torch.equal(model.forward(), expected)
    assert type(model.q_proj) is nn.Linear


def test_a_norm_that_does_something_else_is_left_alone() -> None:
    class ShiftedNorm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.eps = nn.Parameter(torch.ones(8)), 1e-6

        def forward(self, rows: Tensor) -> Tensor:
            return nn.functional.rms_norm(rows, (8,), self.weight, self.eps) + 1e-4

    model = nn.Sequential(ShiftedNorm(), nn.LayerNorm(8), nn.LayerNorm(8, bias=False))
    assert fuse(model, lambda: model(torch.ones(2, 8))) == Fused(products=0, norms=0)


@pytest.mark.parametrize("offset", [0.0, 1.0], ids=["plain", "gemma's"])
def test_a_fused_norm_gives_a_row_the_same_bits_at_every_count(offset: float) -> None:
    generator = torch.Generator().manual_seed(0)
    norm = RootMeanSquareNorm(torch.randn(576, generator=generator) + offset, 1e-5)
    rows = torch.randn(256, 576, generator=generator)
    together = norm(rows)
    for count in (*range(1, 81), 128):
        assert torch.equal(norm(rows[:count]), together[:count])
