"""Rules and outcomes that cannot be are refused, by the name of their field."""

from __future__ import annotations

import pytest

from decoding.errors import InvalidSetting
from decoding.gate import RequestOutcome
from decoding.rules import GateRules, GuardRules, LengthRules, PlacementRules


@pytest.mark.parametrize(
    "fields",
    [
        {"window_requests": 0},
        {"window_requests": 10_001},
        {"threshold": 1.1},
        {"threshold": float("nan")},
        {"floor": 0.71},
        {"floor": -0.1},
        {"consecutive": 0},
        {"threshold_evidence": 0},
        {"floor_evidence": 0},
        {"timing_evidence": 0},
        {"slower_margin": 0.9},
        {"slower_margin": float("inf")},
        {"plain_every": -1},
        {"probe_every": 0},
        {"good_probes": 0},
    ],
)
def test_rules_out_of_range_name_their_field(fields: dict[str, float]) -> None:
    with pytest.raises(InvalidSetting, match=rf"^gate\.{next(iter(fields))}: must be"):
        GateRules(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fields", [{"judged": 0}, {"rate": 1.5}, {"empty_drafts": -1}, {"pause_tokens": 0}, {"server_run_tokens": 5000}]
)
def test_guard_rules_out_of_range_name_their_field(fields: dict[str, float]) -> None:
    with pytest.raises(InvalidSetting, match=rf"^guard\.{next(iter(fields))}: must be"):
        GuardRules(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["memory", "samples", "recent_rounds", "run_tokens", "step_us"])
def test_length_rules_out_of_range_name_their_field(field: str) -> None:
    with pytest.raises(InvalidSetting, match=rf"^length\.{field}: must be"):
        LengthRules(**{field: 0})


@pytest.mark.parametrize("field", ["window_requests", "evidence_steps", "margin", "recheck_every"])
def test_placement_rules_out_of_range_name_their_field(field: str) -> None:
    with pytest.raises(InvalidSetting, match=rf"^placement\.{field}: must be"):
        PlacementRules(**{field: 0})


def test_an_acceptance_over_one_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="accepted <= judged <= drafted"):
        RequestOutcome(speculated=True, drafted=5, judged=4, accepted=5)
    with pytest.raises(InvalidSetting, match=r"outcome\.plain_us"):
        RequestOutcome(speculated=True, plain_us=-1)
