"""The check, made at every start, that this machine's arithmetic gives a token the same logits however it is verified.

Bits are compared, not rounded values: one unequal bit can turn a tie and change an output. What holds on one CPU need
not hold on the next, so the engine asks here before it serves; here it also learns which row counts agree, so that
steps may be as large as what they hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from target_server.attention import KEY_BLOCK
from target_server.model import Model
from target_server.shapes import Shapes
from target_server.steps import Segment

COMPARED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """What was found bitwise equal.

    rows: a token's logits, whatever its row in the block, and however long that is.
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
    """Run some steps in slot 0, which must be free and is wiped afterwards."""
    probe = _Probe(model, vocabulary_size)
    start, compared = probe.start, probe.compared
    try:
        whole = probe.stored(probe.chunk)
        prefill = all(map(torch.equal, whole, probe.stored(probe.chunk[:compared])))
        plain = probe.plain()
        lengths = range(2, len(probe.tokens) + 1)
        rows = all(probe.same(model.decode(0, start, probe.tokens[:length]), plain) for length in lengths)
        model.decode(0, start, [probe.tokens[0], *probe.others[1:]])
        rejected = probe.same(model.decode(0, start + 1, probe.tokens[1:]), plain[1:])
        padded, model.pads_to_capacity = model.pads_to_capacity, True
        try:
            padding = probe.same(model.decode(0, start, probe.tokens), plain)
        finally:
            model.pads_to_capacity = padded
    finally:
        model.cache.wipe(0)
    return Parity(rows=rows, rejected=rejected, padding=padding, prefill=prefill)


def agreeing(model: Model, counts: Sequence[int], *, vocabulary_size: int) -> Shapes:
    """Of some row counts, those whose steps give the same bits as the model's present ones, which stay among them.

    A count is tried with blocks in every place, with a chunk, and with both; which warms it up, too. Takes slot 0,
    which must be free and is wiped afterwards.
    """
    present = model.shapes
    probe = _Probe(model, vocabulary_size)
    decode, prefill = set(present.decode), set(present.prefill)
    try:
        keys = probe.stored(probe.chunk)
        plain = probe.plain()
        for count in counts:
            if probe.same_blocks(plain, count):
                decode.add(count)
            if probe.same_chunk(keys, plain, count):
                prefill.add(count)
            else:
                probe.stored(probe.chunk)  # what the blocks of the next count attend to
    finally:
        model.cache.wipe(0)
    return Shapes(decode=tuple(sorted(decode)), prefill=tuple(sorted(prefill)))


class _Probe:
    """Slot 0 filled with random keys and values, and tokens to decode behind them.

    They stand across a boundary of KEY_BLOCK where the slot reaches so far.
    """

    def __init__(self, model: Model, vocabulary_size: int) -> None:
        shape, cache = model.shape, model.cache
        generator = torch.Generator().manual_seed(0)

        def draw(length: int) -> list[int]:
            drawn: list[int] = torch.randint(vocabulary_size, (length,), generator=generator).tolist()
            return drawn

        self.tokens, self.others, self.chunk = draw(shape.block_rows), draw(shape.block_rows), draw(shape.prefill_rows)
        self.compared = min(COMPARED, shape.block_rows)
        self.start = max(0, min(KEY_BLOCK, cache.capacity - shape.block_rows) - self.compared // 2 - 1)
        self._model = model
        cache.scramble(0, generator)

    def plain(self) -> list[Tensor]:
        """Logits of the compared tokens, each decoded alone."""
        return [
            self._model.decode(0, self.start + index, self.tokens[index : index + 1])[0]
            for index in range(self.compared)
        ]

    def stored(self, tokens: Sequence[int]) -> list[Tensor]:
        """What a chunk leaves in the cache, at its first positions."""
        self._model.prefill(0, 0, tokens)
        return self._model.cache.snapshot(0, self.compared)

    def same(self, logits: Tensor | None, plain: Sequence[Tensor]) -> bool:
        return logits is not None and all(map(torch.equal, logits, plain))

    def same_blocks(self, plain: Sequence[Tensor], total: int) -> bool:
        """Whether a step full of copies of the block gives all of them the logits of the tokens alone."""
        outcomes = self._model.step(self._blocks(total), total=total)
        return all(self.same(outcome.logits, plain) for outcome in outcomes)

    def same_chunk(self, keys: Sequence[Tensor], plain: Sequence[Tensor], total: int) -> bool:
        """Whether a chunk leaves the same in the cache from such a step, alone and beside blocks."""
        chunk = Segment(slot=0, start=0, tokens=tuple(self.chunk[:total]), prefill=True)
        self._model.step([chunk], total=total)
        alike = all(map(torch.equal, keys, self._model.cache.snapshot(0, self.compared)))
        beside = self._blocks(total - len(chunk.tokens))
        if not alike or not beside:
            return alike and total >= self.compared
        outcomes = self._model.step([*beside, chunk], total=total)
        return all(map(torch.equal, keys, self._model.cache.snapshot(0, self.compared))) and all(
            self.same(outcome.logits, plain) for outcome in outcomes[:-1]
        )

    def _blocks(self, rows: int) -> list[Segment]:
        """Copies of the block that fill so many rows, the last cut short."""
        size = len(self.tokens)
        return [
            Segment(slot=0, start=self.start, tokens=tuple(self.tokens[: rows - first]), prefill=False)
            for first in range(0, rows, size)
        ]
