"""What the comparison with peers adds up to, where its prompts are cut, and how its environments are built."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.peers.answering import Asked, Emit, timed
from benchmarks.peers.environments import Environment, complaint, ggml_options, processor_features
from benchmarks.peers.prompts import cut_positions, digest, prompts, warming_prompts
from benchmarks.peers.report import as_json, remarks, table
from benchmarks.peers.results import Row, Timing, decode_rate, hardest, identical, prefill_rate, ratio, total_rate
from benchmarks.peers.roster import OURS, ROSTER
from cli.paths import cache_folder
from drafts.vocabulary import Vocabulary
from target_server.errors import ModelUnavailable
from target_server.store import locate


def timing(prompt: str, *, first_s: float = 1.0, total_s: float = 3.0, **changes: object) -> Timing:
    values = {"prompt_tokens": 100, "first_tokens": 2, "tokens": (1, 2, 3, 4, 5, 6), **changes}
    return Timing(prompt=prompt, first_s=first_s, total_s=total_s, **values)  # type: ignore[arg-type]


def row(name: str, *timings: Timing, ours: bool = False, reason: str = "") -> Row:
    return Row(name=name, ours=ours, settings={}, facts={"dtype": "float32"}, timings=timings, reason=reason)


MINE = row("mine", timing("a"), timing("b", total_s=2.0), ours=True)
SLOW = row("slow", timing("a", total_s=9.0), timing("b", total_s=4.0))
LATE = row(
    "late", timing("a", first_s=4.0, total_s=5.0, tokens=(1, 2, 3, 4, 5, 7)), timing("b", first_s=4.0, total_s=5)
)
GONE = row("gone", timing("a", total_s=0.1), reason="it died")


def test_rates_pool_tokens_and_seconds_over_prompts() -> None:
    assert prefill_rate(MINE.timings) == 200 / 2
    assert decode_rate(MINE.timings) == 8 / 3
    assert total_rate(MINE.timings) == 12 / 5


def test_what_came_in_one_piece_has_no_decode_rate() -> None:
    whole = timing("a", first_s=1.0, total_s=1.0, first_tokens=6)
    assert decode_rate([whole]) is None
    assert ratio(MINE, row("peer", whole), "decode") is None


def test_a_ratio_pairs_prompts_and_shows_its_spread() -> None:
    found = ratio(MINE, SLOW, "total")
    assert found is not None
    assert (found.median, found.low, found.high) == (2.5, 2.25, 2.75)
    assert str(found) == "2.50× (2.25–2.75)"
    only_one = ratio(MINE, row("peer", timing("b", total_s=6.0), timing("c")), "total")
    assert only_one is not None
    assert (only_one.median, only_one.low, only_one.high) == (3.0, 3.0, 3.0)


def test_the_best_peer_is_the_one_that_ours_gains_least_over_at_that_rate() -> None:
    rows = (MINE, SLOW, LATE, GONE, row("plain", timing("a", total_s=0.5), ours=True))
    total, decode = hardest(MINE, rows, "total"), hardest(MINE, rows, "decode")
    assert total is not None
    assert decode is not None
    assert (total[0], decode[0]) == ("late", "late")
    assert (total[1].median, decode[1].median) == (pytest.approx((5 / 3 + 5 / 2) / 2), 0.75)
    assert hardest(MINE, (MINE, GONE), "total") is None


def test_outputs_are_compared_token_by_token() -> None:
    assert (identical(MINE, SLOW), identical(MINE, LATE)) == (2, 1)


def test_the_table_has_a_line_for_everyone_and_the_remarks_say_why_one_is_empty() -> None:
    rows = (MINE, SLOW, GONE)
    out = io.StringIO()
    Console(file=out, width=130).print(table(MINE, rows))
    lines = {line.split("│")[1].strip(): line for line in out.getvalue().splitlines() if "│" in line}
    assert "2.50× (2.25–2.75)" in lines["slow"]
    assert "2 of 2" in lines["slow"]
    assert "–" in lines["gone"]
    said = remarks(MINE, rows, new_tokens=7)
    assert "gone was not measured: it died" in said
    assert "slow ended 2 of 2 outputs before 7 tokens." in said
    assert said[0] == "Best peer, total: slow; ours is 2.50× (2.25–2.75) as fast."


def test_json_has_the_promised_keys() -> None:
    written = as_json(MINE, (MINE, SLOW, GONE))
    assert (written["ratio_total_vs_best"], written["best_total"]) == (2.5, "slow")
    assert written["ratio_decode_vs_best"] == 3.5
    mine, slow, gone = written["rows"]
    assert (mine["ratio_total"], slow["ratio_total"]) == ([1.0, 1.0, 1.0], [2.5, 2.25, 2.75])
    assert (slow["prefill_tokens_per_s"], slow["total_tokens_per_s"], slow["tokens"]) == (100.0, 0.92, 12)
    assert gone["reason"] == "it died"
    assert "total_tokens_per_s" not in gone
    alone = as_json(MINE, (MINE, GONE))
    assert (alone["ratio_total_vs_best"], alone["best_decode"]) == (None, None)


def test_an_engine_is_timed_from_asking_to_its_last_piece() -> None:
    ticks = iter((10.0, 12.0, 12.5, 13.0))

    def generate(asked: Asked, emit: Emit) -> None:
        emit([asked.prompt[0]])
        emit([2, 3])
        emit([4])

    answer = timed(generate, Asked(prompt=[7], new_tokens=4, language="go"), lambda: next(ticks))
    assert answer == {"first_s": 2.0, "total_s": 3.0, "first_tokens": 1, "tokens": [7, 2, 3, 4]}


def test_cuts_are_different_and_leave_room_on_both_sides() -> None:
    assert cut_positions(1000, count=2, prompt_tokens=400, new_tokens=100) == [525, 775]
    assert cut_positions(501, count=1, prompt_tokens=400, new_tokens=100) == [400]
    with pytest.raises(ValueError, match="has 500 tokens; 1 prompts of 400 need 500"):
        cut_positions(500, count=1, prompt_tokens=400, new_tokens=100)


@pytest.mark.model
def test_prompts_are_of_the_asked_size_in_five_languages_and_none_begins_like_another() -> None:
    try:
        vocabulary = Vocabulary.load(locate("default", cache_folder()).folder)
    except ModelUnavailable as missing:
        pytest.skip(str(missing))
    size = {"prompt_tokens": 400, "new_tokens": 64}
    measured, warming = prompts(vocabulary, count=30, **size), warming_prompts(vocabulary, **size)
    languages = [prompt.language for prompt in measured]
    assert {language: languages.count(language) for language in languages} == dict.fromkeys(languages[:5], 6)
    assert {len(prompt.tokens) for prompt in (*measured, *warming)} == {400}
    assert len({prompt.tokens[:8] for prompt in (*measured, *warming)}) == 34  # no cached beginning helps
    assert len({prompt.name for prompt in measured}) == 30
    assert digest(measured) == digest(prompts(vocabulary, count=30, **size)) != digest(measured[1:])
    assert len({prompt.language for prompt in prompts(vocabulary, count=5, **size)}) == 5


def test_llama_is_built_with_what_the_processor_has_and_no_more(tmp_path: Path) -> None:
    information = tmp_path / "cpuinfo"
    information.write_text("processor\t: 0\nflags\t\t: fpu sse4_2 avx avx2 fma avx512f avx512vbmi\nbugs\t:\n")
    options = ggml_options(processor_features(information)).split()
    assert "-DGGML_NATIVE=OFF" in options
    assert {"-DGGML_AVX2=ON", "-DGGML_FMA=ON", "-DGGML_AVX512_VBMI=ON"} <= set(options)
    assert {"-DGGML_AVX512=OFF", "-DGGML_F16C=OFF", "-DGGML_AVX512_BF16=OFF"} <= set(options)
    assert ggml_options(processor_features(tmp_path / "none")) == "-DGGML_NATIVE=ON"


def test_a_log_is_asked_for_its_last_error(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("warming\nERROR: no such package\nValueError: it broke\n  and so on\n")
    assert complaint(log) == "ValueError: it broke"
    log.write_text("one\n\ntwo: error free\n\n")
    assert complaint(log) == "two: error free"
    log.write_text("\n")
    assert complaint(log) == "it said nothing"


def test_an_environment_is_another_one_when_what_is_asked_of_it_changes() -> None:
    plain = Environment(name="llama")
    assert plain.digest == Environment(name="llama").digest
    others = (Environment(name="vllm"), Environment(name="llama", environ={"CMAKE_ARGS": "-DGGML_NATIVE=ON"}))
    assert plain.digest not in {other.digest for other in others}


def test_every_contestant_has_a_worker_and_every_environment_its_requirements() -> None:
    folder = Path(__file__).parents[2] / "benchmarks" / "peers" / "workers"
    assert all((folder / f"{one.worker}.py").exists() for one in ROSTER)
    assert all("==" in one.environment.requirements.read_text() for one in ROSTER if one.environment)
    assert ROSTER[0] is OURS
    assert len({one.name for one in ROSTER}) == len(ROSTER)
