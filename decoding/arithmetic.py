"""The few array operations that processors, noise and acceptance need, and numpy's version of them.

The rules themselves are written once, over this protocol, so that every array library applies the same ones.
Knows nothing of sampling: no operation here decides anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Row = TypeVar("Row")
RowIn = TypeVar("RowIn", contravariant=True)
Block = TypeVar("Block")

Ids = NDArray[np.int64]
Values = NDArray[np.float64]

UNIFORM_BITS = 52


class Arithmetic(Protocol[RowIn, Block]):
    """Operations on blocks: arrays of rows by columns that stay where the library keeps them.

    A block holds float64 scores, int64 indices or 64-bit words. A column is a block with one entry a row; where an
    operation takes a block and a column, each row meets its own entry. Only `put`, `xor_shift` and `times` may change
    what they are given, which must not be used again. A row's results do not depend on the rows beside it, to the bit.

    rows_at_once: how many rows are worth deciding together before it is known whether the first of them ends the
    block. 1 where work costs more than waiting, as on a CPU; more where each answer costs a round trip to a device.
    """

    @property
    def rows_at_once(self) -> int: ...

    def widen(self, rows: Sequence[RowIn], size: int) -> Block:
        """A float64 copy of each row's first `size` logits. Raises ValueError where a row is shorter or not flat."""

    def host(self, columns: Sequence[Block]) -> Values:
        """The columns side by side, in the host's memory: one transfer."""

    def place(self, values: NDArray[Any], beside: Block) -> Block:
        """Indices or scores from the host, one-dimensional, put where `beside` lies."""

    def width(self, block: Block) -> int:
        """Its number of columns."""

    def take(self, block: Block, indices: Block) -> Block:
        """The columns at one-dimensional indices; of a one-dimensional block, the entries at indices of any shape."""

    def gather(self, block: Block, indices: Block) -> Block:
        """For each row of indices, the entries there of the same row, or of a one-dimensional block."""

    def put(self, block: Block, indices: Block, values: Block) -> Block:
        """The block with values in the columns at indices."""

    def choose(self, mask: NDArray[np.bool_], here: Block, there: Block) -> Block:
        """`here` where the mask, in the host's memory, is true, else `there`."""

    def penalize(self, block: Block, by: float) -> Block:
        """Positive entries divided, the others multiplied."""

    def divide(self, block: Block, by: Block | float) -> Block: ...

    def add(self, block: Block, other: Block | float) -> Block: ...

    def subtract(self, block: Block, other: Block) -> Block: ...

    def exp(self, block: Block) -> Block: ...

    def log(self, block: Block) -> Block: ...

    def largest(self, block: Block) -> Block:
        """Each row's largest entry, NaN if any is."""

    def argmax(self, block: Block) -> Block:
        """Column of each row's largest entry, the lowest of equals."""

    def kth_largest(self, block: Block, k: int) -> Block:
        """Each row's k-th largest entry, equals counted apart; 1 <= k <= width."""

    def total(self, block: Block) -> Block:
        """Each row's sum."""

    def running_total(self, block: Block) -> Block:
        """Each row's sums up to each entry, added from the left one by one."""

    def before(self, block: Block) -> Block:
        """Each row moved one to the right, 0 first."""

    def column(self, block: Block, index: int) -> Block:
        """The column at an index; -1 is the last."""

    def columns(self, block: Block, edges: Block) -> Block:
        """Ascending indices of the columns in which any row's entry reaches the row's edge, or one of both is NaN."""

    def at_least(self, block: Block, edges: Block | float, values: Block) -> Block:
        """`values` where the block's entry reaches the edge, else -inf."""

    def below(self, block: Block, edge: float, values: Block) -> Block:
        """`values` where the block's entry is under the edge, else -inf."""

    def descending(self, block: Block) -> Block:
        """Each row's columns by falling entry, of equals the lowest first."""

    def lowest(self, block: Block, ids: Block) -> Block:
        """Each row's column whose entry is the largest; of equals, the one with the lowest id."""

    def counter(self, starts: Sequence[int], step: int, indices: Block) -> Block:
        """A row of words start + step * index, modulo 2**64, for each start; start and step from 0 to 2**64 - 1."""

    def xor_shift(self, words: Block, bits: int) -> Block:
        """Each word w becomes w ^ (w >> bits), the shift logical."""

    def times(self, words: Block, factor: int) -> Block:
        """Words times factor, modulo 2**64; factor from 0 to 2**64 - 1."""

    def gumbel(self, words: Block) -> Block:
        """-log(-log(u)) with u = (top 52 bits + 1/2) / 2**52.

        All such u are exact in float64 and lie strictly between 0 and 1. With 53 bits the largest would round to 1
        and give infinite noise.
        """

    def largest_gumbel(self, words: Block) -> Block:
        """Each row's largest entry of `gumbel(words)`, but for the last bits of a logarithm."""


