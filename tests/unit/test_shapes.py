"""Row counts of steps: the least that holds the rows, of the kind that the step is."""

from __future__ import annotations

import pytest

from target_server.shapes import STEPS_UP, Shapes, candidates, canonical

SHAPES = Shapes(decode=(8, 16, 24, 64), prefill=(16, 32, 64, 128))


@pytest.mark.parametrize(
    ("decode_rows", "prefill_rows", "total"),
    [
        (1, 0, 8),
        (8, 0, 8),
        (9, 0, 16),
        (25, 0, 64),
        (65, 0, None),
        (0, 1, 16),
        (0, 17, 32),
        (0, 128, 128),
        (0, 129, None),
        (1, 1, 16),
        (8, 8, 16),
        (8, 9, 64),
        (32, 32, 64),
        (1, 64, None),
    ],
)
def test_least_count_that_holds_the_rows(decode_rows: int, prefill_rows: int, total: int | None) -> None:
    assert SHAPES.total(decode_rows=decode_rows, prefill_rows=prefill_rows) == total


def test_counts_of_both_kinds_may_be_mixed() -> None:
    assert SHAPES.shared == (16, 64)
    assert canonical(decode_rows=8, prefill_rows=64).shared == ()
    assert canonical(decode_rows=64, prefill_rows=64).shared == (64,)


def test_canonical_shapes_hold_one_tile_and_one_chunk_each_by_itself() -> None:
    shapes = canonical(decode_rows=8, prefill_rows=64)
    assert [shapes.total(decode_rows=rows, prefill_rows=0) for rows in (1, 8, 9)] == [8, 8, None]
    assert [shapes.total(decode_rows=0, prefill_rows=rows) for rows in (1, 64, 65)] == [64, 64, None]
    assert shapes.total(decode_rows=1, prefill_rows=1) is None


def test_candidates_are_within_bounds_ascending_and_each_once() -> None:
    assert candidates(least=2, most=32) == (2, 4, 8, 16, 24, 32)
    assert candidates(least=1, most=8, always=(5, 8, 100)) == (1, 2, 4, 5, 8, 100)
    assert candidates(least=33, most=39) == ()
    assert candidates(least=1, most=10**6) == STEPS_UP
