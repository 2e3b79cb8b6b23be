"""At which row counts a model's products give a row the same bits, wherever it stands. Knows nothing of steps.

Kernels divide rows into tiles, and the last rows of some counts, or a single row, may go through another kernel, which
sums in another order. Here each product is seen by itself, at every place of a count, which is cheap beside whole steps
and sees a difference where it arises: in half precision most sums that differ in their last bits round to the same
number, and whole steps may show nothing of a kernel that changes outputs a few tokens on. So the rows are made such
that many sums all but cancel, and nothing but those last bits is left of them.

It proves no count, since a model does more than multiply: `parity` does, by whole steps.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from target_server.packing import PackedLinear

DRAWS = 4  # rows that each product is asked about
INPUTS = 512  # of a row, that are not zero: finding rows whose sums cancel takes as many rows of each product

Product = nn.Linear | PackedLinear


class ProductBits:
    """What every kind of product of a model makes of some rows, by the number of rows that go with each.

    hf: a transformers causal LM, as it will run. The product that makes logits is left out: whole steps compare all
        that it answers.
    """

    def __init__(self, hf: Any) -> None:
        generator = torch.Generator().manual_seed(0)
        some = torch.empty(0, device=hf.device, dtype=hf.dtype)
        self._asked = [(product, cancelling_rows(product, like=some, generator=generator)) for product in _kinds(hf)]
        self._known: dict[int, list[Tensor] | None] = {}

    def uniform(self, count: int) -> bool:
        """Whether a row has the same bits in every place among so many."""
        return self._at(count) is not None

    def agree(self, count: int, other: int) -> bool:
        """Whether a row has the same bits in every place of both counts."""
        ours, theirs = self._at(count), self._at(other)
        return ours is not None and theirs is not None and all(map(torch.equal, ours, theirs))

    @torch.inference_mode()
    def _at(self, count: int) -> list[Tensor] | None:
        """[row, outputs] of each product; None where some place of the count gives others than the first."""
        if count not in self._known:
            # Each row by itself, in every place: [row, place, outputs].
            found = [torch.cat([product(row.repeat(1, count, 1)) for row in rows]) for product, rows in self._asked]
            same = all(torch.equal(outputs, outputs[:, :1].expand_as(outputs)) for outputs in found)
            self._known[count] = [outputs[:, 0].clone() for outputs in found] if same else None
        return self._known[count]


@torch.inference_mode()
def cancelling_rows(product: Product, *, like: Tensor, generator: torch.Generator) -> Tensor:
    """[DRAWS, in_features] of the dtype and device of `like`: normal numbers, less what some outputs would see of them.

    As many outputs as half the numbers that aren't zero, or all: of their sums rounding leaves about the last bits.
    """
    width = product.in_features
    places = torch.randperm(width, generator=generator)[:INPUTS]
    units = torch.zeros(1 + len(places), width, dtype=torch.float64)  # the first: what a bias adds
    units[1 + torch.arange(len(places)), places] = 1
    answers = product(units.to(like)[None])[0].double().cpu()
    weights = (answers[1:] - answers[0])[:, : len(places) // 2]
    drawn = torch.randn(DRAWS, len(places), generator=generator, dtype=torch.float64)
    rows = torch.zeros(DRAWS, width, dtype=torch.float64)
    rows[:, places] = drawn - drawn @ weights @ torch.linalg.pinv(weights)
    return rows.to(like)


def _kinds(hf: Any) -> list[Product]:
    """One product of each shape and kernel."""
    head = hf.get_output_embeddings()
    found: dict[tuple[object, ...], Product] = {}
    for module in hf.modules():
        if isinstance(module, Product) and module is not head:
            kernel = type(module.product) if isinstance(module, PackedLinear) else type(module)
            found.setdefault((kernel, module.in_features, module.out_features), module)
    return list(found.values())
