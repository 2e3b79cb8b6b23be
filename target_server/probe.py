"""Steps that are run only to be compared: blocks and chunks over random keys and values in one slot, bit by bit.

Every row of every step is compared, in every place: kernels may treat the last rows of a count otherwise. Which steps
are to agree with which, and what follows if they don't, is for `parity` to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from target_server.attention import KEY_BLOCK
from target_server.model import Model
from target_server.steps import Segment

_CHUNKS = 2


class Probe:
    """Slot 0 filled with random keys and values, chunks at its beginning as the model's present shapes cache them.

    block: the tokens that are decoded.
    behind: where the block stands right behind the chunks. boundary: where its last row is the last before a boundary
    of KEY_BLOCK, if the slot reaches so far, so that later rows by themselves read more keys. end: the last place.
    """

    def __init__(self, model: Model, *, vocabulary_size: int) -> None:
        shape, cache = model.shape, model.cache
        generator = torch.Generator().manual_seed(0)

        def draw(length: int) -> list[int]:
            drawn: list[int] = torch.randint(vocabulary_size, (length,), generator=generator).tolist()
            return drawn

        self.block, self._others = draw(shape.block_rows), draw(shape.block_rows)
        self.end = cache.capacity - shape.block_rows
        chunks = max(1, min(_CHUNKS, self.end // shape.prefill_rows))
        self.behind = min(chunks * shape.prefill_rows, self.end)
        boundary = -(-(self.behind + shape.block_rows) // KEY_BLOCK) * KEY_BLOCK
        self.boundary = min(boundary - shape.block_rows, self.end)
        self.model = model
        self._chunks = [draw(shape.prefill_rows) for _ in range(chunks)]
        cache.scramble(0, generator)
        self.cache_chunks()

    def cache_chunks(self) -> None:
        """Run the chunks anew, as the model's present shapes do; later ones are compared with what is cached now."""
        size = self.model.shape.prefill_rows
        for index, chunk in enumerate(self._chunks):
            self.model.prefill(0, index * size, chunk)
        self._stored = self.model.cache.snapshot(0, len(self._chunks) * size)

    def alone(self, start: int) -> list[Tensor]:
        """Logits of the block's tokens, each decoded alone: each in the first row of a step."""
        return [self.model.decode(0, start + row, [token])[0] for row, token in enumerate(self.block)]

    def whole(self, start: int) -> list[Tensor]:
        """Logits of the block's tokens, decoded together."""
        return list(self.model.decode(0, start, self.block))

    def same_lengths(self, start: int, plain: Sequence[Tensor]) -> bool:
        """Whether blocks of all lengths, each alone in a step, give their tokens these logits."""
        lengths = range(1, len(self.block) + 1)
        return all(same(self.model.decode(0, start, self.block[:length]), plain[:length]) for length in lengths)

    def same_after_rejection(self, start: int, plain: Sequence[Tensor]) -> bool:
        """Whether tokens have these logits where another draft stood before."""
        self.model.decode(0, start, [self.block[0], *self._others[1:]])
        return same(self.model.decode(0, start + 1, self.block[1:]), plain[1:])

    def same_cut(self, count: int) -> bool:
        """Whether a chunk leaves the same in the cache when it is cut short, as the last of a prompt is."""
        size = self.model.shape.prefill_rows
        return all(self._same_stored([self._chunk(0, length)], count) for length in sorted({1, size // 2, size - 1}))

    def same_splits(self, start: int, plain: Sequence[Tensor], count: int) -> bool:
        """Whether the block gives these logits in two pieces, wherever it is split, and token by token in one step."""
        size = len(self.block)
        splits = [[1] * size, *([first, size - first] for first in range(1, size))]
        return all(self._same_rows(self._pieces(start, lengths), count, start, plain) for lengths in splits)

    def same_blocks(self, start: int, plain: Sequence[Tensor], count: int) -> bool:
        """Whether a step full of blocks, of all lengths, gives each row the logits of its token."""
        return self._same_rows(self._blocks(count, start), count, start, plain)

    def same_chunks(self, start: int, plain: Sequence[Tensor], count: int, *, blocks: int = 0) -> bool:
        """Whether a step of chunks, and of so many rows of blocks, leaves the chunks as they are, and gives the logits.

        What there are no chunks for is filled with blocks, too.
        """
        chunks, left = [], count - blocks
        for index, chunk in enumerate(self._chunks):
            if left:
                chunks.append(self._chunk(index, min(left, len(chunk))))
                left -= len(chunks[-1].tokens)
        return self._same_stored([*self._blocks(blocks + left, start), *chunks], count, start, plain)

    def _same_stored(
        self, segments: Sequence[Segment], count: int, start: int = 0, plain: Sequence[Tensor] = ()
    ) -> bool:
        """Whether a step with chunks leaves the chunks as they were, and gives its blocks their logits.

        The chunks are put back first: what another step made of them must not be what this one is compared with.
        """
        cache = self.model.cache
        cache.restore(0, self._stored)
        alike = self._same_rows(segments, count, start, plain)
        found = cache.snapshot(0, len(self._chunks) * self.model.shape.prefill_rows)
        cache.restore(0, self._stored)
        return alike and all(map(torch.equal, self._stored, found))

    def _same_rows(self, segments: Sequence[Segment], count: int, start: int, plain: Sequence[Tensor]) -> bool:
        outcomes = self.model.step(segments, total=count)
        return all(
            outcome.logits is not None and same(outcome.logits, plain[segment.start - start :][: len(segment.tokens)])
            for segment, outcome in zip(segments, outcomes, strict=True)
            if not segment.prefill
        )

    def _chunk(self, index: int, length: int) -> Segment:
        start = index * self.model.shape.prefill_rows
        return Segment(slot=0, start=start, tokens=tuple(self._chunks[index][:length]), prefill=True)

    def _blocks(self, rows: int, start: int) -> list[Segment]:
        """Copies of the block that fill so many rows: shorter and shorter ones, then whole ones, the last cut short."""
        size, blocks = len(self.block), list[Segment]()
        lengths = iter(range(size, 0, -1))
        while rows:
            length = min(next(lengths, size), rows)
            blocks.append(Segment(slot=0, start=start, tokens=tuple(self.block[:length]), prefill=False))
            rows -= length
        return blocks

    def _pieces(self, start: int, lengths: Sequence[int]) -> list[Segment]:
        """The block in consecutive pieces of these lengths."""
        pieces, done = list[Segment](), 0
        for length in lengths:
            tokens = tuple(self.block[done : done + length])
            pieces.append(Segment(slot=0, start=start + done, tokens=tokens, prefill=False))
            done += length
        return pieces


@contextmanager
def probing(model: Model, *, vocabulary_size: int) -> Iterator[Probe]:
    """A probe in slot 0, which must be free and is wiped afterwards."""
    try:
        yield Probe(model, vocabulary_size=vocabulary_size)
    finally:
        model.cache.wipe(0)


def same(logits: Tensor, expected: Sequence[Tensor]) -> bool:
    """Whether each row has the bits that it should have."""
    return len(logits) == len(expected) and all(map(torch.equal, logits, expected))
