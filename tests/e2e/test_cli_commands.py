"""The command line at work: completion through a real server, the doctor, a table, the demo on a tiny model."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import pty
from pathlib import Path

import pytest
from command_line import CommandLine
from serving import Serving

from decoding.noise import NOISE_VERSION

SOURCE = "".join(f"def method_{n}(self, value):\n    return self.values[value]\n\n" for n in range(4))


@pytest.fixture
def slipstream(tmp_path: Path) -> CommandLine:
    (tmp_path / "a.py").write_text(SOURCE)
    return CommandLine(tmp_path)


def at(running: Serving, *arguments: object) -> list[object]:
    place = ["complete", "a.py", "--line", 7, "--column", 20, "--max-tokens", 24]
    return [*place, "--target", running.addresses.grpc, *arguments]


async def test_completion_as_json_is_the_same_with_and_without_speculation(
    slipstream: CommandLine, running: Serving
) -> None:
    drafted, plain = [json.loads((await slipstream(*at(running, "--json", *how))).out) for how in ([], ["--plain"])]
    assert (drafted["tokens"], drafted["text"]) == (plain["tokens"], plain["text"])
    assert (drafted["mode"], plain["mode"]) == ("edge", "plain")
    counts = drafted["statistics"]
    assert counts["emitted_tokens"] == len(drafted["tokens"]) == len(drafted["sources"]) == 24
    assert counts["accepted_tokens"] == len([source for source in drafted["sources"] if source != "target"])
    assert plain["statistics"]["verify_steps"] == 24 >= counts["verify_steps"]
    first, end = drafted["receipt"]["positions"]
    assert (first, end - first) == (counts["prompt_tokens"], 24)
    assert drafted["receipt"]["noise_version"] == NOISE_VERSION
    assert (drafted["language"], drafted["finish"]) == ("python", "token_limit")


async def test_a_seed_fixes_a_sampled_completion(slipstream: CommandLine, running: Serving) -> None:
    sampled = at(running, "--json", "--temperature", 2, "--seed")
    first, again, other = [json.loads((await slipstream(*sampled, seed)).out) for seed in (2**64 - 1, 2**64 - 1, 1)]
    assert first["receipt"]["seed"] == 2**64 - 1
    assert first["tokens"] == again["tokens"] != other["tokens"]


async def test_text_goes_to_a_pipe_bare_and_to_a_terminal_in_colour(slipstream: CommandLine, running: Serving) -> None:
    text = json.loads((await slipstream(*at(running, "--json"))).out)["text"]
    assert (await slipstream(*at(running))).out == text + "\n"
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *slipstream.command(*at(running)),
        cwd=slipstream.folder,
        env=slipstream.environment | {"TERM": "xterm-256color"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=theirs,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(theirs)
    shown, (_, notes) = await asyncio.gather(asyncio.to_thread(_read_all, ours), process.communicate())
    assert process.returncode == 0
    assert b"\x1b[" in shown
    assert b"24 tokens in" in notes


def _read_all(terminal: int) -> bytes:
    """Everything until the other side closes, which a terminal reports as an error."""
    pieces = []
    try:
        while piece := os.read(terminal, 4096):
            pieces.append(piece)
    except OSError:
        pass
    finally:
        os.close(terminal)
    return b"".join(pieces)


async def test_the_doctor_is_content_with_a_model_and_a_target(
    slipstream: CommandLine, running: Serving, tiny_model_folder: Path
) -> None:
    (slipstream.folder / "slipstream.toml").write_text(
        f'[target]\nmodel = "{tiny_model_folder}"\n[lsp]\ntarget = "{running.addresses.grpc}"\n'
    )
    outcome = await slipstream("doctor", "--json")
    report = json.loads(outcome.out)
    checks = {check["name"]: check for check in report["checks"]}
    assert (outcome.code, report["ok"]) == (0, True)
    assert f"{running.addresses.grpc} serves toy" in checks["target"]["detail"]
    assert "slipstream.toml" in checks["configuration"]["detail"]
    assert checks["model"]["state"] == "ok"


async def test_the_doctor_needs_no_model_where_a_target_answers(slipstream: CommandLine, running: Serving) -> None:
    outcome = await slipstream("doctor", "--target", running.addresses.grpc)
    assert outcome.code == 0, outcome.out
    assert "warn  model" in outcome.out
    assert "ok    target" in outcome.out


async def test_the_doctor_says_what_to_do(slipstream: CommandLine) -> None:
    outcome = await slipstream("doctor", "--target", "127.0.0.1:1")
    assert outcome.code == 1
    assert "fail  model" in outcome.out
    assert "→ run `slipstream models fetch default`" in outcome.out
    assert "warn  target" in outcome.out
    (slipstream.folder / "slipstream.toml").write_text("[lsp]\nseed = -1\n")
    broken = await slipstream("doctor")
    assert broken.code == 1
    assert "slipstream.toml: lsp.seed: must be from 0 to 2**64 - 1, got -1" in broken.out


async def test_the_doctor_sees_a_damaged_model(slipstream: CommandLine) -> None:
    folder = slipstream.folder / "cache" / "models" / "default"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{ }")
    kept = {"config.json": {"bytes": 3, "sha256": hashlib.sha256(b"{\n}").hexdigest()}}
    (folder / "manifest.json").write_text(json.dumps({"revision": "0", "files": kept}))
    outcome = await slipstream("doctor")
    assert outcome.code == 1
    assert "fail  model            config.json changed since it was fetched" in outcome.out


async def test_a_table_is_built_for_the_tokenizer_given(slipstream: CommandLine, tiny_model_folder: Path) -> None:
    corpus = slipstream.folder / "corpus"
    corpus.mkdir()
    for number in range(4):
        (corpus / f"{number}.py").write_text(f"# {number}\n{SOURCE}")
    outcome = await slipstream(
        *("drafts", "build-table", "--language", "python", "--corpus", corpus),
        *("--tokenizer", tiny_model_folder, "--out", "tables"),
    )
    assert outcome.code == 0, outcome.err
    assert (slipstream.folder / "tables" / "python.ngrams").stat().st_size > 100
    assert "python: 4 files" in outcome.err


async def test_the_demo_on_a_tiny_model(slipstream: CommandLine, tiny_model_folder: Path) -> None:
    """Random weights, so nothing of speed: times are left out of the gate's rules."""
    examples = slipstream.folder / "examples"
    examples.mkdir()
    (examples / "a.py").write_text(SOURCE)
    (examples / "cursors.toml").write_text(
        "".join(
            f'[[cursor]]\nfile = "a.py"\nlanguage = "python"\nafter = "def method_{number}("\nremoved_lines = 1\n'
            for number in (2, 3)
        )
    )
    (slipstream.folder / "slipstream.toml").write_text("[gate]\ntiming_evidence = 100000\n")
    outcome = await slipstream(
        *("demo", "--model", tiny_model_folder, "--examples", examples, "--max-tokens", 48, "--json", "out.json")
    )
    assert outcome.code == 0, outcome.out + outcome.err
    report = json.loads((slipstream.folder / "out.json").read_text())
    (row,) = report["languages"]
    assert (row["language"], row["completions"], row["tokens"], row["identical"]) == ("python", 2, 96, True)
    assert 0 < row["accepted"] <= row["judged"] <= row["drafted"]
    assert report["fallback"]["fell_back"]
    assert report["fallback"]["recovered"]
    assert report["fallback"]["identical"]
    assert "every output identical to plain decoding: yes" in outcome.out
