"""Decode steps of a fixed shape: so many sequences' blocks, whose inputs lie in one buffer on the device.

Nothing in such a step depends on a number that the host knows, so that CUDA can record its kernels once and replay
them, which saves launching hundreds of them a step. Recorded steps are used only where they gave the very bits of the
model's other steps; where recording fails, or a bit differs, none is used. Knows nothing of requests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import structlog
import torch
from torch import Tensor
from torch.nn import functional

from decoding.traces import trace
from target_server.kv_cache import KVCache
from target_server.model import PADDING, Model
from target_server.steps import Outcome, Segment

log = structlog.get_logger()

LADDER = (1, 2, 4, 8, 16, 32)
WARMING = 3  # runs before a recording, in which libraries choose kernels and allocate workspaces


class Computed(NamedTuple):
    """logits: [row, vocabulary]; finite: [sequence], whether what was cached and the logits are numbers."""

    logits: Tensor
    finite: Tensor


Compute: TypeAlias = Callable[[], Computed]
Capture: TypeAlias = Callable[[Compute], Compute]


class TiledPass:
    """A pass of equally long blocks, one a sequence; `slots` and `starts` are tensors on the device.

    All rows are written to the cache, padding included: what lies beyond a block's tokens is stale. Equal places must
    get equal rows.
    """

    def __init__(self, cache: KVCache, slots: Tensor, starts: Tensor, *, block_rows: int) -> None:
        self._cache = cache
        self._slots = slots
        self._places = starts[:, None] + torch.arange(block_rows, device=starts.device)
        self._masks: dict[int | None, Tensor] = {}
        self.finite = torch.ones_like(slots, dtype=torch.bool)

    def attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, *, scale: float | None, window: int | None
    ) -> Tensor:
        sequences, block_rows = self._places.shape
        self._cache.write_rows(layer, self._slots.repeat_interleave(block_rows), self._places.flatten(), key, value)
        if layer == self._cache.layers - 1:  # whatever isn't finite earlier on reaches the last layer's values
            self.finite = torch.isfinite(_by_sequence(value, sequences)).flatten(1).all(1)
        keys, values = self._cache.gather(layer, self._slots)
        mask = self._masks.get(window)
        if mask is None:
            mask = self._masks[window] = self._mask(query.dtype, window)
        attended = functional.scaled_dot_product_attention(
            _by_sequence(query, sequences),
            keys,
            values,
            attn_mask=mask,
            scale=scale,
            enable_gqa=query.shape[1] != keys.shape[1],
        )
        return attended.transpose(0, 1).flatten(1, 2)[None]

    def _mask(self, dtype: torch.dtype, window: int | None) -> Tensor:
        """[sequence, 1, row, position]: 0 where a row may look, -inf where not, as `attention.mask_for` has it."""
        rows = self._places[:, :, None]
        positions = torch.arange(self._cache.capacity, device=rows.device)
        hidden = positions > rows
        if window is not None:
            hidden |= positions <= rows - window
        mask = torch.zeros(hidden.shape, dtype=dtype, device=rows.device)
        return mask.masked_fill_(hidden, float("-inf"))[:, None]


def _by_sequence(rows: Tensor, sequences: int) -> Tensor:
    """[1, head, row, dimension] -> [sequence, head, row of the block, dimension]"""
    _, heads, count, dimensions = rows.shape
    return rows.reshape(heads, sequences, count // sequences, dimensions).transpose(0, 1)


class Tile:
    """The step of `sequences` blocks. Short blocks are padded; places left over repeat the first block.

    capture: makes of the step's computation what runs it each time. `recorded` on CUDA, `as_it_is` anywhere.
    """

    def __init__(self, model: Model, *, sequences: int, capture: Capture) -> None:
        self._model = model
        self._sequences = sequences
        rows = sequences * model.shape.block_rows
        self._inputs = torch.zeros(2 * (rows + sequences), dtype=torch.int64, device=model.device)
        self._parts = torch.split_with_sizes(self._inputs, [rows, rows, sequences, sequences])
        self._compute = capture(self._computation)

    @torch.inference_mode()
    def run(self, segments: Sequence[Segment]) -> list[Outcome]:
        """Outcomes of at most `sequences` blocks, each of another slot."""
        block_rows, last = self._model.shape.block_rows, self._model.shape.context_tokens - 1
        blocks = [*segments, *[segments[0]] * (self._sequences - len(segments))]
        tokens: list[int] = []
        positions: list[int] = []
        for block in blocks:
            tokens += (*block.tokens, *[PADDING] * (block_rows - len(block.tokens)))
            positions += (min(position, last) for position in range(block.start, block.start + block_rows))
        slots, starts = [block.slot for block in blocks], [block.start for block in blocks]
        self._inputs.copy_(torch.tensor([*tokens, *positions, *slots, *starts]))  # one transfer to the device
        computed = self._compute()
        logits = computed.logits.clone()  # the next replay writes where these lie
        return [
            Outcome(logits=logits[place * block_rows :][: len(segment.tokens)], finite=finite)
            for place, (segment, finite) in enumerate(zip(segments, computed.finite.tolist(), strict=False))
        ]

    @torch.inference_mode()
    def _computation(self) -> Computed:
        tokens, positions, slots, starts = self._parts
        run = TiledPass(self._model.cache, slots, starts, block_rows=self._model.shape.block_rows)
        logits = self._model.logits(tokens[None], positions[None], run)
        sound = torch.isfinite(logits.reshape(self._sequences, -1)).all(1)
        return Computed(logits, run.finite & sound)


class Tiles:
    """Tiles of several sizes; a step goes to the least that holds it."""

    def __init__(self, tiles: dict[int, Tile]) -> None:
        self._tiles = tiles

    def run(self, segments: Sequence[Segment]) -> list[Outcome] | None:
        """Outcomes of the step; None where it isn't one of blocks only, each of another slot, or no tile holds it."""
        if any(segment.prefill for segment in segments) or len({segment.slot for segment in segments}) < len(segments):
            return None
        for sequences in sorted(self._tiles):
            if sequences >= len(segments) > 0:
                return self._tiles[sequences].run(segments)
        return None


