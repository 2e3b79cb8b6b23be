"""The KV cache: keys and values of every open sequence, allocated once, a slot each. Knows nothing of requests.

A slot is written at consecutive positions. Every position up to the end of the step at hand has been written by that
step or by a verified token before it; what lies further on is stale and must be masked by whoever reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from target_server.errors import BudgetExceeded

ALIGNMENT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerShape:
    """What one attention layer stores for a token: `heads` keys and values of so many dimensions."""

    heads: int
    key_dimensions: int
    value_dimensions: int

    @property
    def elements(self) -> int:
        """Numbers a token takes in this layer."""
        return self.heads * (self.key_dimensions + self.value_dimensions)


def capacity_for(context_tokens: int, block_rows: int) -> int:
    """Positions a slot needs: a block that starts at the last one of the context must still fit, padding included."""
    return -(-(context_tokens + block_rows) // ALIGNMENT) * ALIGNMENT


def slots_within(budget: int, layers: Sequence[LayerShape], *, capacity: int, dtype: torch.dtype) -> int:
    """Slots that fit in so many bytes."""
    return budget // bytes_needed(layers, slots=1, capacity=capacity, dtype=dtype)


def bytes_needed(layers: Sequence[LayerShape], *, slots: int, capacity: int, dtype: torch.dtype) -> int:
    """Bytes of a cache of that size."""
    return slots * capacity * sum(layer.elements for layer in layers) * dtype.itemsize


class KVCache:
    """Keys and values as [slot, head, position, dimension] a layer. Owned by the device thread.

    Raises BudgetExceeded where `slots` of `context_tokens` don't fit in `budget` bytes.
    """

    def __init__(
        self,
        layers: Sequence[LayerShape],
        *,
        slots: int,
        context_tokens: int,
        block_rows: int,
        budget: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.slots = slots
        self.layers = len(layers)
        self.capacity = capacity_for(context_tokens, block_rows)
        self.bytes = bytes_needed(layers, slots=slots, capacity=self.capacity, dtype=dtype)
        if self.bytes > budget:
            raise BudgetExceeded(needed=self.bytes, budget=budget, sessions=slots, context_tokens=context_tokens)

        def allocate(heads: int, dimensions: int) -> Tensor:
            # Zeros, not empty memory: masked positions are multiplied by 0, and 0 times NaN is NaN.
            return torch.zeros(slots, heads, self.capacity, dimensions, dtype=dtype, device=device)

        self._keys = [allocate(layer.heads, layer.key_dimensions) for layer in layers]
        self._values = [allocate(layer.heads, layer.value_dimensions) for layer in layers]

    def write(self, layer: int, slot: int, start: int, keys: Tensor, values: Tensor) -> None:
        """Store [1, head, row, dimension] at positions start, start + 1, …"""
        end = start + keys.shape[2]
        self._keys[layer][slot, :, start:end] = keys[0]
        self._values[layer][slot, :, start:end] = values[0]

    def write_rows(self, layer: int, slots: Tensor, positions: Tensor, keys: Tensor, values: Tensor) -> None:
        """Store [1, head, row, dimension], each row at a slot and a position of its own."""
        self._keys[layer][slots, :, positions] = keys[0].transpose(0, 1)
        self._values[layer][slots, :, positions] = values[0].transpose(0, 1)

    def gather(self, layer: int, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Copies of whole slots, as [slot, head, position, dimension]."""
        return self._keys[layer].index_select(0, slots), self._values[layer].index_select(0, slots)

    def read(self, layer: int, slot: int, length: int) -> tuple[Tensor, Tensor]:
        """Views of the first `length` positions, as [1, head, position, dimension]."""
        return (
            self._keys[layer][slot : slot + 1, :, :length],
            self._values[layer][slot : slot + 1, :, :length],
        )

    def copy(self, source: int, slot: int, length: int) -> None:
        """Make the first `length` positions of a slot those of another."""
        for stored in (*self._keys, *self._values):
            stored[slot, :, :length] = stored[source, :, :length]

    def snapshot(self, slot: int, length: int) -> list[Tensor]:
        """Copies of what the first `length` positions hold, a tensor each for keys and values of every layer."""
        return [stored[slot, :, :length].clone() for stored in (*self._keys, *self._values)]

    def restore(self, slot: int, snapshot: Sequence[Tensor]) -> None:
        """Make the first positions of a slot what they were when the snapshot was taken."""
        for stored, kept in zip((*self._keys, *self._values), snapshot, strict=True):
            stored[slot, :, : kept.shape[1]] = kept

    def scramble(self, slot: int, generator: torch.Generator) -> None:
        """Fill a slot with standard normal numbers, for checks that want keys and values of no particular text."""
        for stored in (*self._keys, *self._values):
            stored[slot] = torch.randn(stored.shape[1:], generator=generator).to(stored)

    def wipe(self, slot: int) -> None:
        """Zero a slot that may hold NaN, so that its next owner can't catch it."""
        for stored in (*self._keys, *self._values):
            stored[slot].zero_()
