"""Attention over the engine's own KV cache, as a plug-in for transformers' attention interface.

A forward pass carries one `Pass` in its keyword arguments down to every attention layer. transformers builds no mask
for an implementation it doesn't know, so masks are made here, from positions. What this module can't compute exactly
(score caps, attention sinks, biases) is refused, never ignored.

Why a row's bits don't depend on the padded length: the CPU kernel walks keys in blocks of KEY_BLOCK and in order; a
block that is masked altogether adds exact zeros. So lengths are multiples of KEY_BLOCK, or the whole slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from target_server.errors import UnsupportedModel
from target_server.kv_cache import KVCache

IMPLEMENTATION = "slipstream"
KEY_BLOCK = 512

# Keyword arguments that change nothing in what is computed here.
HARMLESS = frozenset(
    {
        "cache_position",
        "dropout",
        "is_causal",
        "output_attentions",
        "output_router_logits",
        "position_ids",
        "use_cache",
    }
)


class Pass(Protocol):
    """One forward pass, seen from an attention layer."""

    def attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, *, scale: float | None, window: int | None
    ) -> Tensor:
        """Attention of [1, head, row, dimension] queries; keys and values are the rows' own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Rows `first` to `last` of a pass: consecutive positions of one slot, from `start`.

    query_rows: that attention runs over, `last - first` or more, so that its own shape is the same whatever the span's.
    length: positions that it reads, padding included.
    """

    slot: int
    start: int
    first: int
    last: int
    query_rows: int
    length: int


class CachedPass:
    """A pass of spans: writes all their keys and values, then each attends to what its slot holds up to itself.

    Rows of no span are padding, and come out as zeros.
    """

    def __init__(self, cache: KVCache, spans: Sequence[Span]) -> None:
        self._cache = cache
        self._spans = spans
        self._masks: dict[tuple[int, int | None], Tensor] = {}
        self._totals: list[Tensor] = []

    def attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, *, scale: float | None, window: int | None
    ) -> Tensor:
        for span in self._spans:
            rows = slice(span.first, span.last)
            self._cache.write(layer, span.slot, span.start, key[:, :, rows], value[:, :, rows])
        if layer == self._cache.layers - 1:
            # Whatever isn't finite earlier on reaches the last layer's values: hidden states carry it along.
            self._totals = [value[:, :, span.first : span.last].sum(dtype=torch.float32) for span in self._spans]
        if len(self._spans) == 1 and self._spans[0].last == query.shape[2]:
            return self._attend(0, self._spans[0], layer, query, scale=scale, window=window)
        attended = query.new_zeros(*query.shape[:3], value.shape[-1])
        for index, span in enumerate(self._spans):
            rows = slice(span.first, span.last)
            attended[:, :, rows] = self._attend(index, span, layer, query[:, :, rows], scale=scale, window=window)
        return attended

    def finite(self) -> list[bool]:
        """Of each span, whether what was cached of it is numbers; to be asked after the pass."""
        return torch.isfinite(torch.stack(self._totals)).tolist()

    def _attend(
        self, index: int, span: Span, layer: int, query: Tensor, *, scale: float | None, window: int | None
    ) -> Tensor:
        rows = query.shape[2]
        if rows < span.query_rows:
            query = functional.pad(query, (0, 0, 0, span.query_rows - rows))
        keys, values = self._cache.read(layer, span.slot, span.length)
        mask = self._masks.get((index, window))
        if mask is None:  # one a pass, span and window, shared by the layers
            mask = mask_for(query, start=span.start, length=span.length, window=window)
            mask = self._masks[index, window] = mask.repeat(1, 1, query.shape[1] // keys.shape[1], 1)
        return grouped_attention(query, keys, values, mask, scale=scale)[:, :, :rows]


def grouped_attention(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, *, scale: float | None) -> Tensor:
    """Attention in which the query heads of a key head are further rows of it, so that its keys are read once.

    query: [sequence, head, row, dimension], as is the answer; keys and values have as many heads or fewer. Heads that
    share a key head follow one another, as they do in transformers.
    mask: [sequence or 1, 1, row of the group, position], the rows' own repeated for each head of the group.
    """
    sequences, heads, rows, _ = query.shape
    group = heads // keys.shape[1]
    if group == 1:
        return functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask, scale=scale)
    attended = functional.scaled_dot_product_attention(
        query.reshape(sequences, keys.shape[1], group * rows, -1),
        keys,
        values,
        attn_mask=mask,
        scale=scale,
    )
    return attended.reshape(sequences, heads, rows, -1)


def mask_for(query: Tensor, *, start: int, length: int, window: int | None) -> Tensor:
    """[1, 1, row, position] of the query's dtype: 0 where the row at position start + r may look, -inf where not.

    A row sees itself and what is before it, `window` positions in all where one is given.
    """
    rows = torch.arange(start, start + query.shape[2], device=query.device)[:, None]
    positions = torch.arange(length, device=query.device)[None, :]
    hidden = positions > rows
    if window is not None:
        hidden |= positions <= rows - window
    mask = torch.zeros(hidden.shape, dtype=query.dtype, device=query.device)
    return mask.masked_fill_(hidden, float("-inf"))[None, None]


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    slipstream: Pass,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """What transformers calls in each layer; answers [1, row, head, dimension]."""
    unknown = sorted(name for name, given in others.items() if name not in HARMLESS and given is not None)
    if attention_mask is not None or unknown:
        raise UnsupportedModel(
            type(module).__name__, f"its attention also takes {', '.join(unknown) or 'a mask of its own'}"
        )
    layer = getattr(module, "layer_idx", None)
    if not isinstance(layer, int):
        raise UnsupportedModel(type(module).__name__, "its attention layers have no index")
    attended = slipstream.attend(layer, query, key, value, scale=scaling, window=sliding_window)
    return attended.transpose(1, 2).contiguous(), None


def register() -> None:
    """Make the implementation known to transformers; doing it twice does no harm."""
    ALL_ATTENTION_FUNCTIONS.register(IMPLEMENTATION, _attend)
