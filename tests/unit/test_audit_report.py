"""What the audit writes down."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from audits import case, output

from decoding.session import Mode
from decoding.verdict import Statistics
from evaluation.audit_cases import Reuse
from evaluation.audit_comparison import Difference
from evaluation.audit_report import Asked, Audited, Steps, Tally, as_json, write
from evaluation.audit_run import Outcome
from target_server.shapes import Shapes
from target_server.step_metrics import StepRecord

ASKED = Asked(prompts=3, seed=9, files={"python": 2})
WRONG = Difference(field="ids", position=70, plain=11, audited=12)


def outcome(*differences: Difference, cached: int = 0, **changes: Any) -> Outcome:
    counts = Statistics(
        cached_tokens=cached, emitted_tokens=3, drafted_tokens=6, judged_tokens=4, accepted_tokens=2, verify_steps=2
    )
    return Outcome(
        case=case(**changes),
        sessions=2,
        drafter="oracle",
        prompt_tokens=64,
        plain=output(),
        audited=output(statistics=counts),
        fell_back=False,
        differences=differences,
    )


def step(total: int, *, blocks: int = 1, chunks: int = 0) -> StepRecord:
    times = dict.fromkeys(("wait_us", "schedule_us", "forward_us", "sample_us", "deliver_us"), 0)
    return StepRecord(blocks=blocks, chunks=chunks, rows=total - 1, total=total, **times)


def tally(*outcomes: Outcome, steps: Sequence[StepRecord] = ()) -> Tally:
    made = Tally(
        Audited(model="tiny", revision="r", dtype="float32", device="cpu"),
        ASKED,
        Steps(Shapes(decode=(4, 8, 16), prefill=(16, 64)), block_rows=8),
    )
    for each in steps:
        made.steps.record(each)
    made.add(outcomes)
    return made


def report(*tallies: Tally, complete: bool = True) -> Any:
    return json.loads(as_json(ASKED, tallies, complete=complete))


def test_what_was_tried_is_counted_by_what_it_was() -> None:
    found = report(tally(outcome(), outcome(WRONG, mode=Mode.SERVER), outcome(reuse=Reuse.SAME, cached=64)))
    (run,) = found["runs"]
    assert (found["compared"], found["differing"], found["complete"]) == (3, 1, True)
    assert run["by"]["placement"] == {
        "edge": {"prompts": 2, "differing": 0},
        "server": {"prompts": 1, "differing": 1},
    }
    assert run["by"]["reuse"]["same"] == {"prompts": 1, "differing": 0}
    assert (run["tokens"], run["judged_tokens"], run["accepted_tokens"]) == (9, 12, 6)
    assert (run["reuse_on_cached_tokens"], run["reuse_off_cached_tokens"]) == (64, 0)


def test_steps_are_counted_by_their_rows_and_counts_that_no_step_had_are_named() -> None:
    made = tally(steps=[step(8), step(8), step(16), step(16, chunks=1), step(64, blocks=0, chunks=1)])
    (run,) = report(made)["runs"]
    assert run["steps"] == {
        "decode_rows": [4, 8, 16],
        "prefill_rows": [16, 64],
        "unmade": [4],
        "decode": {"8": 2, "16": 1},
        "mixed": {"16": 1},
        "prefill": {"64": 1},
    }
    assert (made.steps.made, made.steps.larger) == (5, 3)


def test_a_difference_leaves_a_receipt_and_an_agreement_none() -> None:
    (run,) = report(tally(outcome(number=4), outcome(WRONG, number=5)))["runs"]
    (receipt,) = run["receipts"]
    assert (receipt["seed"], receipt["number"], receipt["beside"]) == (9, 5, [4])
    assert (receipt["file"], receipt["offset"]) == ("python/0", 600)
    assert receipt["differences"] == [{"field": "ids", "position": 70, "plain": 11, "audited": 12}]
    assert receipt["settings"]["sampling"]["seed"] == 5
    assert receipt["settings"]["draft_tokens"] == 4


def test_dtypes_are_added_up_and_kept_apart() -> None:
    found = report(tally(outcome(WRONG)), tally(outcome(WRONG), outcome()), complete=False)
    assert (found["compared"], found["differing"], found["complete"]) == (3, 2, False)
    assert [run["differing"] for run in found["runs"]] == [1, 1]


def test_the_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "audit.json"
    for text in ("long before", "now"):
        write(path, text)
    assert path.read_text() == "now\n"
    assert list(tmp_path.iterdir()) == [path]
