"""The comparison's own machinery on the tiny model: real workers, woken by turns, and one that can't be had."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from benchmarks.peers.environments import READY, Environment
from benchmarks.peers.measurement import Plan, measure
from benchmarks.peers.prompts import Prompt
from benchmarks.peers.results import identical
from benchmarks.peers.roster import OURS, Contestant

NEW_TOKENS = 24
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}


def prompt(number: int) -> Prompt:
    return Prompt(language="python", name=f"made:{number}", tokens=tuple(range(100 + number, 140 + number)))


def test_engines_are_measured_by_turns_and_whoever_fails_has_a_reason(tiny_model_folder: Path, tmp_path: Path) -> None:
    said: list[str] = []
    plan = Plan(
        folder=tmp_path,
        weights=lambda kind: str(tiny_model_folder),
        shared={"threads": 1, "context_tokens": 128},
        prompts=[prompt(number) for number in range(3)],
        warming=[prompt(10 + number) for number in range(3)],
        new_tokens=NEW_TOKENS,
        trial=False,
        say=said.append,
    )
    peer = Contestant(
        name="peer",
        worker="with_transformers",
        weights="folder",
        variants=({"dtype": "float32", "draft_tokens": 5}, {"dtype": "float31", "draft_tokens": 5}),
    )
    broken = Contestant(name="broken", worker="with_llama", weights="gguf", variants=({"draft_tokens": 0},))
    nowhere = replace(broken, name="nowhere", environment=Environment(name="llama", environ=OFFLINE))
    ours, theirs, failed, missing = measure(plan, [OURS, peer, broken, nowhere])
    assert (ours.measured, theirs.measured, failed.measured, missing.measured) == (True, True, False, False)
    assert {len(one.tokens) for one in theirs.timings} == {NEW_TOKENS}
    assert identical(ours, theirs) == len(plan.prompts)  # the same weights in float32, whoever runs them
    assert all(0 < one.first_s < one.total_s for row in (ours, theirs) for one in row.timings)
    assert "No module named 'llama_cpp'" in failed.reason
    assert "llama-cpp-python" in missing.reason
    assert not (tmp_path / "llama" / READY).exists()  # so it is tried again
    assert [line for line in said if line.startswith("prompt")] == [f"prompt {n} of 3: made:{n - 1}" for n in (1, 2, 3)]
