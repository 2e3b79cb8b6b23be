"""Linear layers with their weights laid out once for the CPU's matrix kernels. Knows nothing of models' structure.

oneDNN multiplies a reordered weight about 1.5 times as fast as a plain one at decode's row counts, because a plain one
is reordered at every call. The reordered weight replaces the original, which is freed unless an embedding shares it.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

# What torch's own compiler emits for a linear layer with constant weights; there is no public name for it.
_MKLDNN = torch.ops.mkldnn


class PackedLinear(nn.Module):
    """A linear layer over a packed weight; the same function as the nn.Linear that it is made from."""

    def __init__(self, linear: nn.Linear, *, rows: int) -> None:
        """`rows`: the count that the layout is best for; others work. Raises RuntimeError where the CPU can't."""
        super().__init__()
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        # A plain attribute: a packed weight can't be moved, cast or saved as a buffer would be.
        self._packed = _MKLDNN._reorder_linear_weight(linear.weight.detach(), rows)  # noqa: SLF001
        self._bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, rows: Tensor) -> Tensor:
        """[…, in_features] -> […, out_features]"""
        return cast(Tensor, _MKLDNN._linear_pointwise(rows, self._packed, self._bias, "none", [], ""))  # noqa: SLF001


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
