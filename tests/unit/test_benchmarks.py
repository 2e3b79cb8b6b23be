"""What the benchmarks conclude from what they measured, and the texts that they measure with."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.crowd_report import Cell, Measured
from benchmarks.crowd_report import summary as crowd_summary
from benchmarks.figures import middle, percentile, pooled_ratio, spread
from benchmarks.hostile import Pair, Timed, hostile_summary
from benchmarks.hostile_texts import KINDS, hostile_texts, minify
from benchmarks.profile_report import Account, Case, Operations
from benchmarks.profile_report import summary as profile_summary
from benchmarks.reuse import First, Typed
from benchmarks.reuse import summary as reuse_summary


def seeded(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - reproducible, not secret


def test_a_spread_is_ordered_and_one_value_is_its_own() -> None:
    assert spread([4.0]) == [4.0] * 4
    assert middle([1.0, 2.0, 3.0, 10.0])["median"] == 2.5
    low, lower, upper, high = spread([1.0, 2.0, 3.0, 10.0])
    assert (low, high) == (1.0, 10.0)
    assert low < lower < upper < high


@pytest.mark.parametrize(("percent", "expected"), [(0, 1), (50, 5), (90, 9), (91, 10), (99, 10), (100, 10)])
def test_a_percentile_is_one_of_the_values(percent: float, expected: float) -> None:
    assert percentile([float(value) for value in range(10, 0, -1)], percent) == expected


def test_a_pooled_ratio_is_of_sums_and_not_a_mean_of_ratios() -> None:
    found = pooled_ratio([(1.0, 10.0), (90.0, 90.0)], random=seeded(0))
    assert found["ratio"] == 0.91
    low, high = found["interval_90"]
    assert low <= 0.91 <= high


def test_equal_times_have_a_ratio_of_one_without_any_spread() -> None:
    assert pooled_ratio([(2.0, 2.0)] * 5, random=seeded(0))["interval_90"] == [1.0, 1.0]


def _pair(kind: str, number: int, *, plain: float, speculative: float) -> Pair:
    def timed(total_s: float, mode: str) -> Timed:
        return Timed(tokens=(1,), first_s=1.0, total_s=total_s, mode=mode, gate="speculating", judged=4, accepted=1)

    return Pair(
        kind=kind, sampled=bool(number % 2), speculative=timed(speculative, "edge"), plain=timed(plain, "plain")
    )


def test_the_hostile_ratio_is_that_of_the_kind_that_fares_worst() -> None:
    pairs = [_pair("prose", number, plain=3.0, speculative=3.0) for number in range(4)]
    pairs += [_pair("minified", number, plain=3.0, speculative=4.0 - number % 2) for number in range(4)]
    found = hostile_summary(pairs)
    assert found["hostile_ratio"] == found["hostile"]["minified"]["total"]["ratio"] == round(12 / 14, 4)
    assert found["hostile"]["minified"]["decode"]["ratio"] == 0.8
    assert found["hostile"]["minified"]["greedy"]["total"]["ratio"] == 0.75
    assert found["hostile"]["minified"]["sampled"]["total"]["ratio"] == 1.0
    assert found["hostile"]["prose"]["acceptance"] == 0.25
    assert found["hostile"]["prose"]["drafting"] == 4


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_texts_are_the_same_each_time_and_differ_from_one_another(kind: str) -> None:
    texts = hostile_texts(kind, requests=6, characters=400)
    assert texts == hostile_texts(kind, requests=6, characters=400)
    assert len({text.text for text in texts}) == 6
    assert all(300 < len(text.text) <= 401 for text in texts)


def test_minifying_drops_comments_and_spaces_and_renames_alike_what_has_one_name() -> None:
    squeezed = minify('let total = count( total ); // all "of" it\n/* no */ return "a  b // c" + total;', seeded(1))
    assert '"a  b // c"' in squeezed
    assert "of" not in squeezed
    assert "no" not in squeezed
    named, _, rest = squeezed.removeprefix("let ").partition("=")
    assert squeezed.startswith("let ")
    assert len(named) == 1
    assert rest.endswith(f"+{named};")
    assert f"({named})" in rest


def test_short_names_never_meet() -> None:
    code = " ".join(f"name{number}" for number in range(500))
    assert len(set(minify(code, seeded(0)).split())) == 500


def test_reuse_is_weighed_by_the_first_keystroke_and_shows_the_others() -> None:
    def first(seconds: float, cached: int) -> First:
        return First(seconds=seconds, tokens=2000, cached=cached, token=1)

    typed = [
        Typed(name="a.py", cold=first(2.0, 0), warm=(first(0.1, 1984), first(0.2, 1984))),
        Typed(name="b.py", cold=first(4.0, 0), warm=(first(0.4, 1984), first(0.4, 1984))),
    ]
    found = reuse_summary(typed)
    assert found["ratio"] == 0.075
    assert found["spread"][0] == 0.05
    assert found["spread"][3] == 0.1
    assert found["rows"][0]["ratios"] == [0.05, 0.1]


def _measured(parity: str, sessions: int, rate: float, *, gap: float = 0.1) -> Measured:
    return Measured(
        cell=Cell(work="decoding", parity=parity, drafting=False, sessions=sessions),
        tokens_per_s=rate,
        verdict_gaps=(gap,),
        token_gaps=(gap / 2, gap / 2),
        first_waits=(1.0,),
        blocks_per_step=1.0,
    )


def test_a_crowds_ratios_are_taken_within_a_round() -> None:
    rounds = [
        [_measured("strict", 1, 10), _measured("fast", 1, 20), _measured("strict", 8, 30), _measured("fast", 8, 50)],
        [_measured("fast", 8, 5), _measured("strict", 8, 4), _measured("fast", 1, 2), _measured("strict", 1, 1)],
    ]
    found = crowd_summary(rounds)
    assert found["ratio_8_fast_plain"] == 2.5
    assert found["ratio_8_strict_plain"] == 3.5
    assert [row["sessions"] for row in found["rows"] if row["parity"] == "strict"] == [1, 8]
    costs = {row["sessions"]: row["rate"]["median"] for row in found["strict_against_fast"]}
    assert costs == {1: 0.5, 8: 0.7}
    assert found["rows"][0]["verdict_gap_ms"] == {"p50": 100.0, "p99": 100.0}
    assert found["rows"][0]["token_gap_ms"] == {"p50": 50.0, "p99": 50.0}


def test_operations_are_products_attention_or_neither() -> None:
    found = Operations.of(
        [
            ("quantized::linear_dynamic_fp16", 2, 30.0),
            ("aten::mm", 1, 10.0),
            ("aten::_scaled_dot_product_flash_attention_for_cpu", 1, 5.0),
            ("aten::mul", 9, 3.0),
            ("aten::copy_", 9, 2.0),
        ]
    )
    assert (found.products_us, found.attention_us, found.others_us) == (40.0, 5.0, 5.0)


def test_what_is_no_product_is_the_busy_time_less_the_products_of_the_profiled_run() -> None:
    case = Case(name="decode", kind="decode", sessions=1, drafting=True)

    def account(operations: Operations | None, forward_us: float) -> Account:
        return Account(
            steps=10,
            all_steps=11,
            rows=40,
            total_rows=80,
            draft_wait_us=10_000,
            schedule_us=5_000,
            forward_us=forward_us,
            sample_us=10_000,
            deliver_us=5_000,
            operations=operations,
        )

    operations = Operations(products_us=66_000, attention_us=5_500, others_us=99_000, others={"aten::mul": 99_000})
    found = profile_summary({case: [account(None, 80_000), account(operations, 160_000)]})
    (row,) = found["rows"]
    assert row["step_ms"] == 11.0
    assert row["forward_ms"] == {"products": 6.0, "attention": 0.5, "rest": 1.5}
    assert row["share_not_products"] == found["share_not_products"]["decode"] == 0.4
    assert row["share_not_products_or_attention"] == 0.35
    assert row["share_not_products_draft_wait_included"] == round(1 - 6 / 11, 4)
    assert row["other_operations_profiled_ms"] == {"aten::mul": 9.0}
