"""Where drafting is placed, by what was measured."""

from __future__ import annotations

import pytest

from decoding.errors import InvalidSetting
from decoding.placement import Pace, Placement
from decoding.rules import PlacementRules
from decoding.session import Mode

RULES = PlacementRules(evidence_steps=10, margin=1.2, recheck_every=3)


def pace(*, tokens: int = 25, device_us: int = 50_000, overhead_us: int = 0) -> Pace:
    """Ten steps; times are a step's."""
    return Pace(steps=10, tokens=tokens, device_us=10 * device_us, overhead_us=10 * overhead_us)


def moved(placement: Placement, mode: Mode, **fields: int) -> tuple[str, str] | None:
    move = placement.record(mode, pace(**fields))
    return None if move is None else (move.before.value, move.after.value)


def test_without_measurements_drafts_are_made_beside_the_editor() -> None:
    placement = Placement(RULES)
    assert placement.choose() is Mode.EDGE
    assert placement.record(Mode.EDGE, Pace()) is None
    assert placement.record(Mode.EDGE, Pace(steps=9, tokens=20, device_us=9, overhead_us=900_000)) is None
    assert placement.edge_us_per_token is placement.server_us_per_token is None
    assert placement.choose() is Mode.EDGE


def test_nothing_is_compared_before_the_editors_side_is_measured() -> None:
    placement = Placement(RULES)
    assert moved(placement, Mode.SERVER) is None
    assert placement.choose() is Mode.EDGE


def test_a_short_way_stays_beside_the_editor() -> None:
    placement = Placement(RULES)
    for _ in range(30):
        assert moved(placement, Mode.EDGE, overhead_us=2_000) is None
        assert placement.choose() is Mode.EDGE


def test_a_long_way_moves_drafting_to_the_target_and_says_by_what() -> None:
    placement = Placement(RULES)
    move = placement.record(Mode.EDGE, pace(overhead_us=50_000))
    assert move is not None
    assert (move.before, move.after) == (Mode.EDGE, Mode.SERVER)
    assert (move.edge_us_per_token, move.server_us_per_token) == (40_000, 20_000)
    assert placement.choose() is Mode.SERVER


def test_a_target_that_drafts_too_badly_to_pay_gives_drafting_back_for_good() -> None:
    placement = Placement(RULES)
    moved(placement, Mode.EDGE, overhead_us=50_000)
    assert moved(placement, Mode.SERVER, tokens=10, overhead_us=100) == ("server", "edge")  # it sees no buffers
    for _ in range(30):
        assert moved(placement, Mode.EDGE, overhead_us=50_000) is None


def test_within_the_margin_nothing_moves_either_way() -> None:
    placement = Placement(RULES)
    assert moved(placement, Mode.EDGE, overhead_us=9_000) is None  # 59 against 50
    assert moved(placement, Mode.EDGE, overhead_us=11_000) == ("edge", "server")
    assert moved(placement, Mode.SERVER, overhead_us=20_000) is None  # 70 against 61
    assert moved(placement, Mode.SERVER, overhead_us=24_000) == ("server", "edge")


def test_at_the_target_one_request_in_a_few_looks_whether_the_way_got_shorter() -> None:
    placement = Placement(RULES)
    moved(placement, Mode.EDGE, overhead_us=90_000)
    chosen = []
    for _ in range(8):
        chosen.append(placement.choose())
        moved(placement, chosen[-1], overhead_us=90_000 if chosen[-1] is Mode.EDGE else 10_000)
    assert chosen == [Mode.SERVER] * 3 + [Mode.EDGE] + [Mode.SERVER] * 3 + [Mode.EDGE]
    assert moved(placement, Mode.EDGE, overhead_us=500, tokens=26) is None  # within the margin
    assert moved(placement, Mode.EDGE, overhead_us=500, tokens=99) == ("server", "edge")


def test_load_that_comes_meanwhile_weighs_on_both_sides() -> None:
    placement = Placement(RULES)
    moved(placement, Mode.EDGE, overhead_us=50_000)
    for _ in range(5):  # five times as slow as the edge's own measurement was
        assert moved(placement, Mode.SERVER, device_us=250_000, overhead_us=500) is None


def test_plain_requests_have_no_place() -> None:
    with pytest.raises(InvalidSetting, match=r"placement\.mode"):
        Placement(RULES).record(Mode.PLAIN, pace())
