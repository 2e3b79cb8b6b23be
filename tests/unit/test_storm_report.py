"""What a storm's report complains of, and what it doesn't."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from evaluation.storm_cases import Bounds, Ending, Moment, draw_cases
from evaluation.storm_client import FINISHED, LEFT, TOO_LATE
from evaluation.storm_remains import Remains
from evaluation.storm_report import Counted, Report, counted

BOUNDS = Bounds(vocabulary_size=512, prompt_tokens=100, draft_tokens=7, fingerprint="f")
NOTHING = Remains(
    open_sessions=0,
    waiting_requests=0,
    free_slots=16,
    kv_cache_bytes=1000,
    open_calls=0,
    sessions_gauge=0,
    sequences=0,
    tasks=12,
    threads=4,
    descriptors=20,
)
WELL = Report(
    requests=10,
    at_once=4,
    seed=0,
    seconds=1.0,
    outcomes={
        (Moment.STEP, Ending.CANCEL, LEFT): 6,
        (Moment.RUN, Ending.DEADLINE, TOO_LATE): 2,
        (Moment.FINISH, Ending.CLOSE, FINISHED): 2,
    },
    others=5,
    counted=Counted(
        requests=15,
        opened=14,
        statuses={"OK": 7, "CANCELLED": 6, "DEADLINE_EXCEEDED": 2},
        tokens={"drafted": 9, "judged": 5, "accepted": 2, "emitted": 50},
    ),
    opened=14,
    before=NOTHING,
    after=NOTHING,
    grown_bytes=0,
    controls=3,
    controls_differing=0,
    controls_after=16,
    controls_after_differing=0,
)


def statuses(**changes: int) -> dict[str, Any]:
    return {"counted": replace(WELL.counted, statuses={**WELL.counted.statuses, **changes})}


def test_a_storm_without_remains_is_not_complained_of() -> None:
    assert WELL.complaints() == []
    # gRPC holds the last call's frames for a while; the others have gone.
    assert replace(WELL, after=replace(NOTHING, sequences=1)).complaints() == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"after": replace(NOTHING, open_sessions=1)}, "leaked: 1 open_sessions"),
        ({"after": replace(NOTHING, free_slots=14)}, "leaked: 2 lost_slots"),
        ({"after": replace(NOTHING, kv_cache_bytes=1064)}, "leaked: 64 kv_cache_bytes"),
        ({"after": replace(NOTHING, tasks=13)}, "leaked: 1 tasks"),
        ({"after": replace(NOTHING, sequences=3)}, "leaked: 2 sequences"),
        ({"controls_differing": 1}, "1 of 19 controls differ from what they are alone"),
        ({"controls_after_differing": 2}, "2 of 19 controls differ"),
        ({"controls": 0}, "no control was decoded"),
        ({"opened": 15}, "15 sequences were opened, the metrics say 14"),
        ({"others": 4}, "15 requests counted, of 14 that were sent"),
        (statuses(INTERNAL=1), "1 requests counted as INTERNAL"),
        (statuses(OK=6), "6 requests counted as OK, of 7 that finished"),
        (statuses(OK=10), "10 requests counted as OK, of 7 that finished"),  # two may have been about to finish
        ({"outcomes": {**WELL.outcomes, (Moment.RUN, Ending.CLOSE, "TargetFailed: x"): 1}}, "1 ended in TargetFailed"),
        ({"counted": replace(WELL.counted, tokens={"drafted": 9, "judged": 5, "accepted": 6})}, "more tokens accepted"),
    ],
)
def test_each_fault_is_named(changes: dict[str, Any], says: str) -> None:
    (complaint,) = replace(WELL, **changes).complaints()
    assert complaint.startswith(says)


def test_the_json_has_every_kind_and_the_complaints() -> None:
    values = json.loads(json.dumps(replace(WELL, controls_differing=1).as_values()))
    assert len(values["complaints"]) == 1
    assert len(values["by"]) == len(Moment) * len(Ending)
    assert values["outcomes"] == {LEFT: 6, TOO_LATE: 2, FINISHED: 2}
    assert values["server"]["statuses"]["CANCELLED"] == 6


def test_metrics_are_summed_over_their_labels() -> None:
    samples = [
        ("slipstream_requests_total", {"reason": "error"}, 3.0),
        ("slipstream_requests_total", {"reason": "token_limit"}, 2.0),
        ("slipstream_errors_total", {"status": "CANCELLED"}, 2.0),
        ("slipstream_errors_total", {"status": "DEADLINE_EXCEEDED"}, 1.0),
        ("slipstream_request_seconds_count", {}, 4.0),
        ("slipstream_emitted_tokens_total", {"language": "python"}, 7.0),
    ]
    found = counted(samples)
    assert (found.requests, found.opened, found.tokens["emitted"]) == (5, 4, 7)
    assert found.statuses == {"OK": 2, "CANCELLED": 2, "DEADLINE_EXCEEDED": 1}


def test_cases_are_drawn_again_by_their_seed_and_cover_every_kind() -> None:
    cases = list(draw_cases(count=300, seed=1, bounds=BOUNDS))
    assert cases == list(draw_cases(count=300, seed=1, bounds=BOUNDS))
    assert cases != list(draw_cases(count=300, seed=2, bounds=BOUNDS))
    assert {(case.moment, case.ending) for case in cases} == {
        (moment, ending) for moment in Moment for ending in Ending
    }
    prompts = [case.request.prompt for case in cases]
    assert all(1 <= len(prompt) <= 100 and max(prompt) < 512 for prompt in prompts)
    assert len({prompt[:50] for prompt in prompts if len(prompt) > 50}) < sum(len(prompt) > 50 for prompt in prompts)
