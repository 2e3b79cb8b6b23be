"""What a crowd's cells come to: rates and ratios with their spread, gaps between tokens, and the cost of parity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.figures import middle, percentile


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What is run. work: "decoding" or "arrivals"; parity: "strict" or "fast"; drafting: speculative or plain."""

    work: str
    parity: str
    drafting: bool
    sessions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A cell run once. Seconds: between a session's verdicts, between its tokens, to its first tokens.

    blocks_per_step: sessions that shared a step that decoded.
    """

    cell: Cell
    tokens_per_s: float
    verdict_gaps: tuple[float, ...]
    token_gaps: tuple[float, ...]
    first_waits: tuple[float, ...]
    blocks_per_step: float


def summary(rounds: Sequence[Sequence[Measured]]) -> dict[str, Any]:
    """A row a cell, medians over rounds; gaps and waits pooled over rounds. Then strict against fast."""
    cells = list(dict.fromkeys(each.cell for found in rounds for each in found))
    cells.sort(key=lambda cell: (cell.work != "decoding", cell.drafting, cell.parity != "strict", cell.sessions))
    by_cell = [{each.cell: each for each in found} for found in rounds]
    rows = [_row(cell, by_cell) for cell in cells]
    costs = []
    for cell in cells:
        if cell.parity == "strict":
            fast = _with(cell, parity="fast")
            ratios = [found[cell].tokens_per_s / found[fast].tokens_per_s for found in by_cell]
            costs.append(
                {"work": cell.work, "drafting": cell.drafting, "sessions": cell.sessions, "rate": middle(ratios)}
            )
    named = {
        f"ratio_8_{row['parity']}_{'speculative' if row['drafting'] else 'plain'}": row["ratio_to_one"]["median"]
        for row in rows
        if row["work"] == "decoding" and row["sessions"] == 8
    }
    return {**named, "rows": rows, "strict_against_fast": costs}


def _row(cell: Cell, by_cell: Sequence[dict[Cell, Measured]]) -> dict[str, Any]:
    one = _with(cell, sessions=1)
    runs = [found[cell] for found in by_cell]
    gaps = [gap * 1000 for run in runs for gap in run.verdict_gaps]
    tokens = [gap * 1000 for run in runs for gap in run.token_gaps]
    firsts = [wait * 1000 for run in runs for wait in run.first_waits]
    return {
        "work": cell.work,
        "parity": cell.parity,
        "drafting": cell.drafting,
        "sessions": cell.sessions,
        "tokens_per_s": middle([run.tokens_per_s for run in runs], 1),
        "ratio_to_one": middle([found[cell].tokens_per_s / found[one].tokens_per_s for found in by_cell]),
        "blocks_per_step": round(sum(run.blocks_per_step for run in runs) / len(runs), 2),
        "verdict_gap_ms": _percentiles(gaps),
        "token_gap_ms": _percentiles(tokens),
        "first_token_ms": _percentiles(firsts),
        "gaps": len(gaps),
    }


def _percentiles(values: Sequence[float]) -> dict[str, float] | None:
    return {f"p{percent}": round(percentile(values, percent), 1) for percent in (50, 99)} if values else None


def _with(cell: Cell, *, parity: str | None = None, sessions: int | None = None) -> Cell:
    return Cell(
        work=cell.work,
        parity=parity or cell.parity,
        drafting=cell.drafting,
        sessions=sessions or cell.sessions,
    )


def show(console: Console, found: dict[str, Any]) -> None:
    table = Table(title="Sessions at once")
    left = ("work", "parity", "decoding")
    right = ("sessions", "tokens/s", "to one", "blocks a step", "verdicts, p99 ms", "tokens, p99 ms", "first, p50 ms")
    for heading in left + right:
        table.add_column(heading, justify="left" if heading in left else "right")
    for row in found["rows"]:
        gaps, tokens, first = row["verdict_gap_ms"], row["token_gap_ms"], row["first_token_ms"]
        low, high = row["ratio_to_one"]["spread"][0], row["ratio_to_one"]["spread"][3]
        table.add_row(
            row["work"],
            row["parity"],
            "speculative" if row["drafting"] else "plain",
            str(row["sessions"]),
            f"{row['tokens_per_s']['median']:.1f}",
            f"{row['ratio_to_one']['median']:.2f}× ({low:.2f}–{high:.2f})",
            f"{row['blocks_per_step']:.2f}",
            *("–" if each is None else f"{each['p99']:.0f}" for each in (gaps, tokens)),
            "–" if first is None else f"{first['p50']:.0f}",
        )
    console.print(table)
    table = Table(title="Strict parity against fast: tokens/s, least to greatest over rounds")
    for heading in ("work", "decoding", "sessions", "strict / fast"):
        table.add_column(heading, justify="right" if heading in ("sessions", "strict / fast") else "left")
    for row in found["strict_against_fast"]:
        low, high = row["rate"]["spread"][0], row["rate"]["spread"][3]
        kind = "speculative" if row["drafting"] else "plain"
        rate = f"{row['rate']['median']:.3f} ({low:.3f}–{high:.3f})"
        table.add_row(row["work"], kind, str(row["sessions"]), rate)
    console.print(table)
