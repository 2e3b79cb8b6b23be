"""Gathering: who is waited for, for how long at most, and who isn't."""

from __future__ import annotations

import pytest

from target_server.gathering import PATIENCE, Gathering

LONGEST = 0.008


@pytest.fixture
def gathering() -> Gathering:
    return Gathering(longest_s=LONGEST)


def rounds(gathering: Gathering, who: str, *absences: float, start: float = 0.0) -> float:
    """Answered and back again, so often; the clock reading at the end."""
    now = start
    for absence in absences:
        gathering.answered(who, now)
        now += absence
        gathering.returned(who, now)
    return now


def test_nobody_is_waited_for_where_nobody_is_away(gathering: Gathering) -> None:
    assert gathering.until(5.0) == 5.0
    assert not gathering.decoding


def test_one_of_unknown_habits_is_waited_for_up_to_the_bound(gathering: Gathering) -> None:
    gathering.answered("a", 5.0)
    assert gathering.decoding
    assert gathering.until(5.0) == pytest.approx(5.0 + LONGEST)
    assert gathering.until(5.0 + LONGEST / 2) == pytest.approx(5.0 + LONGEST)
    assert gathering.until(6.0) == 6.0  # it stays away: nobody waits any longer


def test_one_that_comes_back_soon_is_waited_for_by_its_habit(gathering: Gathering) -> None:
    now = rounds(gathering, "a", 0.001, 0.001, 0.001)
    gathering.answered("a", now)
    assert gathering.until(now) == pytest.approx(now + PATIENCE * 0.001)
    gathering.returned("a", now + 0.001)
    assert gathering.until(now + 0.001) == now + 0.001
    assert gathering.decoding  # it will want further blocks


def test_wait_is_bounded_whatever_the_habit(gathering: Gathering) -> None:
    now = rounds(gathering, "a", 0.9 * LONGEST)
    gathering.answered("a", now)
    assert gathering.until(now) == pytest.approx(now + LONGEST)


def test_slow_ones_are_not_waited_for_but_counted_as_decoding(gathering: Gathering) -> None:
    now = rounds(gathering, "slow", 10 * LONGEST)
    gathering.answered("slow", now)
    assert gathering.until(now) == now
    assert gathering.decoding


def test_habits_change(gathering: Gathering) -> None:
    now = rounds(gathering, "a", 10 * LONGEST, *[0.001] * 20)
    gathering.answered("a", now)
    assert gathering.until(now) > now
    gathering.returned("a", now)
    now = rounds(gathering, "a", 10 * LONGEST, start=now)
    gathering.answered("a", now)
    assert gathering.until(now) == now


def test_the_last_of_those_away_decides(gathering: Gathering) -> None:
    now = max(rounds(gathering, "quick", 0.001), rounds(gathering, "slower", 0.003), rounds(gathering, "slow", 1.0))
    gathering.answered("quick", now)
    gathering.answered("slow", now)
    assert gathering.until(now) == pytest.approx(now + PATIENCE * 0.001)
    gathering.answered("slower", now)
    assert gathering.until(now) == pytest.approx(now + PATIENCE * 0.003)


def test_first_block_of_a_sequence_tells_no_habit(gathering: Gathering) -> None:
    gathering.returned("a", 1.0)
    assert not gathering.decoding
    gathering.answered("a", 1.0)
    assert gathering.until(1.0) == pytest.approx(1.0 + LONGEST)


def test_who_is_forgotten_is_not_waited_for(gathering: Gathering) -> None:
    now = rounds(gathering, "a", 0.001)
    gathering.answered("a", now)
    gathering.forget("a")
    gathering.forget("nobody")
    assert gathering.until(now) == now
    assert not gathering.decoding


def test_gathering_switched_off_waits_for_nobody() -> None:
    gathering = Gathering(longest_s=0.0)
    gathering.answered("a", 1.0)
    assert gathering.until(1.0) == 1.0
