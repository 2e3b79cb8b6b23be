"""Confidences, corrected by what came of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding.calibration import PLACES, Calibration


def after(count: int, accepted: int, *, place: int = 0, confidence: float | None = 0.95) -> Calibration:
    """`accepted` of `count` tokens accepted, evenly spread."""
    made = Calibration(memory=256)
    for index in range(count):
        made.add(place, confidence, accepted=(index + 1) * accepted // count > index * accepted // count)
    return made


def test_at_first_the_drafter_is_believed() -> None:
    made = Calibration(memory=256)
    assert made.chance(0, 0.9) == pytest.approx(0.9)
    assert made.chance(5, 0.1) == pytest.approx(0.1)
    assert 0 < made.chance(0, None) < 1


def test_a_boaster_is_soon_found_out() -> None:
    assert after(40, 4).chance(0, 0.95) < 0.3
    assert after(400, 40).chance(0, 0.95) == pytest.approx(0.1, abs=0.03)


def test_one_that_is_too_modest_too() -> None:
    assert after(200, 190, confidence=0.25).chance(0, 0.25) > 0.85


def test_what_is_learned_at_a_confidence_says_nothing_of_others() -> None:
    assert after(200, 0).chance(0, 0.55) == pytest.approx(0.55)


def test_the_first_place_may_be_worse_than_the_others() -> None:
    made = Calibration(memory=256)
    for _ in range(100):
        made.add(0, 0.8, accepted=False)
        made.add(1, 0.8, accepted=True)
    assert made.chance(0, 0.8) < 0.2
    assert made.chance(1, 0.8) > 0.8


def test_what_was_long_ago_is_forgotten() -> None:
    made = after(2000, 0)
    for _ in range(1000):
        made.add(0, 0.95, accepted=True)
    assert made.chance(0, 0.95) > 0.9


def test_far_places_count_with_the_last() -> None:
    made = after(100, 0, place=PLACES + 30)
    assert made.chance(PLACES - 1, 0.95) == made.chance(10_000, 0.95) < 0.3


@given(
    st.lists(
        st.tuples(st.integers(0, 70), st.one_of(st.none(), st.floats(allow_nan=True)), st.booleans()), max_size=60
    ),
    st.integers(0, 70),
    st.one_of(st.none(), st.floats(allow_nan=True)),
)
def test_a_chance_is_one_whatever_a_drafter_says(
    seen: list[tuple[int, float | None, bool]], place: int, confidence: float | None
) -> None:
    made = Calibration(memory=16)
    for index, stated, accepted in seen:
        made.add(index, stated, accepted=accepted)
    assert 0 <= made.chance(place, confidence) <= 1
