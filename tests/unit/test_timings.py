"""What a step and a round trip are taken to cost."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from decoding.timings import MOST_ROWS, Timings


def timings(*steps: tuple[int, int], samples: int = 32) -> Timings:
    made = Timings(samples=samples, step_us=1000)
    for rows, us in steps:
        made.add_step(rows, us)
    return made


def test_nothing_measured_is_what_one_is_told() -> None:
    assert timings().step_us(1) == timings().step_us(9) == 1000
    assert timings().round_trip_us == 0


def test_between_row_counts_the_cost_is_interpolated_and_beyond_them_the_nearest() -> None:
    made = timings((2, 100), (6, 300))
    assert [made.step_us(rows) for rows in (1, 2, 3, 5, 6, 50)] == [100, 100, 150, 250, 300, 300]


def test_one_stall_does_not_count() -> None:
    assert timings(*[(4, 100)] * 5, (4, 90_000)).step_us(4) == 100


def test_the_latest_count() -> None:
    assert timings((1, 10), (1, 10), (1, 50), (1, 50), (1, 50), samples=3).step_us(1) == 50


def test_more_rows_that_seem_cheaper_are_pooled_by_their_samples() -> None:
    made = timings((1, 100), (4, 300), (8, 200), (8, 200), (16, 400))
    assert [made.step_us(rows) for rows in (1, 4, 8, 16)] == [100, 700 / 3, 700 / 3, 400]


def test_what_cannot_be_a_step_is_left_out() -> None:
    assert timings((0, 5), (MOST_ROWS + 1, 5), (3, 0), (3, -1)).step_us(3) == 1000


def test_a_round_trip_is_a_median_and_never_negative() -> None:
    made = timings()
    for us in (-500, 10, 20, 30, 9000):
        made.add_round_trip(us)
    assert made.round_trip_us == 20


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 10**6)), min_size=1, max_size=80))
def test_a_step_of_more_rows_never_costs_less(steps: list[tuple[int, int]]) -> None:
    made = timings(*steps, samples=8)
    costs = [made.step_us(rows) for rows in range(1, 60)]
    assert all(fewer <= more * (1 + 1e-12) for fewer, more in itertools.pairwise(costs))
    assert min(us for _, us in steps) <= costs[0]
    assert costs[-1] <= max(us for _, us in steps)
