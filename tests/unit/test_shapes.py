"""Row counts of steps: the least that holds the rows, of the kind that the step is."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from target_server.shapes import LADDER, Shapes, canonical, climb, rungs

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


def test_rungs_are_those_that_a_step_may_have() -> None:
    assert rungs(32) == (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
    assert rungs(33) == rungs(39) == rungs(32)
    assert rungs(0) == ()
    assert rungs(10**6) == LADDER == tuple(sorted(set(LADDER)))


@given(counts=st.sets(st.integers(1, 150)), most=st.integers(1, 150))
def test_each_rung_takes_the_least_agreeing_count_before_the_next(counts: set[int], most: int) -> None:
    climbed = climb(counts.__contains__, most=most)
    assert set(climbed) <= counts
    assert list(climbed) == sorted(set(climbed))
    for rung, following in pairwise((*rungs(most), most + 1)):
        between = {count for count in counts if rung <= count < following}
        assert {count for count in climbed if rung <= count < following} == ({min(between)} if between else set())


def test_counts_that_agree_stand_in_for_rungs_that_do_not() -> None:
    assert climb(lambda count: count % 6 not in (1, 2), most=40) == (3, 4, 5, 6, 9, 10, 12, 16, 24, 33, 40)
