"""What measurements come to: medians and their spread, ratios of pooled times, and the file they are written to."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import median, quantiles
from typing import Any

RESAMPLES = 2000


def spread(values: Sequence[float], digits: int = 3) -> list[float]:
    """Least, lower quartile, upper quartile, greatest."""
    low, _, high = quantiles(values, n=4) if len(values) > 1 else list(values) * 3
    return [round(value, digits) for value in (min(values), low, high, max(values))]


def middle(values: Sequence[float], digits: int = 3) -> dict[str, Any]:
    """The median, and its spread beside it."""
    return {"median": round(median(values), digits), "spread": spread(values, digits)}


def percentile(values: Sequence[float], percent: float) -> float:
    """The least value that so many percent of them don't exceed. Of at least one."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def pooled_ratio(pairs: Sequence[tuple[float, float]], *, random: Random) -> dict[str, Any]:
    """Sum of the firsts / sum of the seconds, with the interval that nine tenths of resampled pairs give."""

    def ratio(chosen: Sequence[tuple[float, float]]) -> float:
        return sum(first for first, _ in chosen) / sum(second for _, second in chosen)

    resampled = [ratio(random.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES)]
    interval = [round(percentile(resampled, percent), 4) for percent in (5, 95)]
    return {"ratio": round(ratio(pairs), 4), "interval_90": interval, "pairs": len(pairs)}


def write(path: Path, found: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=2) + "\n")
