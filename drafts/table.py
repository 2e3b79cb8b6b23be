"""A language's n-gram table: which token follows a few others, and how surely. Knows nothing of files or corpora.

For each context length there are three parallel arrays: the contexts' hashes, ascending; the token that most often
follows; and how often it does, in sixteenths. Two contexts may share a 32-bit hash: such a table guesses wrong once in
some ten thousand times, and a wrong guess costs a rejected token, never a wrong output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

SHARES = 16  # a share s of 0 to 15 stands for a frequency of (s + 0.5) / 16
_MULTIPLIER = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Contexts of one length: hashes (uint32, ascending), tokens (uint32) and shares (uint8, under SHARES)."""

    hashes: NDArray[np.uint32]
    tokens: NDArray[np.uint32]
    shares: NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What one language's sources say of the next token.

    tokenizer: `Vocabulary.fingerprint_parts()` of the tokenizer whose ids it holds.
    orders: by context length in tokens.
    """

    language: str
    tokenizer: Mapping[str, str]
    orders: Mapping[int, Order] = field(repr=False)

    def __len__(self) -> int:
        return sum(len(order.hashes) for order in self.orders.values())

    @property
    def reach(self) -> int:
        """Tokens of the longest context."""
        return max(self.orders, default=0)

    def next(self, context: Sequence[int]) -> tuple[int, int, int] | None:
        """(token, share, context length) by the longest context known; None where none is."""
        for length in sorted(self.orders, reverse=True):
            if length > len(context):
                continue
            order = self.orders[length]
            wanted = hash_of(context[-length:])
            place = int(np.searchsorted(order.hashes, np.uint32(wanted)))
            if place < len(order.hashes) and order.hashes[place] == wanted:
                return int(order.tokens[place]), int(order.shares[place]), length
        return None


def hash_of(context: Sequence[int]) -> int:
    """32 bits of a run of tokens; `hashes_of` gives the same for many at once."""
    state = 0
    for token in context:
        state = ((state ^ token) * _MULTIPLIER + 1) & _MASK
        state ^= state >> 29
    return state >> 32


def hashes_of(tokens: NDArray[np.uint64], length: int) -> NDArray[np.uint32]:
    """Hashes of every run of `length` tokens; element i is of tokens[i : i + length]."""
    count = max(0, len(tokens) - length + 1)
    state = np.zeros(count, dtype=np.uint64)
    for offset in range(length):
        state = (state ^ tokens[offset : offset + count]) * np.uint64(_MULTIPLIER) + np.uint64(1)
        state ^= state >> np.uint64(29)
    return (state >> np.uint64(32)).astype(np.uint32)
