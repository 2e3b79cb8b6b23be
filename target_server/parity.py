"""The check, made at every start, that this machine's arithmetic gives a token the same logits however it is verified.

Bits are compared, not rounded values: one unequal bit can turn a tie and change an output. What holds on one CPU need
not hold on the next, so the engine asks here before it serves; here it also learns which row counts agree, so that
steps may be as large as what they hold. A count that was not proven is not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from target_server.probe import Probe, same
from target_server.shapes import Shapes


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """What was found bitwise equal.

    rows: a token's logits, whatever its row in the block and in the step, and however long the block is.
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


def blocks_agree(probe: Probe) -> bool:
    """A first look, by a few steps: whether blocks of all lengths give the same logits."""
    return probe.same_lengths(probe.behind, probe.whole(probe.behind))


def check_parity(probe: Probe) -> Parity:
    """Try the model's present shapes, of which the first of each kind is the one that others are compared with.

    Blocks stand where the padded length of the keys grows from one of their rows to the next, and at the slot's end.
    """
    model = probe.model
    (decode, *_), (prefill, *_) = model.shapes.decode, model.shapes.prefill
    # From the front to the back: what is decoded in one place is what later ones attend to.
    cut, behind = probe.same_cut(prefill), probe.whole(probe.behind)
    mixed = decode != prefill or _mixed(probe, behind, decode)
    start, plain = probe.boundary, probe.alone(probe.boundary)
    rows = probe.same_lengths(start, plain) and probe.same_blocks(start, plain, decode)
    rejected = probe.same_after_rejection(start, plain)
    padded, model.pads_to_capacity = model.pads_to_capacity, True
    try:
        padding = same(model.decode(0, start, probe.block), plain)
    finally:
        model.pads_to_capacity = padded
    split = probe.same_splits(probe.end, probe.whole(probe.end), decode)
    return Parity(rows=rows and mixed and split, rejected=rejected, padding=padding, prefill=cut)


def agreeing(probe: Probe, tried: Shapes) -> Shapes:
    """Of the row counts tried, those whose steps give the same bits as the model's present ones, which stay among them.

    A count is tried with blocks of all lengths, which shows every place of it, and with chunks beside blocks; which
    warms it up, too. Where blocks don't agree, or weren't to be tried, it is left for chunks that fill it.
    """
    present, start = probe.model.shapes, probe.behind
    decode, prefill = set(present.decode), set(present.prefill)
    plain = probe.whole(start)
    for count in sorted({*tried.decode, *tried.prefill} - (decode & prefill)):
        if count in tried.decode and count not in decode and probe.same_blocks(start, plain, count):
            decode.add(count)
        if count in tried.prefill and count in decode:
            if _mixed(probe, plain, count):
                prefill.add(count)
            elif count in present.prefill:
                decode.discard(count)  # the one for chunks stays: no step may hold both
        elif count in tried.prefill and count <= start and probe.same_chunks(start, (), count):
            prefill.add(count)
    return Shapes(decode=tuple(sorted(decode)), prefill=tuple(sorted(prefill)))


def _mixed(probe: Probe, plain: Sequence[Tensor], count: int) -> bool:
    """Whether a step of chunks beside a few blocks shows no difference."""
    return probe.same_chunks(probe.behind, plain, count, blocks=min(len(probe.block), -(-count // 4), count - 1))
