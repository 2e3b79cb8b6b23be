"""What a step is made of: runs of tokens, each of one sequence, and what came of each. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Consecutive tokens of one slot from absolute position `start`; all before them must be cached.

    prefill: a chunk of a prompt, which starts at a multiple of the prefill rows and yields no logits. Else a block to
    decode: logits come for each of its tokens.
    """

    slot: int
    start: int
    tokens: tuple[int, ...]
    prefill: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a step made of a segment.

    logits: [tokens, vocabulary] after each token of a block; None of a chunk.
    finite: whether all that was cached, and the logits, are numbers. A slot that holds others must be wiped.
    """

    logits: Tensor | None
    finite: bool
