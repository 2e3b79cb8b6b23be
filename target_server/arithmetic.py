"""Torch's version of the operations that processors, noise and acceptance need, and which version suits a device.

The rules stay in `decoding`; nothing here decides anything. Rows may hold any float dtype; the work is done in float64
and int64, on the CPU by numpy over the tensor's own memory, elsewhere by torch where the rows lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoding.arithmetic import UNIFORM_BITS, Arithmetic, NumpyArithmetic, Values

_INFINITY = float("inf")
_NUMPY_DTYPES = frozenset({torch.float16, torch.float32, torch.float64})
BLOCK_AT_ONCE = 64


def arithmetic_for(device: torch.device) -> Arithmetic[Tensor, Any]:
    """What decides tokens fastest from rows of logits on a device.

    On a CPU that is numpy, one row after the other: its operations on one row take a fraction of torch's, and a row
    that is not judged costs nothing. Elsewhere it is torch with all rows of a block at once, so that a block costs one
    round trip of ids and log-probabilities, and one more for each narrowing.
    """
    if device.type == "cpu":
        return HostArithmetic()
    return TorchArithmetic(rows_at_once=BLOCK_AT_ONCE)


class HostArithmetic(NumpyArithmetic):
    """Numpy's arithmetic over rows that are tensors in the host's memory."""

    def widen(self, rows: Sequence[Tensor], size: int) -> NDArray[Any]:  # type: ignore[override]  # tensors only
        return super().widen([_in_numpy(row.detach()) for row in rows], size)


class TorchArithmetic:
    """`decoding.arithmetic.Arithmetic[Tensor, Tensor]`; words are int64 with the bits of the others' unsigned words.

    Torch multiplies int64 modulo 2**64, but shifts it arithmetically: the sign bits that a right shift draws in are
    masked away. Devices without float64, such as Apple's, need their rows moved to the CPU first.
    """

    def __init__(self, *, rows_at_once: int = 1) -> None:
        self.rows_at_once = rows_at_once

    def widen(self, rows: Sequence[Tensor], size: int) -> Tensor:
        for row in rows:
            if row.ndim != 1 or row.shape[0] < size:
                raise ValueError(f"logits must be a row of at least {size}, got shape {tuple(row.shape)}")
        return torch.stack([row.detach()[:size] for row in rows]).to(torch.float64)

    def host(self, columns: Sequence[Tensor]) -> Values:
        values: Values = torch.cat([column.to(torch.float64) for column in columns], dim=1).cpu().numpy()
        return values

    def place(self, values: NDArray[Any], beside: Tensor) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(beside.device)

    def width(self, block: Tensor) -> int:
        return block.shape[-1]

    def take(self, block: Tensor, indices: Tensor) -> Tensor:
        return block[..., indices]

    def gather(self, block: Tensor, indices: Tensor) -> Tensor:
        return block[indices] if block.ndim == 1 else block.gather(1, indices)

    def put(self, block: Tensor, indices: Tensor, values: Tensor) -> Tensor:
        block[:, indices] = values
        return block

    def choose(self, mask: NDArray[np.bool_], here: Tensor, there: Tensor) -> Tensor:
        return torch.where(torch.from_numpy(mask).to(here.device), here, there)

    def penalize(self, block: Tensor, by: float) -> Tensor:
        return torch.where(block > 0, block / by, block * by)

    def divide(self, block: Tensor, by: Tensor | float) -> Tensor:
        return block / by

    def add(self, block: Tensor, other: Tensor | float) -> Tensor:
        return block + other

    def subtract(self, block: Tensor, other: Tensor) -> Tensor:
        return block - other

    def exp(self, block: Tensor) -> Tensor:
        return torch.exp(block)

    def log(self, block: Tensor) -> Tensor:
        return torch.log(block)

    def largest(self, block: Tensor) -> Tensor:
        return block.amax(dim=1, keepdim=True)

    def argmax(self, block: Tensor) -> Tensor:
        return block.argmax(dim=1, keepdim=True)

    def kth_largest(self, block: Tensor, k: int) -> Tensor:
        return block.topk(k, dim=1, sorted=False).values.amin(dim=1, keepdim=True)

    def total(self, block: Tensor) -> Tensor:
        # Row by row: torch splits a sum by the shape of the whole, and that would show in its last bits.
        return torch.stack([row.sum() for row in block])[:, None]

    def running_total(self, block: Tensor) -> Tensor:
        return block.cumsum(dim=1)

    def before(self, block: Tensor) -> Tensor:
        moved = torch.zeros_like(block)
        moved[:, 1:] = block[:, :-1]
        return moved

    def column(self, block: Tensor, index: int) -> Tensor:
        return block.select(1, index)[:, None]

    def columns(self, block: Tensor, edges: Tensor) -> Tensor:
        return (~(block < edges)).any(dim=0).nonzero().flatten()

    def at_least(self, block: Tensor, edges: Tensor | float, values: Tensor) -> Tensor:
        return torch.where(block >= edges, values, -_INFINITY)

    def below(self, block: Tensor, edge: float, values: Tensor) -> Tensor:
        return torch.where(block < edge, values, -_INFINITY)

    def descending(self, block: Tensor) -> Tensor:
        return block.argsort(dim=1, descending=True, stable=True)

    def lowest(self, block: Tensor, ids: Tensor) -> Tensor:
        rivals = torch.where(block == block.amax(dim=1, keepdim=True), ids, torch.iinfo(torch.int64).max)
        return rivals.argmin(dim=1, keepdim=True)

    def counter(self, starts: Sequence[int], step: int, indices: Tensor) -> Tensor:
        signed = torch.tensor([[_signed(start)] for start in starts], device=indices.device)
        return indices * _signed(step) + signed

    def xor_shift(self, words: Tensor, bits: int) -> Tensor:
        return words ^ _shift_right(words, bits)

    def times(self, words: Tensor, factor: int) -> Tensor:
        return words * _signed(factor)

    def gumbel(self, words: Tensor) -> Tensor:
        cells = _shift_right(words, 64 - UNIFORM_BITS).to(torch.float64)
        return -torch.log(-torch.log((cells + 0.5) * 2.0**-UNIFORM_BITS))

    def largest_gumbel(self, words: Tensor) -> Tensor:
        # With the sign bit turned, signed words are in the order of the unsigned ones.
        largest = (words ^ _SIGN).amax(dim=1, keepdim=True) ^ _SIGN
        return self.gumbel(largest)


_SIGN = -(2**63)


def _in_numpy(row: Tensor) -> NDArray[Any]:
    values: NDArray[Any] = (row if row.dtype in _NUMPY_DTYPES else row.float()).numpy()
    return values


def _signed(word: int) -> int:
    """The int64 with the bits of an unsigned word."""
    return word - 2**64 if word >= 2**63 else word


def _shift_right(words: Tensor, bits: int) -> Tensor:
    return (words >> bits) & ((1 << (64 - bits)) - 1)
