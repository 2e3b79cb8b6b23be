"""What pairs of completions add up to, how they are shown, and the demo's JSON."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path

from rich.console import Console

from decoding.gate import GateEvent, GateReason, GateState
from evaluation.demo import Report
from evaluation.editor import Suggestion
from evaluation.fallback import Fallback, Step
from evaluation.painting import legend, painted
from evaluation.pairs import Pair, language_rows, mean_tokens_per_step
from evaluation.report import as_json
from evaluation.scenes import Scene
from evaluation.stage import ConsoleStage
from lsp_server.suggestion import Piece

PLAIN = Suggestion(
    text="x = 1",
    pieces=(Piece(token=1, source="lookup", text="x ="), Piece(token=2, source="target", text=" 1")),
    tokens=(1, 2),
    sources=("lookup", "target"),
    mode="edge",
    finish="token_limit",
    prompt_tokens=10,
    cached_tokens=0,
    drafted=4,
    judged=3,
    accepted=1,
    verify_steps=1,
    first_token_ms=10.0,
    total_ms=100.0,
)


def pair(language: str, **changes: object) -> Pair:
    scene = Scene(language=language, path=Path(f"/x/a.{language}"), prefix="one\ntwo\n", suffix="")
    return Pair(scene=scene, speculative=dataclasses.replace(PLAIN, **changes), plain=PLAIN)  # type: ignore[arg-type]


def test_counts_are_pooled_and_times_are_means() -> None:
    rows = language_rows(
        [pair("go"), pair("rust", tokens=(1,), verify_steps=2), pair("go", total_ms=300.0, accepted=3, drafted=0)]
    )
    go, rust = rows
    assert (go.language, go.completions, go.tokens, go.drafted, go.judged, go.accepted) == ("go", 2, 4, 4, 6, 4)
    assert (go.total_ms, go.plain_total_ms, go.ttft_ms) == (200.0, 100.0, 10.0)
    assert go.acceptance == 4 / 6
    assert (go.tokens_per_step, rust.tokens_per_step) == (2.0, 0.5)
    assert mean_tokens_per_step(rows) == 1.25


def test_identical_means_tokens_and_end_and_text() -> None:
    assert pair("go", drafted=99, total_ms=1.0, mode="plain").identical
    assert not pair("go", tokens=(1, 3)).identical
    assert not pair("go", text="x = 2").identical
    assert not pair("go", finish="end_of_text").identical
    assert not language_rows([pair("go"), pair("go", tokens=())])[0].identical


def report(*, fell_back: bool = True, identical: bool = True) -> Report:
    event = GateEvent(
        language="go",
        drafter="mix",
        before=GateState.SPECULATING,
        after=GateState.FALLEN_BACK,
        reason=GateReason.BELOW_FLOOR,
        rate=0.0,
        judged=24,
        speculative_us_per_token=None,
        plain_us_per_token=None,
    )
    step = Step(
        part="hostile",
        mode="edge",
        drafted=9,
        accepted=0,
        total_ms=1.0,
        identical=identical,
        gate=GateState.FALLEN_BACK,
        transitions=(event,),
    )
    pairs = (pair("go"),)
    fallback = Fallback(fell_back=fell_back, recovered=fell_back, identical=identical, steps=(step,))
    return Report(pairs=pairs, rows=language_rows(pairs), fallback=fallback)


def test_a_report_is_good_only_if_all_of_it_is() -> None:
    assert report().good
    assert not report(fell_back=False).good
    assert not report(identical=False).good


def test_json_has_the_promised_keys() -> None:
    written = json.loads(as_json(report()))
    promised = {"language", "tokens", "drafted", "accepted", "verify_steps", "ttft_ms", "total_ms", "plain_total_ms"}
    assert promised <= written["languages"][0].keys()
    assert written["languages"][0]["identical"] is True
    assert {name: written["fallback"][name] for name in ("fell_back", "recovered", "identical")} == {
        "fell_back": True,
        "recovered": True,
        "identical": True,
    }
    assert written["fallback"]["transitions"] == [
        {"before": "speculating", "after": "fallen_back", "reason": "below_floor"}
    ]


def test_tokens_are_painted_by_source_and_cut_at_characters() -> None:
    text = painted(PLAIN.pieces, limit=4)
    assert text.plain == "x = "
    assert [(text.plain[span.start : span.end], span.style) for span in text.spans] == [
        ("x =", "green"),
        (" ", "white"),
    ]
    assert legend(("target", "lookup", "target")).plain.split() == ["■", "target", "■", "lookup"]


def test_off_a_terminal_the_stage_writes_plain_lines() -> None:
    out = io.StringIO()
    stage = ConsoleStage(Console(file=out, width=80))
    shown = report(identical=False)
    with stage.running(shown.pairs[0].scene, drafting=True) as show:
        show(PLAIN.pieces)
    stage.finished(shown.pairs[0])
    stage.summary(shown.rows)
    stage.step(shown.fallback.steps[0])
    stage.verdict(shown.fallback)
    written = out.getvalue()
    assert "\x1b" not in written
    assert "…" not in written  # every column fits a terminal of 80
    assert "two\nx = 1" in written
    assert "1 of 3 judged drafts accepted" in written
    assert "DIFFERENT" in written
    assert "speculating → fallen_back (below_floor, 0% of 24 judged)" in written
    assert "2.00 tokens a verify step" in written
