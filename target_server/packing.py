"""Linear layers with their weights laid out once for the CPU's matrix kernels. Knows nothing of models' structure.

A step of few rows takes as long as its weights take to come from memory. So float32 weights that half precision holds
exactly, as those of most checkpoints, are kept so: FBGEMM widens them while it multiplies, in float32, which reads half
as much and changes no weight. Other weights are reordered for oneDNN, which would do so at every call. A packed weight
replaces the original, which is freed unless an embedding shares it.
"""

from __future__ import annotations

from typing import Protocol, cast

import torch
from torch import Tensor, nn

# What torch's own compiler emits for a linear layer with constant weights; there is no public name for it.
_MKLDNN = torch.ops.mkldnn
_QUANTIZED = torch.ops.quantized


class Product(Protocol):
    """A linear function over a weight that is packed."""

    def __call__(self, rows: Tensor) -> Tensor:
        """[…, inputs] -> […, outputs]"""


class HalfProduct:
    """Weights as half precision, sums in float32. Without AVX-512, some counts' last rows get other bits than the rest.

    Raises RuntimeError where this CPU or this build of torch has no FBGEMM.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._packed = _QUANTIZED.linear_prepack_fp16(weight, bias)

    def __call__(self, rows: Tensor) -> Tensor:
        return cast(Tensor, _QUANTIZED.linear_dynamic_fp16(rows, self._packed))

    @staticmethod
    def holds(weight: Tensor) -> bool:
        """Whether nothing is lost, not even of the smallest weights."""
        return weight.dtype == torch.float32 and torch.equal(weight.half().float(), weight)


class ReorderedProduct:
    """Weights of any dtype that oneDNN multiplies on this CPU, in its own order; raises RuntimeError for others."""

    def __init__(self, weight: Tensor, bias: Tensor | None, *, rows: int) -> None:
        self._packed = _MKLDNN._reorder_linear_weight(weight, rows)  # noqa: SLF001
        self._bias = bias

    def __call__(self, rows: Tensor) -> Tensor:
        return cast(Tensor, _MKLDNN._linear_pointwise(rows, self._packed, self._bias, "none", [], ""))  # noqa: SLF001


class PackedLinear(nn.Module):
    """A linear layer over a packed weight; the same function as the nn.Linear that it is made from."""

    def __init__(self, linear: nn.Linear, *, rows: int) -> None:
        """`rows`: what a reordered layout is best for; other counts work. Raises RuntimeError where the CPU can't."""
        super().__init__()
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        # A plain attribute: a packed weight can't be moved, cast or saved as a buffer would be.
        self.product = _product(
            linear.weight.detach(), None if linear.bias is None else linear.bias.detach(), rows=rows
        )

    def forward(self, rows: Tensor) -> Tensor:
        """[…, in_features] -> […, out_features]"""
        return self.product(rows)


def _product(weight: Tensor, bias: Tensor | None, *, rows: int) -> Product:
    if HalfProduct.holds(weight):
        try:
            return HalfProduct(weight, bias)
        except RuntimeError:  # no FBGEMM here
            pass
    return ReorderedProduct(weight, bias, rows=rows)


def pack_linears(model: nn.Module, *, rows: int) -> int:
    """Replace every plain linear layer on the CPU by a packed one, in place; answers how many.

    None where this machine or dtype can't: the model then runs as it was.
    """
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return 0
    packed = 0
    with torch.no_grad():
        for parent in list(model.modules()):
            for name, child in list(parent.named_children()):
                if type(child) is not nn.Linear or child.weight.device.type != "cpu":
                    continue
                try:
                    replacement = PackedLinear(child, rows=rows)
                except RuntimeError:  # no kernel for this dtype on this CPU: true of all layers or of none
                    return packed
                setattr(parent, name, replacement)
                packed += 1
    return packed
