"""The choice of a thread count, over made-up times."""

from __future__ import annotations

import pytest

from target_server.thread_count import ROUNDS, choose_threads


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
