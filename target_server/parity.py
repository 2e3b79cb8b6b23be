"""The check, made at every start, that this machine's arithmetic gives a token the same logits however it is verified.

Bits are compared, not rounded values: one unequal bit can turn a tie and change an output. What holds on one CPU need
not hold on the next, so the engine asks here before it serves.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from target_server.attention import KEY_BLOCK
from target_server.model import Model

COMPARED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """What was found bitwise equal.

    rows: a token's logits, whatever its row in the block.
    rejected: a token's logits after a block whose draft was rejected there.
    padding: a token's logits, whatever the padded length of the keys.
    prefill: a token's keys and values, whatever stands after it in the chunk.
    """

    rows: bool
    rejected: bool
    padding: bool
    prefill: bool

    @property
    def holds(self) -> bool:
        return self.rows and self.rejected and self.padding and self.prefill

    def broken(self) -> tuple[str, ...]:
        """Names of what differs."""
        return tuple(name for name in self.__slots__ if not getattr(self, name))


def check_parity(model: Model, *, vocabulary_size: int) -> Parity:
    """Run some steps in slot 0, which must be free and is wiped afterwards.

    The tokens stand across a boundary of KEY_BLOCK where the slot reaches so far, after random keys and values.
    """
    shape, cache = model.shape, model.cache
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(vocabulary_size, (2, shape.block_rows), generator=generator)
    tokens, others = drawn[0].tolist(), drawn[1].tolist()
    compared = min(COMPARED, shape.block_rows)
    start = max(0, min(KEY_BLOCK, cache.capacity - shape.block_rows) - compared // 2 - 1)
    chunk = torch.randint(vocabulary_size, (shape.prefill_rows,), generator=generator).tolist()
    try:
        model.prefill(0, 0, chunk)
        whole = cache.snapshot(0, compared)
        model.prefill(0, 0, chunk[:compared])
        prefill = all(map(torch.equal, whole, cache.snapshot(0, compared)))

        cache.scramble(0, generator)
        plain = [model.decode(0, start + index, tokens[index : index + 1])[0] for index in range(compared)]

        def same(logits: torch.Tensor, first: int) -> bool:
            return all(torch.equal(logits[index - first], plain[index]) for index in range(first, compared))

        rows = same(model.decode(0, start, tokens), 0)
        model.decode(0, start, [tokens[0], *others[1:]])
        rejected = same(model.decode(0, start + 1, tokens[1:]), 1)
        padded, model.pads_to_capacity = model.pads_to_capacity, True
        try:
            padding = same(model.decode(0, start, tokens), 0)
        finally:
            model.pads_to_capacity = padded
    finally:
        cache.wipe(0)
    return Parity(rows=rows, rejected=rejected, padding=padding, prefill=prefill)
