"""What a target takes: a step by its rows, and the way there and back; running medians. Knows no tokens and no clock.

A step of more rows is never taken for cheaper than one of fewer: medians that say so are pooled. Between row counts
that were seen the cost is interpolated, and beyond them it is that of the nearest, so that what was never tried looks
cheap enough to try. State: at most `samples` durations for each of `MOST_ROWS` row counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from statistics import median

MOST_ROWS = 256


class Timings:
    """Of one target, shared by all who decode there.

    samples: latest durations of a kind that count. step_us: a step's microseconds until one is measured.
    """

    def __init__(self, *, samples: int, step_us: int) -> None:
        self._samples = samples
        self._unmeasured_us = float(step_us)
        self._steps: dict[int, deque[int]] = {}
        self._trips: deque[int] = deque(maxlen=samples)
        self._fitted: tuple[list[int], list[float]] | None = None

    @property
    def round_trip_us(self) -> float:
        """What a round takes beside the target's own time; 0 until it is measured."""
        return median(self._trips) if self._trips else 0.0

    def add_step(self, rows: int, us: int) -> None:
        """Note a step of so many rows; what can't be one is left out."""
        if 1 <= rows <= MOST_ROWS and us > 0:
            self._steps.setdefault(rows, deque(maxlen=self._samples)).append(us)
            self._fitted = None

    def add_round_trip(self, us: int) -> None:
        self._trips.append(max(0, us))

    def step_us(self, rows: int) -> float:
        """Expected microseconds of a step; grows with the rows, or stays."""
        if not self._steps:
            return self._unmeasured_us
        if self._fitted is None:
            self._fitted = self._fit()
        known, costs = self._fitted
        place = bisect_left(known, rows)
        if place == len(known):
            return costs[-1]
        if place == 0 or known[place] == rows:
            return costs[place]
        share = (rows - known[place - 1]) / (known[place] - known[place - 1])
        return costs[place - 1] + share * (costs[place] - costs[place - 1])

    def _fit(self) -> tuple[list[int], list[float]]:
        """Row counts and their costs: the nearest to the medians, by samples, that doesn't fall anywhere."""
        known = sorted(self._steps)
        pools: list[tuple[float, int, int]] = []  # cost, samples, row counts
        for rows in known:
            cost, weight, width = float(median(self._steps[rows])), len(self._steps[rows]), 1
            while pools and pools[-1][0] > cost:
                other, others, wide = pools.pop()
                cost = (cost * weight + other * others) / (weight + others)
                weight, width = weight + others, width + wide
            pools.append((cost, weight, width))
        return known, [cost for cost, _, width in pools for _ in range(width)]
