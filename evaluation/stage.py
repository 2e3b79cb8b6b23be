"""The demonstration on a terminal, with rich: completions streaming in colour, then tables. Plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from evaluation.demo import Show
from evaluation.fallback import Fallback, Step
from evaluation.painting import legend, painted
from evaluation.pairs import LanguageRow, Pair, mean_tokens_per_step
from evaluation.scenes import Scene
from lsp_server.suggestion import Piece

_CONTEXT_LINES = 2


class ConsoleStage:
    """Shows each completion once, speculative; of the plain one a count while it runs."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def note(self, text: str) -> None:
        self._console.print(Text(f"… {text}", style="dim"))

    @contextmanager
    def running(self, scene: Scene, *, drafting: bool) -> Iterator[Show]:
        if not self._console.is_terminal:
            yield lambda _: None
            return
        before = _context(scene)
        with Live(console=self._console, transient=True, refresh_per_second=15) as live:

            def show(pieces: Sequence[Piece]) -> None:
                plainly = Text(f"plain, to compare: {len(pieces)} tokens", style="dim")
                live.update(before + painted(pieces) if drafting else plainly)

            yield show

    def finished(self, pair: Pair) -> None:
        ours, plain = pair.speculative, pair.plain
        self._console.rule(f"{pair.scene.language}  {pair.scene.name}", align="left", style="dim")
        self._console.print(_context(pair.scene) + painted(ours.pieces), soft_wrap=True)
        self._console.print(legend(ours.sources))
        self._console.print(
            Text(
                f"{len(ours.tokens)} tokens in {ours.verify_steps} steps, {ours.accepted} of {ours.judged} judged "
                f"drafts accepted; {ours.total_ms:.0f} ms (first token {ours.first_token_ms:.0f}), "
                f"plain {plain.total_ms:.0f} ms (first {plain.first_token_ms:.0f}); ",
                style="dim",
            )
            + _identical(identical=pair.identical),
            soft_wrap=True,
        )

    def summary(self, rows: Sequence[LanguageRow]) -> None:
        table = Table(
            title="Speculative against plain by turns; times are mean milliseconds",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            collapse_padding=True,
            caption=f"{mean_tokens_per_step(rows):.2f} tokens a verify step, averaged over languages",
        )
        table.add_column("language")
        for heading in ("tokens", "accept", "tok/step", "first", "total", "plain", "faster"):
            table.add_column(heading, justify="right")
        table.add_column("identical")
        for row in rows:
            table.add_row(
                row.language,
                str(row.tokens),
                "–" if row.acceptance is None else f"{row.acceptance:.0%}",
                f"{row.tokens_per_step:.2f}",
                f"{row.ttft_ms:.0f}",
                f"{row.total_ms:.0f}",
                f"{row.plain_total_ms:.0f}",
                f"{row.plain_total_ms / row.total_ms:.2f}×",
                "[green]yes" if row.identical else "[bold red]NO",
            )
        self._console.print(table)

    def step(self, step: Step) -> None:
        line = Text(f"{step.part:<12}{step.mode:<6}{step.accepted:>3} of {step.drafted:>3} drafted accepted, ")
        line.append(f"{step.total_ms:>5.0f} ms, ")
        line += _identical(identical=step.identical)
        for event in step.transitions:
            rate = "" if event.rate is None else f", {event.rate:.0%} of {event.judged} judged"
            line.append(f"  gate: {event.before} → {event.after} ({event.reason}{rate})", style="yellow")
        self._console.print(line, soft_wrap=True)

    def verdict(self, fallback: Fallback) -> None:
        for said, held in (
            ("fell back when the drafter turned hostile", fallback.fell_back),
            ("recovered when it was healed", fallback.recovered),
            ("every output identical to plain decoding", fallback.identical),
        ):
            self._console.print(
                Text(f"{said}: ") + Text("yes" if held else "NO", style="green" if held else "bold red")
            )


def _context(scene: Scene) -> Text:
    """The last lines before the cursor."""
    lines = scene.prefix.splitlines(keepends=True)[-_CONTEXT_LINES:]
    return Text("".join(lines), style="dim")


def _identical(*, identical: bool) -> Text:
    return Text("identical", style="green") if identical else Text("DIFFERENT", style="bold red")
