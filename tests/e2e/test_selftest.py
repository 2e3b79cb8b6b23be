"""The self-test: on a tiny model by command, on one whose arithmetic breaks the promise, and with a planted error."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import off_by_one
import pytest
from command_line import CommandLine
from engines import settings
from torch import Tensor, nn

from target_server.loader import LoadedModel, load
from target_server.selftest import Effort, SelfTest, self_test
from target_server.settings import TargetSettings
from target_server.store import locate

pytestmark = pytest.mark.arithmetic

SMALL = settings(sessions=4)
LITTLE = Effort(repeats=2, prompts=4)


class ByNeighbours(nn.Module):
    """A norm whose rows depend on the rows beside them."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self._norm = norm

    def forward(self, rows: Tensor) -> Tensor:
        mixed: Tensor = self._norm(rows) + rows.mean(dim=-2, keepdim=True)
        return mixed


@pytest.fixture
def own(tiny_model_folder: Path) -> LoadedModel:
    """The tiny model, to be tampered with."""
    return load(locate(str(tiny_model_folder), tiny_model_folder), SMALL)


async def tried(loaded: LoadedModel, target: TargetSettings = SMALL) -> SelfTest:
    return await self_test(loaded, target, effort=LITTLE)


async def test_a_sound_machine_passes_and_is_timed(tiny_loaded: LoadedModel) -> None:
    found = await tried(tiny_loaded)
    assert found.passed
    assert found.parity.holds
    assert not found.refusal
    assert not found.replayed  # on a CPU
    assert [(step.blocks, step.chunks, step.rows) for step in found.steps] == [
        *((1, 0, 8), (2, 0, 16), (4, 0, 32), (8, 0, 64)),
        *((0, 1, 32), (1, 1, 40)),
    ]
    assert all(step.total >= step.rows and 0 < step.least_ms <= step.median_ms for step in found.steps)
    assert (found.prompt.tokens, found.prompt.reused) == (159, 128)
    assert found.prompt.cold_ms > 0 < found.prompt.warm_ms
    assert (found.speculation.prompts, found.speculation.differing) == (4, 0)
    assert 0 < found.speculation.accepted < found.speculation.tokens
    assert json.loads(json.dumps(found.as_values()))["passed"] is True


async def test_it_ends_on_the_least_that_settings_allow(tiny_loaded: LoadedModel) -> None:
    least = replace(
        SMALL, context_tokens=16, prompt_tokens=1, sessions=1, queued_requests=0, retained_prefixes=0, block_rows=2
    )
    found = await tried(tiny_loaded, least)
    assert found.speculation.differing == 0
    assert (found.prompt.tokens, found.prompt.reused) == (1, 0)
    assert {step.blocks for step in found.steps} == {0, 1}  # there is one slot


@pytest.mark.parametrize("mode", ["strict", "fast"])
async def test_rows_that_depend_on_their_neighbours_fail(own: LoadedModel, mode: str) -> None:
    layer = own.hf.model.layers[0]
    layer.input_layernorm = ByNeighbours(layer.input_layernorm)
    found = await tried(own, replace(SMALL, parity=mode))
    assert not found.passed
    assert not found.parity.rows
    assert ("speculative output would differ" in found.refusal) is (mode == "strict")


async def test_outputs_that_drafts_change_fail(tiny_loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    off_by_one.plant(monkeypatch)
    found = await tried(tiny_loaded)
    assert found.parity.holds
    assert found.speculation.differing > 0
    assert not found.passed


async def test_the_command_prints_and_writes_what_it_found(tmp_path: Path, tiny_model_folder: Path) -> None:
    run = CommandLine(tmp_path)
    outcome = await run("target", "--selftest", "--model", tiny_model_folder, "--json", "found.json")
    assert outcome.code == 0, outcome.err
    found: dict[str, Any] = json.loads((tmp_path / "found.json").read_text())
    assert found["passed"] is True
    assert found["parity"] == dict.fromkeys(("rows", "rejected", "padding", "prefill"), True)
    for said in ("bitwise equal", "median ms", f"0 of {found['speculation']['prompts']} outputs differ", "passed"):
        assert said in outcome.out
    assert str(found["steps"][0]["total"]) in outcome.out


async def test_the_command_fails_where_drafts_change_outputs(tmp_path: Path, tiny_model_folder: Path) -> None:
    class Planted(CommandLine):
        def command(self, *arguments: object) -> list[str]:
            return [sys.executable, off_by_one.__file__, *map(str, arguments)]

    outcome = await Planted(tmp_path)("target", "--selftest", "--model", tiny_model_folder)
    assert outcome.code == 1
    assert "FAILED" in outcome.out


async def test_a_file_without_the_self_test_is_wrong_usage(tmp_path: Path) -> None:
    run = CommandLine(tmp_path)
    for arguments, said in (
        (("--json", "found.json"), "--selftest"),
        (("--selftest", "--json", "nowhere/found.json"), "there is no folder nowhere"),
    ):
        outcome = await run("target", *arguments)
        assert outcome.code == 2
        assert said in outcome.err
