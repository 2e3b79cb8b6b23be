"""The few array operations that processors, noise and acceptance need, and numpy's version of them.

The rules themselves are written once, over this protocol, so that every array library applies the same ones.
Knows nothing of sampling: no operation here decides anything.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Row = TypeVar("Row")

Ids = NDArray[np.int64]
Values = NDArray[np.float64]

UNIFORM_BITS = 52


class Arithmetic(Protocol[Row]):
    """Operations on one-dimensional arrays: float64 scores by token id, or 64-bit integer words.

    Rows stay where the library keeps them; `Ids` and `Values` are small numpy arrays on the host. Nothing here
    changes a row in place, except `write`, which may.
    """

    def widen(self, row: Row, size: int) -> Row:
        """A float64 copy of the first `size` logits. Raises ValueError where the row has fewer, or 2 dimensions."""

    def read(self, row: Row, ids: Ids) -> Values: ...

    def write(self, row: Row, ids: Ids, values: Values) -> Row:
        """The row with values at ids; the row given may be changed and must not be used again."""

    def at(self, row: Row, index: int) -> float: ...

    def divide(self, row: Row, by: float) -> Row: ...

    def subtract(self, row: Row, amount: float) -> Row: ...

    def add(self, row: Row, other: Row) -> Row: ...

    def largest(self, row: Row) -> float:
        """NaN if any entry is."""

    def argmax(self, row: Row) -> int:
        """Index of the largest entry, the lowest of equals."""

    def kth_largest(self, row: Row, k: int) -> float:
        """The k-th largest entry, equals counted apart; 1 <= k <= length."""

    def log_total(self, row: Row) -> float:
        """The logarithm of the sum of exp(row), without overflow."""

    def at_least(self, row: Row, edge: float) -> Ids:
        """Ascending indices of the finite entries that are `edge` or more."""

    def keep(self, row: Row, ids: Ids) -> Row:
        """The row with -inf everywhere but at ids."""

    def finite(self, row: Row) -> Row:
        """Ascending indices of the entries that are not -inf, as int64 words."""

    def take(self, row: Row, indices: Row) -> Row: ...

    def counter(self, start: int, step: int, indices: Row) -> Row:
        """Words start + step * index, modulo 2**64; start and step from 0 to 2**64 - 1."""

    def xor_shift(self, words: Row, bits: int) -> Row:
        """Each word w becomes w ^ (w >> bits), the shift logical."""

    def times(self, words: Row, factor: int) -> Row:
        """Words times factor, modulo 2**64; factor from 0 to 2**64 - 1."""

    def gumbel(self, words: Row) -> Row:
        """-log(-log(u)) with u = (top 52 bits + 1/2) / 2**52.

        All such u are exact in float64 and lie strictly between 0 and 1. With 53 bits the largest would round to 1
        and give infinite noise.
        """


class NumpyArithmetic:
    """Arithmetic over numpy arrays: words are uint64, indices int64."""

    def widen(self, row: NDArray[Any], size: int) -> NDArray[Any]:
        if row.ndim != 1 or row.shape[0] < size:
            raise ValueError(f"logits must be a row of at least {size}, got shape {row.shape}")
        return row[:size].astype(np.float64)

    def read(self, row: NDArray[Any], ids: Ids) -> Values:
        return np.asarray(row[ids], dtype=np.float64)

    def write(self, row: NDArray[Any], ids: Ids, values: Values) -> NDArray[Any]:
        row[ids] = values
        return row

    def at(self, row: NDArray[Any], index: int) -> float:
        return float(row[index])

    def divide(self, row: NDArray[Any], by: float) -> NDArray[Any]:
        return np.asarray(row / by)

    def subtract(self, row: NDArray[Any], amount: float) -> NDArray[Any]:
        return np.asarray(row - amount)

    def add(self, row: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(row + other)

    def largest(self, row: NDArray[Any]) -> float:
        return float(row.max())

    def argmax(self, row: NDArray[Any]) -> int:
        return int(row.argmax())

    def kth_largest(self, row: NDArray[Any], k: int) -> float:
        place = row.shape[0] - k
        return float(np.partition(row, place)[place])

    def log_total(self, row: NDArray[Any]) -> float:
        largest = row.max()
        return float(largest + np.log(np.exp(row - largest).sum()))

    def at_least(self, row: NDArray[Any], edge: float) -> Ids:
        return np.flatnonzero((row >= edge) & (row > -np.inf))

    def keep(self, row: NDArray[Any], ids: Ids) -> NDArray[Any]:
        kept = np.full_like(row, -np.inf)
        kept[ids] = row[ids]
        return kept

    def finite(self, row: NDArray[Any]) -> NDArray[Any]:
        return np.flatnonzero(row > -np.inf)

    def take(self, row: NDArray[Any], indices: NDArray[Any]) -> NDArray[Any]:
        return np.take(row, indices)

    def counter(self, start: int, step: int, indices: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.uint64(start) + np.uint64(step) * indices.astype(np.uint64))

    def xor_shift(self, words: NDArray[Any], bits: int) -> NDArray[Any]:
        return np.asarray(words ^ (words >> np.uint64(bits)))

    def times(self, words: NDArray[Any], factor: int) -> NDArray[Any]:
        return np.asarray(words * np.uint64(factor))

    def gumbel(self, words: NDArray[Any]) -> NDArray[Any]:
        cells = (words >> np.uint64(64 - UNIFORM_BITS)).astype(np.float64)
        return np.asarray(-np.log(-np.log((cells + 0.5) * 2.0**-UNIFORM_BITS)))
