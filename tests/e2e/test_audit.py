"""The parity audit: on the default model, on a tiny one by command, and on one with a planted error."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import off_by_one
import pytest
from command_line import CommandLine
from tiny_models import save_tiny_model
from uneven_products import only_at, plant_products

from cli.paths import cache_folder
from drafts.settings import DraftSettings
from evaluation.audit import AuditSettings, audit
from evaluation.audit_report import Tally
from evaluation.audit_sources import LANGUAGES, choose_sources
from evaluation.scenes import EXAMPLES
from target_server.errors import ModelUnavailable
from target_server.settings import TargetSettings
from target_server.store import locate

pytestmark = pytest.mark.arithmetic


async def audited(
    target: TargetSettings, *, prompts: int, seed: int = 0, only: int | None = None, json_file: Path | None = None
) -> Tally:
    (tally,) = await audit(
        AuditSettings(prompts=prompts, dtypes=(target.dtype,), seed=seed, only=only),
        target=target,
        drafts=DraftSettings(),
        sources=choose_sources([EXAMPLES], seed=seed, most=1),
        cache_folder=cache_folder(),
        json_file=json_file,
        progress=lambda _: None,
    )
    return tally


@pytest.mark.model
@pytest.mark.timeout(1200)  # on a busy machine; under a minute on a quiet one
async def test_no_output_of_the_default_model_differs(tmp_path: Path) -> None:
    try:
        locate("default", cache_folder())
    except ModelUnavailable as missing:
        pytest.skip(str(missing))
    found = await audited(TargetSettings(), prompts=12, seed=1, json_file=tmp_path / "audit.json")
    written = json.loads((tmp_path / "audit.json").read_text())
    assert (found.prompts, found.differing) == (12, 0)
    assert (written["complete"], written["compared"], written["differing"]) == (True, 12, 0)
    (run,) = written["runs"]
    assert set(run["by"]["language"]) == set(LANGUAGES)
    assert run["accepted_tokens"] > 0
    assert run["judged_tokens"] > run["accepted_tokens"]
    assert run["plain_cached_tokens"] == run["reuse_off_cached_tokens"] == 0
    assert set(run["steps"]) >= {"decode", "mixed", "prefill"}
    assert max(map(int, run["steps"]["decode"])) > 8  # rows: of several sequences' blocks
    assert max(map(int, run["steps"]["mixed"])) > 64  # of a whole chunk beside blocks


async def test_no_output_of_a_tiny_model_differs(tmp_path: Path, tiny_model_folder: Path) -> None:
    run = CommandLine(tmp_path)
    outcome = await run(
        *("audit", "parity", "--prompts", 50, "--model", tiny_model_folder, "--dtype", "float32"), "--json", "out.json"
    )
    written = json.loads((tmp_path / "out.json").read_text())
    assert outcome.code == 0, outcome.err
    assert "float32: 0 of 50 outputs differ" in outcome.out
    assert (written["differing"], written["compared"]) == (0, 50)
    assert str(tmp_path) not in json.dumps(written)
    (made,) = written["runs"]
    assert made["reuse_on_prompts_cached"] > 5
    assert made["plain_cached_tokens"] == made["reuse_off_cached_tokens"] == 0
    by = made["by"]
    assert {"noise", "oracle", "lookup", "none"} <= set(by["drafter"])
    assert set(by["placement"]) == {"edge", "server"}
    assert set(by["fallback"]) == {"none", "forced"}
    assert len(set(by["sessions"]) & set("12345678")) > 4


async def test_a_planted_error_is_caught_and_again_in_its_group_alone(
    tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    off_by_one.plant(monkeypatch)
    target = TargetSettings(model=str(tiny_model_folder), dtype="float32", device="cpu", threads=1)
    found = await audited(target, prompts=40)
    assert found.differing > 3
    assert len(found.receipts) == found.differing
    for receipt in found.receipts:
        fields = [difference["field"] for difference in receipt["differences"]]
        assert receipt["settings"]["sampling"]["temperature"] > 0  # greedy tokens need no noise
        assert receipt["drafter_used"] != "none"
        assert "ids" in fields or "finish" in fields
    number = found.receipts[0]["number"]
    again = await audited(target, prompts=40, only=number)
    assert 1 <= again.prompts <= 4
    assert number in {receipt["number"] for receipt in again.receipts}


async def test_product_whose_last_rows_differ_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At one count, by a bit; "fast", or the check at start would have the target never use that count."""
    model = save_tiny_model(tmp_path / "tiny", half_exact=True)
    settings = {"model": str(model), "dtype": "float32", "device": "cpu", "threads": 1}
    sound = await audited(TargetSettings(**settings), prompts=60)
    assert sound.differing == 0
    decoding: dict[str, int] = sound.steps.as_values()["decode"]
    count = max((int(total) for total in decoding if int(total) > 8), key=lambda total: decoding[str(total)])
    plant_products(monkeypatch, only_at(count))
    found = await audited(TargetSettings(**settings, parity="fast"), prompts=60)
    assert found.differing > 0
    assert {field["field"] for receipt in found.receipts for field in receipt["differences"]} >= {"log_probabilities"}
    told = await audited(TargetSettings(**settings), prompts=20)
    steps = told.steps.as_values()
    assert told.differing == 0
    assert count not in (*steps["decode_rows"], *steps["prefill_rows"])


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--json", "nowhere/out.json"), "there is no folder"),
        (("--files", "nowhere.py"), "is not there"),
        (("--prompts", 5, "--only", 5), "from 0 to 4"),
        (("--dtype", "float8"), "target.dtype"),
    ],
)
async def test_what_cannot_be_audited_is_said_before_anything_runs(
    tmp_path: Path, arguments: tuple[object, ...], problem: str
) -> None:
    outcome = await CommandLine(tmp_path)("audit", "parity", *arguments)
    assert (outcome.code, problem in outcome.err) == (2, True)


async def test_differing_outputs_end_the_command_with_1(tmp_path: Path, tiny_model_folder: Path) -> None:
    class Planted(CommandLine):
        def command(self, *arguments: object) -> list[str]:
            return [sys.executable, off_by_one.__file__, *map(str, arguments)]

    outcome = await Planted(tmp_path)(
        *("audit", "parity", "--prompts", 20, "--model", tiny_model_folder, "--dtype", "float32"), "--json", "out.json"
    )
    written = json.loads((tmp_path / "out.json").read_text())
    assert outcome.code == 1
    assert written["differing"] == len(written["runs"][0]["receipts"]) > 0
    assert f"{written['differing']} of 20 outputs differ" in outcome.out
    assert "at character" in outcome.out
