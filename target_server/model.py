"""The model as the engine runs it: steps of blocks and chunks of several sequences over the KV cache. One thread's own.

A step's rows are packed densely and padded to one of the counts in `shapes`, which are those that give a row the same
bits; each sequence's attention has a shape of its own, the same whoever shares the step. So a token's logits depend on
the tokens before it alone: not on its row, the draft around it, the padding, or what other sequences do. `parity`
checks that on this machine.

It knows nothing of requests, sampling or asyncio.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from target_server.attention import KEY_BLOCK, CachedPass, Pass, Span
from target_server.kv_cache import KVCache, LayerShape
from target_server.shapes import Shapes, canonical
from target_server.steps import Outcome, Segment

PADDING = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepShape:
    """The rows of blocks and chunks, and the number and length of sequences they are for."""

    block_rows: int
    prefill_rows: int
    context_tokens: int
    slots: int


class Shortcut(Protocol):
    """Another way to the same outcomes, bit for bit."""

    def run(self, segments: Sequence[Segment]) -> list[Outcome] | None:
        """The outcomes of a step; None where it can't make this one."""


class Model:
    """A causal LM over a KV cache of its own.

    hf: a transformers causal LM in eval mode, and `layers` what `adoption` found in it.
    kv_cache_bytes: hard budget of the cache. Raises BudgetExceeded where it doesn't fit.
    """

    def __init__(self, hf: Any, layers: Sequence[LayerShape], *, shape: StepShape, kv_cache_bytes: int) -> None:
        self._hf = hf
        self._decoder = getattr(hf, hf.base_model_prefix)
        self._picks_rows = "logits_to_keep" in inspect.signature(hf.forward).parameters
        self.device: torch.device = hf.device
        self.shape = shape
        self.cache = KVCache(
            layers,
            slots=shape.slots,
            context_tokens=shape.context_tokens,
            block_rows=max(shape.block_rows, shape.prefill_rows),
            budget=kv_cache_bytes,
            dtype=hf.dtype,
            device=self.device,
        )
        self.pads_to_capacity = False
        self.pads_blocks = True
        self.shortcut: Shortcut | None = None
        self.shapes: Shapes = canonical(decode_rows=shape.block_rows, prefill_rows=shape.prefill_rows)

    @torch.inference_mode()
    def step(self, segments: Sequence[Segment], *, total: int) -> list[Outcome]:
        """Run blocks of at most `block_rows` tokens and chunks of at most `prefill_rows`, padded to `total` rows.

        Chunks of one prompt may follow one another in a step, in order. Answers an outcome for each segment.
        """
        if self.shortcut is not None and (outcomes := self.shortcut.run(segments)) is not None:
            return outcomes
        places = sorted(range(len(segments)), key=lambda place: segments[place].prefill)  # blocks first: one slice
        spans: list[Span] = []
        tokens: list[int] = []
        positions: list[int] = []
        for place in places:
            segment = segments[place]
            first, count = len(tokens), len(segment.tokens)
            block_rows = self.shape.block_rows if self.pads_blocks else count
            query_rows = self.shape.prefill_rows if segment.prefill else block_rows
            spans.append(
                Span(
                    slot=segment.slot,
                    start=segment.start,
                    first=first,
                    last=first + count,
                    query_rows=query_rows,
                    length=self._length(segment),
                )
            )
            tokens += segment.tokens
            # Checks go past the context's end, where learned positions end.
            positions += (
                min(position, self.shape.context_tokens - 1) for position in range(segment.start, segment.start + count)
            )
        padding = total - len(tokens)
        decode_rows = sum(len(segment.tokens) for segment in segments if not segment.prefill)
        run = CachedPass(self.cache, spans)
        logits = self._forward(
            torch.tensor([tokens + [PADDING] * padding], device=self.device),
            torch.tensor([positions + [0] * padding], device=self.device),
            run,
            decode_rows=decode_rows,
        )
        found: dict[int, Outcome] = {}
        for place, span, sound in zip(places, spans, run.finite(), strict=True):
            rows = None if logits is None or segments[place].prefill else logits[span.first : span.last]
            finite = sound and (rows is None or bool(torch.isfinite(rows.sum(dtype=torch.float32))))
            found[place] = Outcome(logits=rows, finite=finite)
        return [found[place] for place in range(len(segments))]

    def prefill(self, slot: int, start: int, tokens: Sequence[int]) -> Outcome:
        """A step of one chunk, as it runs alone."""
        segment = Segment(slot=slot, start=start, tokens=tuple(tokens), prefill=True)
        return self.step([segment], total=self._total(0, len(tokens)))[0]

    def decode(self, slot: int, start: int, tokens: Sequence[int]) -> Tensor:
        """The logits of a step of one block, as it runs alone: [tokens, vocabulary]."""
        segment = Segment(slot=slot, start=start, tokens=tuple(tokens), prefill=False)
        logits = self.step([segment], total=self._total(len(tokens), 0))[0].logits
        assert logits is not None  # noqa: S101 - of a block there are some
        return logits

    def logits(self, tokens: Tensor, positions: Tensor, run: Pass) -> Tensor:
        """[row, vocabulary] of all rows of a pass that was prepared elsewhere, as many as steps have that decode."""
        logits = self._forward(tokens, positions, run, decode_rows=tokens.shape[1])
        assert logits is not None  # noqa: S101 - there are rows to decode
        return logits

    def _total(self, decode_rows: int, prefill_rows: int) -> int:
        total = self.shapes.total(decode_rows=decode_rows, prefill_rows=prefill_rows)
        if total is None:
            raise ValueError(f"no step holds {decode_rows + prefill_rows} rows")
        return total

    def _forward(self, tokens: Tensor, positions: Tensor, run: Pass, *, decode_rows: int) -> Tensor | None:
        """Logits of the first rows, at least `decode_rows` of them; None where there are none to decode."""
        inputs = {"input_ids": tokens, "position_ids": positions, "use_cache": False, "slipstream": run}
        if not decode_rows:
            self._decoder(**inputs)
            return None
        total = tokens.shape[1]
        kept = self.shapes.total(decode_rows=decode_rows, prefill_rows=0) or total
        if self._picks_rows and kept < total:
            inputs["logits_to_keep"] = torch.arange(kept, device=self.device)
        logits: Tensor = self._hf(**inputs).logits
        return logits[0]

    def _length(self, segment: Segment) -> int:
        """Positions that a segment reads. A chunk's are always as many at the same start, so they need no padding."""
        if self.pads_to_capacity:
            return self.cache.capacity
        if segment.prefill:
            return segment.start + self.shape.prefill_rows
        blocks = -(-(segment.start + self.shape.block_rows) // KEY_BLOCK)
        return min(blocks * KEY_BLOCK, self.cache.capacity)
