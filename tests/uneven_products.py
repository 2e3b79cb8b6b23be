"""Products that give the last rows of some counts other bits, planted from outside; as a script, the command line so.

FBGEMM's half products do so on processors without AVX-512: its kernels take up to six rows at once, and what is left of
one or two goes through another that sums in another order. The double does it on every machine, by a bit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from target_server.packing import HalfProduct, ReorderedProduct

Uneven = Callable[[int], int]


def as_without_avx512(count: int) -> int:
    """How many last rows of so many FBGEMM gives other bits on a processor with AVX2."""
    if count in (1, 2, 7, 14):
        return min(count, 2)
    return count % 6 if count > 30 and count % 6 in (1, 2) else 0


def only_at(count: int) -> Uneven:
    """The last two rows of this count."""
    return lambda rows: 2 if rows == count else 0


def plant_products(patch: pytest.MonkeyPatch, uneven: Uneven) -> None:
    """uneven: how many last rows of how many get other bits."""
    for kind, name in ((HalfProduct, "__call__"), (ReorderedProduct, "__call__"), (nn.Linear, "forward")):
        patch.setattr(kind, name, _planted(getattr(kind, name), uneven))


def _planted(product: Callable[..., Tensor], uneven: Uneven) -> Callable[..., Tensor]:
    def call(self: object, rows: Tensor) -> Tensor:
        found = product(self, rows)
        if last := uneven(rows.shape[:-1].numel()):
            bits = found.view(torch.int32 if found.dtype == torch.float32 else torch.int16)
            bits.reshape(-1, bits.shape[-1])[-last:] ^= 1
        return found

    return call


if __name__ == "__main__":
    from cli.main import main

    count = int(sys.argv.pop(1))
    with pytest.MonkeyPatch.context() as patch:
        plant_products(patch, only_at(count))
        main()
