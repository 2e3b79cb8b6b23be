"""Which slot holds which beginning of a prompt, so that the next request need not compute it again. Pure bookkeeping.

Only whole chunks computed in prefill steps count, each at a multiple of the chunk's rows: so what is reused is bit for
bit what the request would have computed by itself. What decode steps cached is never reused. Least recently used
beginnings go first. Knows nothing of tensors.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from decoding.errors import ContractViolation

Chunk = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A slot for a request.

    tokens: of its prompt that stand in the slot already, or in `source`, from where they must be copied first.
    """

    slot: int
    source: int | None
    tokens: int


class Prefixes:
    """Hands out slots, with what they hold. `retain`: whether a slot's chunks outlive its sequence."""

    def __init__(self, slots: int, *, chunk_rows: int, retain: bool) -> None:
        self._rows = chunk_rows
        self._retain = retain
        self._held: list[list[Chunk]] = [[] for _ in range(slots)]
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(slots))  # least recently used first

    @property
    def free(self) -> int:
        return len(self._free)

    def claim(self, prompt: tuple[int, ...]) -> Claim:
        """A free slot for a prompt, and as much of its beginning as any slot holds.

        All but the last token may be taken over: that one is decoded. Raises ContractViolation where no slot is free.
        """
        if not self._free:
            raise ContractViolation("more sequences than slots")
        chunks = self._chunks(prompt[:-1])
        best, count = None, 0
        for slot, held in enumerate(self._held):
            same = _common(held, chunks)
            # Of equals a free slot is better: it needs no copy.
            if same > count or (same and same == count and slot in self._free and best not in self._free):
                best, count = slot, same
        if best is not None and best in self._free and 2 * count >= len(self._held[best]):
            slot, source = best, None
        else:  # taking it over would lose more of another prompt than it saves
            slot = next((free for free in self._free if free != best), next(iter(self._free)))
            source = best if best != slot else None
        del self._free[slot]
        if source is not None and source in self._free:
            self._free.move_to_end(source)  # used just now
        self._held[slot] = list(chunks[:count])
        return Claim(slot=slot, source=source, tokens=count * self._rows)

    def filled(self, slot: int, start: int, tokens: Chunk) -> None:
        """Note a chunk that a prefill step has cached; one that isn't whole is of no use to others."""
        if len(tokens) == self._rows and start == self._rows * len(self._held[slot]):
            self._held[slot].append(tokens)

    def release(self, slot: int, *, sound: bool) -> None:
        """Give a slot back. `sound` False: what it holds must not be used again."""
        if not (self._retain and sound):
            self._held[slot] = []
        self._free[slot] = None
        if not self._held[slot]:
            self._free.move_to_end(slot, last=False)

    def _chunks(self, tokens: Chunk) -> list[Chunk]:
        whole = len(tokens) // self._rows * self._rows
        return [tokens[start : start + self._rows] for start in range(0, whole, self._rows)]


def _common(held: list[Chunk], chunks: list[Chunk]) -> int:
    count = 0
    for mine, theirs in zip(held, chunks, strict=False):
        if mine != theirs:
            break
        count += 1
    return count
