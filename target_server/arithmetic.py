"""Torch's version of the operations that processors, noise and acceptance need.

The rules stay in `decoding`; nothing here decides anything. Rows may lie on any device and hold any float dtype;
the work is done in float64 and int64 where they lie.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from decoding.arithmetic import UNIFORM_BITS, Ids, Values

_INFINITY = float("inf")


class TorchArithmetic:
    """`decoding.arithmetic.Arithmetic[Tensor]`; words are int64 whose bits are the unsigned words of the others.

    Torch multiplies int64 modulo 2**64, but shifts it arithmetically: the sign bits that a right shift draws in are
    masked away. Devices without float64, such as Apple's, need their rows moved to the CPU first.
    """

    def widen(self, row: Tensor, size: int) -> Tensor:
        if row.ndim != 1 or row.shape[0] < size:
            raise ValueError(f"logits must be a row of at least {size}, got shape {tuple(row.shape)}")
        return row.detach()[:size].to(torch.float64, copy=True)

    def read(self, row: Tensor, ids: Ids) -> Values:
        values: Values = row.index_select(0, _indices(ids, row)).cpu().numpy()
        return values

    def write(self, row: Tensor, ids: Ids, values: Values) -> Tensor:
        row[_indices(ids, row)] = torch.from_numpy(values).to(row.device)
        return row

    def at(self, row: Tensor, index: int) -> float:
        return row[index].item()

    def divide(self, row: Tensor, by: float) -> Tensor:
        return row / by

    def subtract(self, row: Tensor, amount: float) -> Tensor:
        return row - amount

    def add(self, row: Tensor, other: Tensor) -> Tensor:
        return row + other

    def largest(self, row: Tensor) -> float:
        return row.max().item()

    def argmax(self, row: Tensor) -> int:
        return int(row.argmax().item())

    def kth_largest(self, row: Tensor, k: int) -> float:
        return row.topk(k, sorted=False).values.min().item()

    def log_total(self, row: Tensor) -> float:
        return torch.logsumexp(row, dim=0).item()

    def at_least(self, row: Tensor, edge: float) -> Ids:
        ids: Ids = ((row >= edge) & (row > -_INFINITY)).nonzero().flatten().cpu().numpy()
        return ids

    def keep(self, row: Tensor, ids: Ids) -> Tensor:
        indices = _indices(ids, row)
        return torch.full_like(row, -_INFINITY).index_copy_(0, indices, row.index_select(0, indices))

    def finite(self, row: Tensor) -> Tensor:
        return (row > -_INFINITY).nonzero().flatten()

    def take(self, row: Tensor, indices: Tensor) -> Tensor:
        return row.index_select(0, indices)

    def counter(self, start: int, step: int, indices: Tensor) -> Tensor:
        return indices * _signed(step) + _signed(start)

    def xor_shift(self, words: Tensor, bits: int) -> Tensor:
        return words ^ _shift_right(words, bits)

    def times(self, words: Tensor, factor: int) -> Tensor:
        return words * _signed(factor)

    def gumbel(self, words: Tensor) -> Tensor:
        cells = _shift_right(words, 64 - UNIFORM_BITS).to(torch.float64)
        return -torch.log(-torch.log((cells + 0.5) * 2.0**-UNIFORM_BITS))


def _indices(ids: Ids, row: Tensor) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(ids)).to(row.device)


def _signed(word: int) -> int:
    """The int64 with the bits of an unsigned word."""
    return word - 2**64 if word >= 2**63 else word


def _shift_right(words: Tensor, bits: int) -> Tensor:
    return (words >> bits) & ((1 << (64 - bits)) - 1)
