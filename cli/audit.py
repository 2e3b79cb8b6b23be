"""`slipstream audit …`: try whether the promises hold on this machine."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import config, logs
from cli.errors import FAILED, UsageProblem
from cli.options import ConfigFile
from cli.paths import cache_folder

if TYPE_CHECKING:
    from rich.console import Console

    from evaluation.audit import Progress
    from evaluation.audit_report import Steps, Tally
    from evaluation.storm_report import Report

BOTH = ("float32", "bfloat16")
SHOWN = 10  # of the differing prompts; the JSON file has all

app = typer.Typer(help="Try whether the promises hold on this machine.", no_args_is_help=True)


@app.command()
def parity(
    prompts: Annotated[int, typer.Option(min=1, help="How many, of each dtype.")] = 1000,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write what was found, while it is being found, to a file, too."),
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float32, bfloat16 or both; else the configuration's.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Of all that is drawn: prompts, settings, disturbances.")] = 0,
    model: Annotated[str | None, typer.Option(help="The target's model; else the configuration's.")] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="More source files, or folders of them; may be given more than once."),
    ] = None,
    only: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Of all those prompts run this one alone, with its group.")
    ] = None,
    config_file: ConfigFile = None,
) -> None:
    """Compare disturbed with plain outputs: drafts of every kind, fallbacks, neighbours, reuse, either placement.

    Prompts are cut from real files in five languages. Exits with 1 if any output differs from plain decoding alone;
    the file then holds a receipt for each, and --only tries one again.
    """
    configuration = config.load(config_file)
    logs.configure(logs.LogSettings(level="error"))
    if json_file is not None and not json_file.parent.is_dir():
        raise UsageProblem(f"--json {json_file}: there is no folder {json_file.parent}")
    if only is not None and not 0 <= only < prompts:
        raise UsageProblem(f"--only {only}: must be from 0 to {prompts - 1}, one less than --prompts")
    for path in files or ():
        if not path.exists():
            raise UsageProblem(f"--files {path}: is not there")
    target = config.overridden(configuration.target, model=model, dtype=None if dtype == "both" else dtype)
    from target_server.threads import wait_politely

    wait_politely(os.environ)
    from rich.console import Console

    from evaluation.audit import AuditSettings, files_needed
    from evaluation.audit import audit as run_audit
    from evaluation.audit_sources import choose_sources, usual_places

    console = Console()
    dtypes = BOTH if dtype == "both" else (target.dtype,)
    sources = choose_sources((*usual_places(), *(files or ())), seed=seed, most=files_needed(prompts))
    console.print("files: " + ", ".join(f"{len(found)} {language}" for language, found in sources.items()))
    with _reporting(console, total=prompts) as progress:
        tallies = asyncio.run(
            run_audit(
                AuditSettings(prompts=prompts, dtypes=dtypes, seed=seed, only=only),
                target=target,
                drafts=configuration.drafts,
                sources=sources,
                cache_folder=cache_folder(),
                json_file=json_file,
                progress=progress,
            )
        )
    for tally in tallies:
        console.print(f"{tally.audited.dtype}: {tally.differing} of {tally.prompts} outputs differ from plain decoding")
        console.print(_said_of(tally.steps), highlight=False, soft_wrap=True)
        for receipt in tally.receipts[:SHOWN]:
            fields = ", ".join(difference["field"] for difference in receipt["differences"])
            place = f"{receipt['file']} at character {receipt['offset']}"
            console.print(f"  prompt {receipt['number']}, {place}: {fields}", soft_wrap=True, highlight=False)
    if any(tally.differing for tally in tallies):
        raise typer.Exit(FAILED)


def _said_of(steps: Steps) -> str:
    unmade = ", ".join(map(str, steps.unmade()))
    said = f"  {steps.larger} of {steps.made} steps had more than {steps.block_rows} rows"
    return f"{said}; none had {unmade}, though the target uses them" if unmade else said


@app.command()
def cancels(
    requests: Annotated[int, typer.Option(min=1, help="How many are left at random moments.")] = 10_000,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write what was found to a file, too.")
    ] = None,
    at_once: Annotated[int, typer.Option(min=1, max=1000, help="How many of them at once.")] = 16,
    prompt_tokens: Annotated[int, typer.Option(min=2, help="Of the longest prompt.")] = 256,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.")] = 0,
    model: Annotated[str | None, typer.Option(help="The target's model; else the configuration's.")] = None,
    config_file: ConfigFile = None,
) -> None:
    """Leave requests at random moments, by cancel, deadline or closed connection, and look for what stays behind.

    Through a real server. Exits with 1 if a sequence, slot, task, thread or connection is left, if the metrics can't be
    true, or if a control decoded beside the storm isn't what it is alone.
    """
    configuration = config.load(config_file)
    logs.configure(logs.LogSettings(level="error"))
    if json_file is not None and not json_file.parent.is_dir():
        raise UsageProblem(f"--json {json_file}: there is no folder {json_file.parent}")
    from target_server.threads import wait_politely

    wait_politely(os.environ)
    from rich.console import Console

    from evaluation.storm import StormSettings, storm

    console = Console()

    def progress(done: int) -> None:
        if done * 10 // requests > (done - 1) * 10 // requests:
            console.print(f"{done} of {requests}", highlight=False)

    report = asyncio.run(
        storm(
            StormSettings(requests=requests, at_once=at_once, seed=seed, prompt_tokens=prompt_tokens),
            target=config.overridden(configuration.target, model=model),
            cache_folder=cache_folder(),
            progress=progress,
        )
    )
    if json_file is not None:
        json_file.write_text(json.dumps(report.as_values(), indent=2) + "\n")
    _show_storm(console, report)
    if report.complaints():
        raise typer.Exit(FAILED)


def _show_storm(console: Console, report: Report) -> None:
    from rich.table import Table

    from evaluation.storm_cases import Ending, Moment
    from evaluation.storm_client import FINISHED, LEFT, TOO_LATE

    table = Table(title=f"{report.requests} requests, {report.at_once} at once, {report.seconds:.0f} s")
    table.add_column("left at")
    table.add_column("by")
    for name in (LEFT, TOO_LATE, FINISHED, "else"):
        table.add_column(name, justify="right")
    for moment in Moment:
        for ending in Ending:
            found = dict(report.outcome(moment, ending))
            counts = [found.pop(name, 0) for name in (LEFT, TOO_LATE, FINISHED)]
            table.add_row(moment, ending, *map(str, (*counts, sum(found.values()))))
    console.print(table)
    statuses = ", ".join(f"{count} {status}" for status, count in report.counted.statuses.items())
    same = report.controls - report.controls_differing
    again = report.controls_after - report.controls_after_differing
    for line in (
        f"the server counted {statuses}; {report.opened} sequences were opened",
        f"controls as they are alone: {same} of {report.controls} beside it, {again} of {report.controls_after} after",
        f"{report.after.free_slots} of {report.before.free_slots} free slots are free again, "
        f"{report.after.open_sessions} sequences open; memory grew by {report.grown_bytes / 2**20:.1f} MiB",
        *(report.complaints() or ["nothing leaked, nothing differed"]),
    ):
        console.print(line, highlight=False, soft_wrap=True)


@contextmanager
def _reporting(console: Console, *, total: int) -> Iterator[Progress]:
    """A bar for each dtype on a terminal, a line for every tenth elsewhere."""
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description:<24}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    tasks: dict[str, TaskID] = {}
    tenths: dict[str, int] = {}
    with Bars(*columns, console=console, disable=not console.is_terminal) as bars:

        def report(tallies: Sequence[Tally]) -> None:
            current = tallies[-1]
            dtype, done = current.audited.dtype, current.prompts
            said = f"{dtype}: {current.differing} differ"
            if dtype not in tasks:
                tasks[dtype] = bars.add_task(said, total=total)
            bars.update(tasks[dtype], completed=done, description=said)
            tenth = 10 * done // total
            if not console.is_terminal and tenth > tenths.get(dtype, 0):
                console.print(f"{said}, of {done} (of {total} to do)")
            tenths[dtype] = tenth

        yield report
