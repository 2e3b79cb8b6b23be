"""How many threads a step is fastest with, from measurements by turns. Pure: what measures is passed in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

ROUNDS = 5
WORTH = 0.05  # of a step's time, that further threads must save


def choose_threads(measure: Callable[[int], float], candidates: Iterable[int]) -> int:
    """The fewest threads whose best time is about the least of all.

    measure: runs a step with so many threads and answers its time. Its first answer for each count is thrown away,
        since threads start in it; the least of the others counts, since other programs can only add to it.
    candidates: one or more counts.
    """
    counts = sorted(set(candidates))
    for count in counts:
        measure(count)
    best = dict.fromkeys(counts, float("inf"))
    for _ in range(ROUNDS):
        for count in counts:
            best[count] = min(best[count], measure(count))
    enough = min(best.values()) / (1 - WORTH)
    return next(count for count in counts if best[count] <= enough)


def usable_threads(environ: Mapping[str, str], cores: int | None) -> int:
    """What the user's OMP_NUM_THREADS says, else one a core; 1 or more."""
    stated = environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return max(1, int(stated) if stated.isdecimal() else cores or 1)