class NumpyArithmetic:
    """Arithmetic over numpy arrays: words are uint64, indices int64."""

    def __init__(self, *, rows_at_once: int = 1) -> None:
        self.rows_at_once = rows_at_once

    def widen(self, rows: Sequence[NDArray[Any]], size: int) -> NDArray[Any]:
        wide = np.empty((len(rows), size))
        for index, row in enumerate(rows):
            if row.ndim != 1 or row.shape[0] < size:
                raise ValueError(f"logits must be a row of at least {size}, got shape {row.shape}")
            wide[index] = row[:size]
        return wide

    def host(self, columns: Sequence[NDArray[Any]]) -> Values:
        return np.concatenate(columns, axis=1, dtype=np.float64)

    def place(self, values: NDArray[Any], beside: NDArray[Any]) -> NDArray[Any]:  # noqa: ARG002  # all lies here
        return values

    def width(self, block: NDArray[Any]) -> int:
        return int(block.shape[-1])

    def take(self, block: NDArray[Any], indices: NDArray[Any]) -> NDArray[Any]:
        return np.take(block, indices, axis=-1)

    def gather(self, block: NDArray[Any], indices: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(block[indices] if block.ndim == 1 else block[np.arange(len(block))[:, None], indices])

    def put(self, block: NDArray[Any], indices: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]:
        block[:, indices] = values
        return block

    def choose(self, mask: NDArray[np.bool_], here: NDArray[Any], there: NDArray[Any]) -> NDArray[Any]:
        return np.where(mask, here, there)

    def penalize(self, block: NDArray[Any], by: float) -> NDArray[Any]:
        return np.where(block > 0, block / by, block * by)

    def divide(self, block: NDArray[Any], by: NDArray[Any] | float) -> NDArray[Any]:
        return np.asarray(block / by)

    def add(self, block: NDArray[Any], other: NDArray[Any] | float) -> NDArray[Any]:
        return np.asarray(block + other)

    def subtract(self, block: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(block - other)

    def exp(self, block: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.exp(block))

    def log(self, block: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.log(block))

    def largest(self, block: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(block.max(axis=1, keepdims=True))

    def argmax(self, block: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(block.argmax(axis=1, keepdims=True))

    def kth_largest(self, block: NDArray[Any], k: int) -> NDArray[Any]:
        place = block.shape[1] - k
        return np.partition(block, place, axis=1)[:, place : place + 1]

    def total(self, block: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(block.sum(axis=1, keepdims=True))

    def running_total(self, block: NDArray[Any]) -> NDArray[Any]:
        return np.cumsum(block, axis=1)

    def before(self, block: NDArray[Any]) -> NDArray[Any]:
        moved = np.zeros_like(block)
        moved[:, 1:] = block[:, :-1]
        return moved

    def column(self, block: NDArray[Any], index: int) -> NDArray[Any]:
        return block[:, [index]]

    def columns(self, block: NDArray[Any], edges: NDArray[Any]) -> NDArray[Any]:
        under = block < edges
        return np.flatnonzero(~(under[0] if len(under) == 1 else under.all(axis=0)))

    def at_least(self, block: NDArray[Any], edges: NDArray[Any] | float, values: NDArray[Any]) -> NDArray[Any]:
        return np.where(block >= edges, values, -np.inf)

    def below(self, block: NDArray[Any], edge: float, values: NDArray[Any]) -> NDArray[Any]:
        return np.where(block < edge, values, -np.inf)

    def descending(self, block: NDArray[Any]) -> NDArray[Any]:
        return np.argsort(-block, axis=1, kind="stable")

    def lowest(self, block: NDArray[Any], ids: NDArray[Any]) -> NDArray[Any]:
        rivals = np.where(block == block.max(axis=1, keepdims=True), ids, np.iinfo(np.int64).max)
        return np.asarray(rivals.argmin(axis=1, keepdims=True))

    def counter(self, starts: Sequence[int], step: int, indices: NDArray[Any]) -> NDArray[Any]:
        keys = np.array(starts, dtype=np.uint64)[:, None]
        words = np.empty(np.broadcast_shapes(keys.shape, indices.shape), dtype=np.uint64)
        np.multiply(indices.view(np.uint64), np.uint64(step), out=words)
        words += keys
        return words

    def xor_shift(self, words: NDArray[Any], bits: int) -> NDArray[Any]:
        words ^= words >> np.uint64(bits)
        return words

    def times(self, words: NDArray[Any], factor: int) -> NDArray[Any]:
        words *= np.uint64(factor)
        return words

    def gumbel(self, words: NDArray[Any]) -> NDArray[Any]:
        cells = (words >> np.uint64(64 - UNIFORM_BITS)).astype(np.float64)
        return np.asarray(-np.log(-np.log((cells + 0.5) * 2.0**-UNIFORM_BITS)))

    def largest_gumbel(self, words: NDArray[Any]) -> NDArray[Any]:
        return self.gumbel(words.max(axis=1, keepdims=True))
