"""The row counts that a step may have. Knows nothing of models; `products` and `parity` find out which counts agree.

Matrix kernels may give other last bits for other row counts, so a step is padded up to one of the counts that were
found to give a row the same bits. On a machine where none agree with another, decoding has one count and prefill one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

# Few enough to try and to warm up at every start, near enough to one another to waste little.
LADDER = (
    *(1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 40, 48, 64, 72, 80, 96, 128),
    *(160, 192, 256, 320, 384, 512, 640, 768, 1024),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shapes:
    """Row counts of steps, ascending.

    decode, prefill: of steps that hold blocks only, and chunks only. A step may hold both at counts that stand in both.
    """

    decode: tuple[int, ...]
    prefill: tuple[int, ...]

    @property
    def shared(self) -> tuple[int, ...]:
        """Counts of steps that may hold blocks and chunks."""
        return tuple(count for count in self.decode if count in self.prefill)

    def total(self, *, decode_rows: int, prefill_rows: int) -> int | None:
        """The least count for a step of so many rows of blocks and of chunks; None where no step can hold them."""
        if not prefill_rows:
            return _least(self.decode, decode_rows)
        if not decode_rows:
            return _least(self.prefill, prefill_rows)
        return _least(self.shared, decode_rows + prefill_rows)


def canonical(*, decode_rows: int, prefill_rows: int) -> Shapes:
    """One count for decoding and one for prefill: right on any machine whose rows don't depend on their neighbours."""
    return Shapes(decode=(decode_rows,), prefill=(prefill_rows,))


def rungs(most: int) -> tuple[int, ...]:
    """The ladder's counts up to `most`."""
    return tuple(count for count in LADDER if count <= most)


def climb(agrees: Callable[[int], bool], *, most: int) -> tuple[int, ...]:
    """For each rung the least count that agrees, from the rung on and before the next; none is over `most`."""
    steps = [
        next(filter(agrees, range(rung, min(following, most + 1))), None)
        for rung, following in pairwise((*rungs(most), most + 1))
    ]
    return tuple(count for count in steps if count is not None)


def _least(counts: tuple[int, ...], rows: int) -> int | None:
    place = bisect_left(counts, rows)
    return counts[place] if place < len(counts) else None
