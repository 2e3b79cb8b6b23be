"""The choice of a thread count, over made-up times."""

from __future__ import annotations

import pytest

from target_server.thread_count import ROUNDS, choose_threads, usable_threads


@pytest.mark.parametrize(
    ("times", "chosen"),
    [
        ({1: 50.0}, 1),
        ({1: 50.0, 2: 28.0}, 2),
        ({1: 50.0, 2: 49.0}, 1),  # a second core isn't worth so little
        ({1: 50.0, 2: 28.0, 4: 27.5, 8: 60.0}, 2),
        ({8: 10.0, 4: 20.0, 1: 70.0}, 8),
    ],
)
def test_the_fewest_threads_that_are_about_fastest(times: dict[int, float], chosen: int) -> None:
    assert choose_threads(times.__getitem__, times) == chosen


def test_first_steps_and_disturbed_ones_do_not_count() -> None:
    asked: list[int] = []

    def measure(threads: int) -> float:
        asked.append(threads)
        if asked.count(threads) == 1:
            return {1: 1.0, 2: 900.0}[threads]  # not yet started; or lucky, which counts no more
        disturbed = asked.count(threads) % 2 == 0
        return {1: 50.0, 2: 30.0}[threads] * (10 if disturbed else 1)

    assert choose_threads(measure, [1, 2, 2]) == 2
    assert asked == [1, 2] * (ROUNDS + 1)  # by turns


@pytest.mark.parametrize(
    ("stated", "cores", "usable"), [("3", 8, 3), ("4,2", 8, 4), ("", 8, 8), ("many", 8, 8), ("0", 8, 1), ("", None, 1)]
)
def test_as_many_threads_as_the_user_says_or_one_a_core(stated: str, cores: int | None, usable: int) -> None:
    assert usable_threads({"OMP_NUM_THREADS": stated}, cores) == usable
