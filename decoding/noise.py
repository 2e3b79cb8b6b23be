"""Gumbel noise as a pure function of (seed, position, token id): the same integers in every array library.

SplitMix64 (Steele, Lea and Flood 2014) used as a counter: the seed's stream gives each position a key, the key's
stream gives each token a word. No state is kept, so a token's noise does not depend on the block it is judged in,
on other requests, or on the order of anything. Knows nothing of logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from decoding.arithmetic import Arithmetic, Block

NOISE_VERSION = "splitmix64-gumbel52-1"

# The noise of the largest word is 53 log 2 = 36.7368. What exceeds it leaves room for the last bits of logarithms.
LARGEST_NOISE = 36.74
ROUNDING = 1e-6

_WORD = 2**64 - 1
_GAMMA = 0x9E3779B97F4A7C15
_FACTOR_1 = 0xBF58476D1CE4E5B9
_FACTOR_2 = 0x94D049BB133111EB


def splitmix(state: int, index: int) -> int:
    """The word at `index` of the SplitMix64 stream that starts at `state`, both from 0 to 2**64 - 1."""
    word = (state + _GAMMA * (index + 1)) & _WORD
    word = ((word ^ (word >> 30)) * _FACTOR_1) & _WORD
    word = ((word ^ (word >> 27)) * _FACTOR_2) & _WORD
    return word ^ (word >> 31)


def position_key(seed: int, position: int) -> int:
    """The state of the stream that position's tokens draw from; positions are absolute, from 0."""
    return splitmix(splitmix(seed, 0), position)


def noise_words(seed: int, positions: Sequence[int], ids: Block, arithmetic: Arithmetic[Any, Block]) -> Block:
    """splitmix(position_key(seed, position), id): a row for each position, of the ids given for all or for each."""
    starts = [(position_key(seed, position) + _GAMMA) & _WORD for position in positions]
    words = arithmetic.counter(starts, _GAMMA, ids)
    words = arithmetic.times(arithmetic.xor_shift(words, 30), _FACTOR_1)
    words = arithmetic.times(arithmetic.xor_shift(words, 27), _FACTOR_2)
    return arithmetic.xor_shift(words, 31)


def gumbel(seed: int, positions: Sequence[int], ids: Block, arithmetic: Arithmetic[Any, Block]) -> Block:
    """Standard Gumbel noise, float64, shaped as `noise_words`; from -3.61 to 36.74.

    Libraries agree on the words exactly, and on the noise but for the last bits of their logarithm.
    """
    return arithmetic.gumbel(noise_words(seed, positions, ids, arithmetic))


def noise_bound(seed: int, positions: Sequence[int], ids: Block, arithmetic: Arithmetic[Any, Block]) -> Block:
    """For each position, what the noise of none of these ids exceeds: integers for all, one logarithm.

    Noise grows with its word, so the largest word has the largest noise, and ROUNDING covers logarithms that don't.
    """
    most = arithmetic.largest_gumbel(noise_words(seed, positions, ids, arithmetic))
    return arithmetic.add(most, ROUNDING)
