"""`slipstream models …`: get models."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from cli import logs
from cli.errors import UsageProblem
from cli.paths import cache_folder

if TYPE_CHECKING:
    from rich.console import Console

    from target_server.fetching import Progress, Report

STAGES = {
    "download": "downloading",
    "extract": "unpacking",
    "convert": "converting, about 20 s",
    "check": "checking",
}

app = typer.Typer(help="Get models.", no_args_is_help=True)


@app.callback()
def models() -> None:
    """So that `fetch` stays a command of its own while it is the only one."""


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help='Which model: "default" is the one there is.', show_default=False)],
) -> None:
    """Fetch a model into the cache, unless it is there: about 93 MB, kept as 270 MB."""
    logs.configure(logs.LogSettings(level="error"))
    os.environ.setdefault("TQDM_DISABLE", "1")  # the converter's bar would draw over ours
    from rich.console import Console

    from target_server.fetching import fetch_default
    from target_server.store import DEFAULT

    if name != DEFAULT:
        raise UsageProblem(
            f"{name}: only {DEFAULT!r} can be fetched; give another model to `slipstream target --model`, as a folder "
            "or a hub id"
        )
    with _reporting(Console(stderr=True)) as report:
        folder = fetch_default(cache_folder(), report=report)
    typer.echo(f"{name} is in {folder}")


@contextmanager
def _reporting(console: Console) -> Iterator[Report]:
    """A bar for each stage on a terminal, a line for each elsewhere."""
    from rich.progress import BarColumn, DownloadColumn, TaskID, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description:<24}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    tasks: dict[str, TaskID] = {}
    with Bars(*columns, console=console, disable=not console.is_terminal) as bars:

        def report(progress: Progress) -> None:
            said = STAGES.get(progress.stage, progress.stage)
            if progress.stage not in tasks:
                tasks[progress.stage] = bars.add_task(said)
                if not console.is_terminal:
                    console.print(said)
            bars.update(tasks[progress.stage], completed=progress.done, total=progress.total or None)

        yield report
