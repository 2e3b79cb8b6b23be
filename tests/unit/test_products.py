"""Which row counts a model's products agree at: what is said of them holds for all rows, in every place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny_models import random_model
from torch import Tensor, nn
from uneven_products import as_without_avx512, only_at, plant_products

from target_server.fusing import fuse
from target_server.packing import HalfProduct, PackedLinear, pack_linears
from target_server.products import ProductBits, cancelling_rows

pytestmark = pytest.mark.arithmetic

MOST = 96
KINDS = {"half": torch.float32, "reordered": torch.float32, "bfloat16": torch.bfloat16}


def model(kind: str = "half") -> Any:
    """A tiny fused model on packed weights of some kind, wider than usual: narrow sums have few orders."""
    hf = random_model(hidden_size=192, intermediate_size=320)
    with torch.no_grad():
        for parameter in hf.parameters():
            parameter.copy_(parameter.half().float() if kind == "half" else parameter * 1.001)
    tokens = torch.arange(16)[None]
    assert fuse(hf.to(KINDS[kind]), lambda: hf(tokens, use_cache=False).logits).products == 2
    pack_linears(hf, rows=8)
    return hf


def products(hf: nn.Module) -> list[PackedLinear | nn.Linear]:
    return [module for module in hf.modules() if isinstance(module, PackedLinear | nn.Linear)]


@pytest.mark.parametrize("kind", KINDS)
def test_counts_that_agree_give_every_row_the_same_bits_in_every_place(kind: str) -> None:
    hf = model(kind)
    bits = ProductBits(hf)
    base = next(count for count in range(8, MOST) if bits.uniform(count))
    agreeing = [count for count in range(1, MOST + 1) if bits.agree(base, count)]
    assert base in agreeing
    generator = torch.Generator().manual_seed(1)
    for product in products(hf):
        if product is hf.get_output_embeddings():
            continue
        rows = torch.randn(1, MOST, product.in_features, generator=generator).to(hf.dtype)
        expected = torch.cat(
            [product(rows[:, place : place + 1].repeat(1, base, 1))[:, :1] for place in range(MOST)], 1
        )
        for count in agreeing:
            for first in (0, MOST - count):
                chosen = slice(first, first + count)
                assert torch.equal(product(rows[:, chosen]), expected[:, chosen]), f"{count} rows from {first}"


def test_last_rows_that_differ_by_a_bit_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    hf = model()
    before = ProductBits(hf)
    plant_products(monkeypatch, as_without_avx512)
    found = ProductBits(hf)
    uneven = {count for count in range(1, MOST + 1) if as_without_avx512(count)}
    assert uneven >= {1, 2, 7, 32, 80}
    for count in range(1, MOST + 1):
        assert found.uniform(count) is (before.uniform(count) and (count not in uneven or count <= 2)), f"{count} rows"
        assert found.agree(count, 8) is (before.agree(count, 8) and count not in uneven), f"{count} rows"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_another_order_of_sums_is_found_by_what_is_asked(dtype: torch.dtype) -> None:
    """In one place, too; from rows that are merely random, rounding to half precision hides it now and then."""

    class Summed(nn.Linear):
        backwards = False

        def forward(self, rows: Tensor) -> Tensor:
            order = -1 if self.backwards else 1
            terms = (rows.float()[..., None, :] * self.weight.float()).flatten(0, -3)
            total = torch.zeros(terms.shape[:-1])
            for term in terms.unbind(-1)[::order]:
                total += term
            return total.to(rows.dtype).unflatten(0, rows.shape[:-1])

    def shown(rows: Tensor) -> bool:
        product.backwards = False
        before = product(rows)
        product.backwards = True
        return not torch.equal(product(rows), before)

    asked, merely_random = [], []
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        product = Summed(128, 96, bias=False, dtype=dtype).requires_grad_(False)
        product.backwards = False
        rows = cancelling_rows(product, like=torch.empty(0, dtype=dtype), generator=generator)
        asked.append(shown(rows))
        merely_random.append(shown(torch.randn(rows.shape, generator=generator).to(dtype)))
    assert all(asked)
    assert dtype == torch.float32 or not all(merely_random)


@pytest.mark.parametrize("name", ["o_proj", "gate_proj", "down_proj"])
def test_one_kind_of_product_that_differs_is_enough(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hf = model("reordered")
    fault = _spoilt(getattr(hf.model.layers[0], "self_attn" if name == "o_proj" else "mlp"), name, only_at(16))
    monkeypatch.setattr(*fault)
    bits = ProductBits(hf)
    assert bits.uniform(8)
    assert not bits.uniform(16)


def test_model_without_products_that_are_known_is_left_to_whole_steps() -> None:
    class Nothing(nn.Module):
        device, dtype = torch.device("cpu"), torch.float32

        def get_output_embeddings(self) -> None:
            return None

    assert ProductBits(Nothing()).agree(1, 100)


def test_half_products_are_what_this_is_about() -> None:
    if "fbgemm" in torch.backends.quantized.supported_engines:
        assert all(isinstance(product.product, HalfProduct) for product in products(model()))


def _spoilt(parent: nn.Module, name: str, uneven: Callable[[int], int]) -> tuple[object, str, object]:
    packed: Any = getattr(parent, name)
    product = packed.product

    def call(rows: Tensor) -> Tensor:
        found = product(rows)
        last = uneven(rows.shape[-2])
        if last:
            found[:, -last:, 0] += 1e-3
        return found

    return packed, "product", call
