"""The scheduler in a toy world with a clock of its own: whatever comes in, steps are valid and nobody starves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from target_server.scheduler import Plan, Scheduler, Want
from target_server.shapes import Shapes, canonical

BLOCK_ROWS, CHUNK_ROWS = 8, 32
COUNTS = (2, 4, 8, 16, 24, 32, 48, 64)


def irregular(decode: set[int], prefill: set[int]) -> Shapes:
    """As a machine may have them, on which some counts agree only for blocks and others only for chunks."""
    return Shapes(decode=tuple(sorted(decode | {BLOCK_ROWS})), prefill=tuple(sorted(prefill | {CHUNK_ROWS})))


SHAPES = st.one_of(
    st.just(Shapes(decode=COUNTS, prefill=COUNTS)),
    st.just(canonical(decode_rows=BLOCK_ROWS, prefill_rows=CHUNK_ROWS)),
    st.just(canonical(decode_rows=4 * BLOCK_ROWS, prefill_rows=CHUNK_ROWS)),
    st.builds(irregular, st.sets(st.sampled_from(COUNTS)), st.sets(st.sampled_from(COUNTS))),
)


@dataclass(frozen=True)
class Costs:
    """Milliseconds of a step."""

    base: float
    row: float

    def of(self, total: int | None) -> float:
        return self.base + self.row * total if total else 0.0


COSTS = st.builds(Costs, base=st.sampled_from([1.0, 20.0]), row=st.sampled_from([0.0, 0.5, 2.0]))


@dataclass
class Request:
    """chunks, blocks: rows of each, in order. draft_ms: how long it stays away after each block."""

    client: str
    arrived: float
    chunks: list[int]
    blocks: list[int]
    draft_ms: float
    since: float = 0.0  # when what it wants now came up
    seen: bool = False
    passed: int = 0  # steps with blocks, since it has wanted to be in one

    @property
    def want(self) -> Want:
        return Want(
            client=self.client,
            rows=tuple(self.chunks) or (self.blocks[0],),
            prefill=bool(self.chunks),
            since=self.since if self.seen else self.arrived,
            first=not self.seen,
        )


REQUESTS = st.builds(
    lambda client, arrived, chunks, rest, blocks, draft_ms: Request(
        client, arrived, [CHUNK_ROWS] * chunks + [rest] * (rest > 0), blocks, draft_ms
    ),
    client=st.sampled_from("abc"),
    arrived=st.sampled_from([0.0, 0.0, 100.0, 700.0]),
    chunks=st.integers(0, 12),
    rest=st.integers(0, CHUNK_ROWS - 1),
    blocks=st.lists(st.sampled_from([4, 8]), min_size=1, max_size=25),
    draft_ms=st.sampled_from([0.0, 0.0, 1.0, 300.0]),
)


@dataclass
class World:
    shapes: Shapes
    costs: Costs
    budget_ms: float
    requests: list[Request]
    now: float = 0.0
    steps: list[tuple[list[Want], Plan]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(lambda: self.shapes, budget_ms=self.budget_ms)
        for total in sorted({*self.shapes.decode, *self.shapes.prefill}):
            self.scheduler.ran(Plan(blocks=(0,), chunks=(), total=total), self.costs.of(total))
        for request in self.requests:
            request.since = request.arrived

    def run(self) -> None:
        while self.requests:
            self.now = max(self.now, min(request.since for request in self.requests))
            ready = [request for request in self.requests if request.since <= self.now]
            away = any(request.seen for request in self.requests if request not in ready)
            wants = [request.want for request in ready]
            plan = self.scheduler.plan(wants, decoding=away)
            check_plan(plan, wants, self.shapes)
            self.steps.append((wants, plan))
            cost = self.costs.of(plan.total)
            self.scheduler.ran(plan, cost)
            self.now += cost
            self.apply(plan, ready)

    def apply(self, plan: Plan, ready: Sequence[Request]) -> None:
        for index, request in enumerate(ready):
            request.passed += bool(plan.blocks) and not request.chunks and index not in plan.blocks
        for index in plan.blocks:
            request = ready[index]
            assert request.passed <= 5 * len(ready) + 5, "others' blocks go on and on before this one"
            del request.blocks[0]
            request.seen, request.passed, request.since = True, 0, self.now + request.draft_ms
        for index, count in plan.chunks:
            request = ready[index]
            del request.chunks[:count]
            request.since = self.now
        self.requests = [request for request in self.requests if request.blocks]

    def least_of(self, wants: Sequence[Want], plan: Plan) -> float:
        """What the step of `plan` costs with its first chunk only."""
        decode_rows = sum(wants[index].rows[0] for index in plan.blocks)
        first = wants[plan.chunks[0][0]].rows[0]
        return self.costs.of(self.shapes.total(decode_rows=decode_rows, prefill_rows=first))


def check_plan(plan: Plan, wants: Sequence[Want], shapes: Shapes) -> None:
    indices = [*plan.blocks, *(index for index, _ in plan.chunks)]
    assert indices
    assert len(set(indices)) == len(indices)
    assert not any(wants[index].prefill for index in plan.blocks)
    for index, count in plan.chunks:
        assert wants[index].prefill
        assert 1 <= count <= len(wants[index].rows)
    decode_rows = sum(wants[index].rows[0] for index in plan.blocks)
    prefill_rows = sum(sum(wants[index].rows[:count]) for index, count in plan.chunks)
    allowed = set(shapes.decode) if plan.blocks else set(shapes.prefill)
    if plan.chunks:
        allowed &= set(shapes.prefill)
    assert plan.total == min(total for total in allowed if total >= decode_rows + prefill_rows)


WORLDS = st.builds(
    World,
    shapes=SHAPES,
    costs=COSTS,
    budget_ms=st.sampled_from([0.0, 25.0, 60.0, 150.0]),
    requests=st.lists(REQUESTS, min_size=1, max_size=8),
)


@given(world=WORLDS)
@settings(max_examples=150, deadline=None)
def test_steps_are_valid_and_everybody_is_served_to_the_end(world: World) -> None:
    """`check_plan` and `apply` do the checking."""
    owed = sum(len(request.chunks) + len(request.blocks) for request in world.requests)
    world.run()
    assert len(world.steps) <= owed


@given(world=WORLDS)
@settings(max_examples=150, deadline=None)
def test_chunks_wait_for_two_steps_at_most(world: World) -> None:
    """One that the budget leaves out, and one more where shapes make the steps go apart meanwhile."""
    world.run()
    passed = 0
    for wants, plan in world.steps:
        passed = passed + 1 if any(want.prefill for want in wants) and not plan.chunks else 0
        assert passed <= 2


@given(world=WORLDS)
@settings(max_examples=150, deadline=None)
def test_chunks_hold_up_blocks_by_the_budget_or_one_chunk_at_most(world: World) -> None:
    world.run()
    turn = 0.0  # steps of chunks alone since blocks began to wait
    for wants, plan in world.steps:
        cost = world.costs.of(plan.total)
        if plan.blocks:
            turn = 0.0
            alone = world.shapes.total(decode_rows=sum(wants[index].rows[0] for index in plan.blocks), prefill_rows=0)
            within = cost <= world.costs.of(alone) + world.budget_ms
            assert not plan.chunks or within or cost == world.least_of(wants, plan)
        elif not all(want.prefill for want in wants):
            turn += cost
            assert turn <= max(world.budget_ms, world.least_of(wants, plan))