def as_it_is(compute: Compute) -> Compute:
    """Runs the computation anew each time."""
    return compute


def recorded(compute: Compute) -> Compute:
    """Records the computation as a CUDA graph; what it answers lies in the same memory each time."""
    aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(WARMING):
            compute()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    here = torch.cuda.stream(torch.cuda.current_stream())  # comes back even where the recording fails on its way out
    with here, torch.cuda.graph(graph):
        computed = compute()

    def replay() -> Computed:
        graph.replay()
        return computed

    return replay


def tiles_for(model: Model, *, vocabulary_size: int, capture: Capture) -> Tiles | None:
    """A tile for each size whose rows are among the model's; None where one of them differs in a bit from other steps.

    Takes all slots, which must be free and are wiped afterwards. Raises whatever recording raises.
    """
    block_rows = model.shape.block_rows
    sizes = [size for size in LADDER if size <= model.shape.slots and size * block_rows in model.shapes.decode]
    try:
        tiles = {size: Tile(model, sequences=size, capture=capture) for size in sizes}
        agree = [_agrees(model, tile, size, vocabulary_size=vocabulary_size) for size, tile in tiles.items()]
    finally:
        for slot in range(model.shape.slots):
            model.cache.wipe(slot)
    return Tiles(tiles) if tiles and all(agree) else None


def record_decoding(model: Model, *, vocabulary_size: int) -> None:
    """On CUDA, have decode steps replayed where that changes no bit; elsewhere, or where it can't be, do nothing."""
    if model.device.type != "cuda":
        return
    try:
        with torch.cuda.device(model.device):
            tiles = tiles_for(model, vocabulary_size=vocabulary_size, capture=recorded)
    except Exception as error:  # whatever a driver or a model's own code may not bear: steps go on as they are
        log.warning("decode steps are not replayed from CUDA graphs", reason=trace(error))
        return
    if tiles is None:
        log.warning("decode steps are not replayed from CUDA graphs", reason="their bits differ, or no shape fits")
    model.shortcut = tiles


def _agrees(model: Model, tile: Tile, size: int, *, vocabulary_size: int) -> bool:
    """Whether a full tile, and one with places left over, give and cache what the model's step does, bit for bit."""
    generator = torch.Generator().manual_seed(size)
    model.cache.scramble(0, generator)
    for slot in range(1, size):
        model.cache.copy(0, slot, model.cache.capacity)
    block_rows = model.shape.block_rows
    furthest = model.shape.context_tokens - block_rows
    for count in sorted({size, max(1, size - 1)}):
        segments = [
            Segment(
                slot=slot,
                start=furthest * (slot + 1) // (size + 1),
                tokens=tuple(torch.randint(vocabulary_size, (block_rows - slot % 2,), generator=generator).tolist()),
                prefill=False,
            )
            for slot in range(count)
        ]
        rows = sum(len(segment.tokens) for segment in segments)
        total = model.shapes.total(decode_rows=rows, prefill_rows=0)
        if total is None:
            return False
        found, cached = tile.run(segments), _cached(model, segments)
        expected = model.step(segments, total=total)
        if not all(map(torch.equal, cached, _cached(model, segments))):
            return False
        for one, other in zip(found, expected, strict=True):
            if one.logits is None or other.logits is None or not torch.equal(one.logits, other.logits):
                return False
    return True


def _cached(model: Model, segments: Sequence[Segment]) -> list[Tensor]:
    return [
        stored
        for segment in segments
        for stored in model.cache.snapshot(segment.slot, segment.start + len(segment.tokens))
    ]
