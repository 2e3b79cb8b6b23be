"""Whether the audit sees two outputs part."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from audits import output

from decoding.verdict import FinishReason, Statistics
from evaluation.audit_comparison import Difference, differences


def found(audited: dict[str, Any]) -> tuple[Difference, ...]:
    return differences(output(), output(**audited), prompt_tokens=64)


def test_equal_outputs_differ_in_nothing_however_they_came_about() -> None:
    counts = Statistics(emitted_tokens=3, verify_steps=1, drafted_tokens=5, judged_tokens=3, accepted_tokens=2)
    assert found({}) == ()
    assert found({"statistics": counts}) == ()


def test_another_id_is_found_where_it_stands() -> None:
    assert found({"tokens": (11, 99, 98)}) == (Difference(field="ids", position=65, plain=12, audited=99),)


@pytest.mark.parametrize(("tokens", "audited"), [((11, 12), None), ((11, 12, 13, 14), 14)])
def test_an_output_that_ends_elsewhere_differs_at_the_end_of_the_shorter(
    tokens: tuple[int, ...], audited: int | None
) -> None:
    counts = replace(output().statistics, emitted_tokens=len(tokens))
    (difference,) = found({"tokens": tokens, "statistics": counts})
    assert (difference.field, difference.position) == ("ids", 64 + min(3, len(tokens)))
    assert difference.audited == audited


def test_log_probabilities_are_compared_to_the_last_bit() -> None:
    nearly = math.nextafter(-0.25, 0)
    (difference,) = found({"log_probabilities": (-0.5, nearly, -1.0)})
    assert difference == Difference(field="log_probabilities", position=65, plain=-0.25, audited=nearly)
    assert found({"log_probabilities": (-0.5, math.nan, -1.0)})


def test_text_is_told_by_place_and_length_alone() -> None:
    (difference,) = found({"text": "abXY"})
    assert difference == Difference(field="text", position=2, plain=3, audited=4)


def test_finish_and_ids_may_differ_at_once() -> None:
    ended = {"tokens": (11, 12, 10), "finish": FinishReason.END_OF_TEXT}
    assert [difference.field for difference in found(ended)] == ["ids", "finish"]


@pytest.mark.parametrize(
    "counts",
    [
        Statistics(emitted_tokens=4),
        Statistics(emitted_tokens=3, drafted_tokens=2, judged_tokens=2, accepted_tokens=3),
        Statistics(emitted_tokens=3, drafted_tokens=1, judged_tokens=2, accepted_tokens=1),
    ],
)
def test_counts_that_cannot_be_are_a_difference(counts: Statistics) -> None:
    (difference,) = found({"statistics": counts})
    assert (difference.field, difference.plain) == ("counts", None)
