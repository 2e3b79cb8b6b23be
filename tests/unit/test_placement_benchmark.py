"""What the placement benchmark concludes from its rows."""

from __future__ import annotations

import pytest

from benchmarks.placement import WAYS, Sums, break_even, summary


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        ([30, 20, 10], [15, 15, 15], 15.0),  # leads by a third at 10 ms, lags as much at 20
        ([30, 15, 10], [15, 15, 15], 10.0),
        ([30, 20, 16], [15, 15, 15], None),
        ([10, 20, 30], [15, 15, 15], 0.0),
        ([], [], None),
    ],
)
def test_the_break_even_lies_between_the_last_lead_and_the_first_lag(
    here: list[float], there: list[float], expected: float | None
) -> None:
    assert break_even([0, 10, 20][: len(here)], here, there) == (expected and pytest.approx(expected))


def test_the_summary_has_a_row_a_delay_and_compares_auto_with_the_better_side() -> None:
    def row(**rates: float) -> dict[str, Sums]:
        return {
            way: Sums(tokens=100, steps=50, ms=100 / rates[way] * 1000, modes={"edge": 5}, round_trip_ms=1)
            for way in WAYS
        }

    whole = summary({0: row(edge=40, server=30, auto=40, plain=15), 50: row(edge=20, server=28, auto=21, plain=14)})
    assert [entry["delay_ms"] for entry in whole["rows"]] == [0, 50]
    assert whole["rows"][1]["server"] == {"tokens_per_s": 28, "tokens_per_step": 2, "modes": {"edge": 5}}
    assert whole["auto_against_better"] == [1.0, 0.75]
    assert 0 < whole["break_even_ms"]["edge_against_server"] < 50
    assert whole["break_even_ms"]["edge_against_plain"] is None
