"""The measurement as one table and as JSON. The JSON's keys are a contract: more may come, none may go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

from rich.table import Table

from benchmarks.peers.results import RATES, Row, hardest, identical, ratio


def table(ours: Row, rows: Sequence[Row]) -> Table:
    """A line an engine; rates over all prompts, ratios as medians over prompts with their quartiles."""
    shown = Table(title="Tokens a second, and how many times as fast ours is: median (quartiles) over prompts")
    headings = ("engine", "dtype", *RATES, "ours: decode", "ours: total", "same output")
    for heading in headings:
        shown.add_column(heading, justify="left" if heading in headings[:2] else "right", no_wrap=True)
    for row in rows:
        if not row.measured:
            shown.add_row(row.name, *["–"] * (len(headings) - 1))
            continue
        rates = (rate(row.timings) for rate in RATES.values())
        cells = ["–" if value is None else f"{value:.1f}" for value in rates]
        gains = ["1" if row is ours else str(ratio(ours, row, name) or "–") for name in ("decode", "total")]
        same = f"{identical(ours, row)} of {len(ours.timings)}"
        shown.add_row(row.name, str(row.facts.get("dtype", "")), *cells, *gains, same)
    return shown


def remarks(ours: Row, rows: Sequence[Row], *, new_tokens: int) -> list[str]:
    """What the table doesn't say: the best peers, who couldn't be measured, and who made fewer tokens than asked."""
    best = {rate: hardest(ours, rows, rate) for rate in ("total", "decode")}
    said = [f"Best peer, {rate}: {found[0]}; ours is {found[1]} as fast." for rate, found in best.items() if found]
    said += [f"{row.name} was not measured: {row.reason}" for row in rows if not row.measured]
    for row in rows:
        if row.measured and (short := sum(len(one.tokens) < new_tokens for one in row.timings)):
            said.append(f"{row.name} ended {short} of {len(row.timings)} outputs before {new_tokens} tokens.")
    return said


def as_json(ours: Row, rows: Sequence[Row]) -> dict[str, Any]:
    """Ratios are ours over theirs."""
    found: dict[str, Any] = {}
    for rate in ("total", "decode"):
        best = hardest(ours, rows, rate)
        found[f"best_{rate}"] = best and best[0]
        found[f"ratio_{rate}_vs_best"] = best and round(best[1].median, 3)
        found[f"ratio_{rate}_vs_best_quartiles"] = best and [round(best[1].low, 3), round(best[1].high, 3)]
    return found | {"rows": [_row(ours, row) for row in rows]}


def _row(ours: Row, row: Row) -> dict[str, Any]:
    written: dict[str, Any] = {"name": row.name, "ours": row.ours, "settings": row.settings, **row.facts}
    if row.trials:
        written["trials"] = [{**settings, "total_tokens_per_s": round(rate, 2)} for settings, rate in row.trials]
    if not row.measured:
        return written | {"reason": row.reason}
    for name, rate in RATES.items():
        value = rate(row.timings)
        written[f"{name}_tokens_per_s"] = None if value is None else round(value, 2)
        gain = ratio(ours, row, name)
        written[f"ratio_{name}"] = gain and [round(part, 3) for part in astuple(gain)]  # median, quartiles
    return written | {
        "prompts": len(row.timings),
        "tokens": sum(len(one.tokens) for one in row.timings),
        "identical_outputs": identical(ours, row),
        "seconds": [[round(one.first_s, 4), round(one.total_s, 4)] for one in row.timings],
    }
