"""Which of the waiting work makes up the next step. Pure: time comes in, nothing is run; knows nothing of models.

Blocks to decode go first, those of users who have seen no token yet ahead of others. Chunks of prompts fill the step
up as far as the blocks' latency budget allows. Neither starves the other: where a chunk would break the budget, steps
with and without one alternate. Among equals the client that was served least goes first, then who waits longest.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from target_server.shapes import Shapes

CLIENTS_KEPT = 1024
SMOOTHING = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """What one sequence waits for: rows of one block, or of each chunk that is left of its prompt, in order.

    client: whose it is. first: its user has seen no token of it yet. since: clock reading, seconds, from when on its
    user waits for it: of the request until there is a first token, of the block from then on.
    """

    client: str
    rows: tuple[int, ...]
    prefill: bool
    since: float
    first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One step. blocks: indices of wants. chunks: indices and how many chunks of each. total: rows of the step."""

    blocks: tuple[int, ...]
    chunks: tuple[tuple[int, int], ...]
    total: int


class StepCosts:
    """Running estimates of a step's milliseconds by its rows; a bounded number of them."""

    def __init__(self) -> None:
        self._usual: dict[int, float] = {}

    def record(self, total: int, milliseconds: float) -> None:
        usual = self._usual.get(total, milliseconds)
        self._usual[total] = usual + SMOOTHING * (milliseconds - usual)

    def estimate(self, total: int) -> float:
        """Of that count or of the nearest larger one known, but no more than in proportion to a smaller one.

        0 knowing none. By the smaller ones, a count that took long once is tried again, though it would break a budget.
        """
        larger = [rows for rows in self._usual if rows >= total]
        bounds = [milliseconds * total / rows for rows, milliseconds in self._usual.items() if rows < total]
        if larger:
            bounds.append(self._usual[min(larger)])
        return min(bounds, default=0.0)


class Shares:
    """How many rows of one kind clients have had, to be fair among those who want more. A bounded number of clients."""

    def __init__(self) -> None:
        self._had: OrderedDict[str, int] = OrderedDict()
        self._level = 0  # of the client with the least that wanted more last, and never less than before

    def __len__(self) -> int:
        return len(self._had)

    def admit(self, clients: Sequence[str]) -> None:
        """Those who want more now. One that comes anew, or again, starts where the one with the least stands.

        While it wanted nothing it isn't owed anything, nor does it owe what it had before others came.
        """
        known = [self._had[client] for client in clients if client in self._had]
        self._level = max(self._level, min(known, default=0))
        for client in clients:
            self._had[client] = max(self._had.get(client, 0), self._level)
            self._had.move_to_end(client)
        while len(self._had) > max(CLIENTS_KEPT, len(clients)):
            self._had.popitem(last=False)

    def had(self, client: str) -> int:
        return self._had[client]

    def give(self, client: str, rows: int) -> None:
        self._had[client] += rows


class Scheduler:
    """Plans steps; remembers what it planned, to be fair.

    shapes: asked anew for each step, since they are only known once the model has been tried.
    budget_ms: how much longer than without them chunks may let blocks wait.
    """

    def __init__(self, shapes: Callable[[], Shapes], *, budget_ms: float) -> None:
        self._shapes = shapes
        self._budget_ms = budget_ms
        self._costs = StepCosts()
        # Apart, or who had a long prompt would wait with each block until others have had as many rows.
        self._block_shares, self._chunk_shares = Shares(), Shares()
        self._prefilled_ms = 0.0  # since the last step with blocks
        self._left_out = False  # chunks waited and the last step took none

    def plan(self, wants: Sequence[Want], *, decoding: bool) -> Plan:
        """The next step for `wants`, of which there must be one. `decoding`: others than these may soon want blocks."""
        shapes = self._shapes()
        blocks = self._in_order(wants, self._block_shares, prefill=False)
        chunks = self._in_order(wants, self._chunk_shares, prefill=True)
        reserved, held_up = 0, bool(blocks)
        if blocks and chunks:
            block_rows, chunk_rows = wants[blocks[0]].rows[0], wants[chunks[0]].rows[0]
            if shapes.total(decode_rows=block_rows, prefill_rows=chunk_rows) is not None:
                reserved = chunk_rows if self._left_out else 0
            elif self._may_prefill(shapes, chunk_rows):
                blocks = []
            else:
                chunks = []
        taken, rows = self._take_blocks(shapes, wants, blocks, reserved=reserved)
        allowance = self._budget_ms if held_up or decoding else math.inf
        if held_up and not taken:
            allowance -= self._prefilled_ms  # the blocks wait for this step, as they did for those before it
        parts, chunk_rows = self._take_chunks(shapes, wants, chunks, rows, allowance_ms=allowance)
        self._left_out = bool(chunks) and not parts
        total = shapes.total(decode_rows=rows, prefill_rows=chunk_rows)
        if total is None:
            raise AssertionError("a step was planned that has no shape")
        for index in taken:
            self._block_shares.give(wants[index].client, wants[index].rows[0])
        for index, count in parts:
            self._chunk_shares.give(wants[index].client, sum(wants[index].rows[:count]))
        return Plan(blocks=tuple(taken), chunks=tuple(parts), total=total)

    def ran(self, plan: Plan, milliseconds: float) -> None:
        """Learn what a step took."""
        self._costs.record(plan.total, milliseconds)
        self._prefilled_ms = 0.0 if plan.blocks else self._prefilled_ms + milliseconds

    def _in_order(self, wants: Sequence[Want], shares: Shares, *, prefill: bool) -> list[int]:
        """The blocks, or the prompts, by who is to be served first."""
        places = [place for place, want in enumerate(wants) if want.prefill is prefill]
        shares.admit([wants[place].client for place in places])

        def turn(place: int) -> tuple[bool, int, float]:
            want = wants[place]
            return (not want.first, shares.had(want.client), want.since)

        return sorted(places, key=turn)

    def _may_prefill(self, shapes: Shapes, rows: int) -> bool:
        """Where a block and a chunk can't share a step: whether it is the chunks' turn."""
        if not self._prefilled_ms:
            return True
        total = shapes.total(decode_rows=0, prefill_rows=rows) or rows
        return self._prefilled_ms + self._costs.estimate(total) <= self._budget_ms

    def _take_blocks(
        self, shapes: Shapes, wants: Sequence[Want], blocks: list[int], *, reserved: int
    ) -> tuple[list[int], int]:
        """As many blocks as leave room for `reserved` rows of a chunk."""
        taken: list[int] = []
        rows = 0
        for index in blocks:
            if shapes.total(decode_rows=rows + wants[index].rows[0], prefill_rows=reserved) is None:
                break
            taken.append(index)
            rows += wants[index].rows[0]
        return taken, rows

    def _take_chunks(
        self, shapes: Shapes, wants: Sequence[Want], chunks: list[int], decode_rows: int, *, allowance_ms: float
    ) -> tuple[list[tuple[int, int]], int]:
        alone = shapes.total(decode_rows=decode_rows, prefill_rows=0) if decode_rows else None
        limit = (self._costs.estimate(alone) if alone else 0.0) + allowance_ms
        parts: list[tuple[int, int]] = []
        taken = 0
        for index in chunks:
            count = 0
            for rows in wants[index].rows:
                total = shapes.total(decode_rows=decode_rows, prefill_rows=taken + rows)
                overdue = not taken and (not decode_rows or self._left_out)
                if total is None or (self._costs.estimate(total) > limit and not overdue):
                    break
                count += 1
                taken += rows
            if count:
                parts.append((index, count))
            if count < len(wants[index].rows):
                break
        return parts, taken
