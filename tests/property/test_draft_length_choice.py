"""The choice of a draft's length, against all the others that could have been made."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from drafter_records import draft_of, go_round, record, verdict_on
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from decoding.draft_length import DraftLength
from decoding.drafter_record import DrafterRecord

CONFIDENCES = st.lists(st.floats(0, 1), max_size=12)
STEPS = st.lists(st.tuples(st.integers(1, 13), st.integers(1, 10**6)), max_size=20)
ROUNDS = st.lists(st.tuples(CONFIDENCES, st.integers(0, 12)), max_size=30)


@st.composite
def records(draw: st.DrawFn) -> DrafterRecord:
    """A record with a past."""
    made = record(steps=draw(STEPS), trip_us=draw(st.integers(0, 10**6)))
    length = DraftLength(made)
    for confidences, accepted in draw(ROUNDS):
        go_round(length, confidences, accepted, limit=12)
    return made


def rate(earned: tuple[float, float], tokens: float, us: float) -> float:
    return (earned[0] + tokens) / (earned[1] + us)


@settings(max_examples=200, deadline=None)
@given(made=records(), confidences=CONFIDENCES, draft_us=st.integers(0, 10**5))
def test_no_other_length_has_a_better_expected_rate(
    made: DrafterRecord, confidences: list[float], draft_us: int
) -> None:
    earned = (made.earned.part, made.earned.whole)
    chances = [made.calibration.chance(place, stated) for place, stated in enumerate(confidences)]
    rates = []
    for length in range(len(confidences) + 1):
        tokens = 1 + sum(math.prod(chances[: place + 1]) for place in range(length))
        us = made.timings.round_trip_us + draft_us + made.timings.step_us(length + 1)
        rates.append(rate(earned, tokens, us))
    chosen = len(DraftLength(made).cut(draft_of(confidences), limit=12, draft_us=draft_us).tokens)
    assert rates[chosen] >= max(rates) * (1 - 1e-9)


@settings(max_examples=200, deadline=None)
@given(made=records(), most=st.integers(1, 40))
def test_the_target_runs_alone_where_no_draft_pays_and_else_no_other_limit_drafts_better(
    made: DrafterRecord, most: int
) -> None:
    length = DraftLength(made)
    earned = (made.earned.part, made.earned.whole)
    trip, step_us = made.timings.round_trip_us, made.timings.step_us
    with_rows, drafting = [rate(earned, 1, trip / length.run_tokens + step_us(1))], []
    for limit in range(1, most + 1):
        places = [made.place(index) for index in range(limit)]
        tokens = 1 + sum(place.accepted for place in places)
        us = trip + step_us(1) + made.guess_us * (1 + sum(place.proposed for place in places))
        drafting.append(rate(earned, tokens, us))
        us += sum(place.sent * (step_us(rows + 1) - step_us(rows)) for rows, place in enumerate(places, 1))
        with_rows.append(rate(earned, tokens, us))
    chosen = length.limit(most)
    if chosen == 0:
        assert with_rows[0] >= max(with_rows) * (1 - 1e-9)
    else:
        assert max(with_rows) >= with_rows[0]
        assert drafting[chosen - 1] >= max(drafting) * (1 - 1e-9)


@settings(max_examples=100, deadline=None)
@given(made=records())
def test_a_place_is_reached_at_most_as_often_as_the_ones_that_lead_there(made: DrafterRecord) -> None:
    places = [made.place(index) for index in range(12)]
    assert all(0 <= place.accepted <= place.sent <= place.proposed <= 1 for place in places)


@settings(max_examples=100, deadline=None)
@given(
    confidences=st.lists(st.floats(0, 0.05), min_size=1, max_size=12),
    base=st.integers(1_000, 10**5),
    trip=st.integers(0, 1000),
)
def test_nothing_is_drafted_where_rows_cost_as_much_as_steps(confidences: list[float], base: int, trip: int) -> None:
    made = record(steps=[(1, base), (13, 13 * base)], trip_us=trip)
    assert not DraftLength(made).cut(draft_of(confidences), limit=12, draft_us=0).tokens


@dataclass(frozen=True)
class World:
    """What drafting is really like: kinds of drafts, by the chance of each token to be taken, and linear costs."""

    kinds: Sequence[Sequence[float]]
    base_us: int
    row_us: int
    trip_us: int

    def us(self, rows: int) -> int:
        return self.base_us + rows * self.row_us

    def earned(self, kind: Sequence[float], length: int) -> tuple[float, float]:
        """Expected tokens and time of a round."""
        tokens = 1 + sum(math.prod(kind[: place + 1]) for place in range(length))
        return tokens, self.us(length + 1) + self.trip_us


WORLDS = st.builds(
    World,
    kinds=st.lists(st.lists(st.floats(0.05, 0.99), min_size=7, max_size=7), min_size=1, max_size=4),
    base_us=st.integers(10_000, 60_000),
    row_us=st.integers(0, 20_000),
    trip_us=st.integers(0, 20_000),
)


def long_run(world: World, rounds: int, chance: Random, choose: Callable[[Sequence[float]], int]) -> float:
    tokens = us = 0.0
    for _ in range(rounds):
        kind = chance.choice(world.kinds)
        earned = world.earned(kind, choose(kind))
        tokens, us = tokens + earned[0], us + earned[1]
    return tokens / us


# Statistical, so a smaller failing case says no more.
@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(world=WORLDS, seed=st.integers(0, 10**6))
def test_in_the_long_run_no_fixed_length_and_no_fixed_confidence_does_better(world: World, seed: int) -> None:
    made = record(trip_us=world.trip_us, steps=[(rows, world.us(rows)) for rows in range(1, 9)])
    outcomes = Random(seed + 1)  # noqa: S311 - reproducible, not secret

    def by_choice(kind: Sequence[float]) -> int:
        length = DraftLength(made)
        sent = length.cut(draft_of(kind), limit=7, draft_us=0)
        count, accepted = len(sent.tokens), 0
        while accepted < count and outcomes.random() < kind[accepted]:
            accepted += 1
        verdict = verdict_on(count, accepted, verify_us=world.us(count + 1))
        length.judged(verdict, wait_us=world.us(count + 1) + world.trip_us, answered=True, timed=True)
        return count

    def surer_than(least: float) -> Callable[[Sequence[float]], int]:
        return lambda kind: next((place for place, stated in enumerate(kind) if stated < least), len(kind))

    rivals: list[Callable[[Sequence[float]], int]] = [lambda _kind, fixed=fixed: fixed for fixed in range(8)]  # type: ignore[misc]
    rivals += [surer_than(least / 10) for least in range(11)]
    rounds = 1500
    chosen, *others = (long_run(world, rounds, Random(seed), choose) for choose in (by_choice, *rivals))  # noqa: S311
    assert chosen >= 0.97 * max(others)  # it learns the chances from noise
