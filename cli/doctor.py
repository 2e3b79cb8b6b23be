"""`slipstream doctor`: is everything there that the servers need, and what to do about what is not."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Annotated

import typer

from cli import logs
from cli.errors import FAILED
from cli.options import AsJson, ConfigFile
from cli.paths import cache_folder

if TYPE_CHECKING:
    from cli.checks import Finding

COLOURS = {"ok": typer.colors.GREEN, "warn": typer.colors.YELLOW, "fail": typer.colors.RED}


def doctor(
    target: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="The target to ask.")] = None,
    as_json: AsJson = False,
    config_file: ConfigFile = None,
) -> None:
    """Check the set-up and say what to do. Exits with 1 if something fails."""
    logs.configure(logs.LogSettings(level="error"))
    from cli.checks import findings

    found = []
    for finding in findings(config_file, cache_folder(), target=target):
        found.append(finding)
        if not as_json:
            _tell(finding)
    failed = any(finding.state == "fail" for finding in found)
    if as_json:
        typer.echo(json.dumps({"ok": not failed, "checks": [dataclasses.asdict(one) for one in found]}, indent=2))
    if failed:
        raise typer.Exit(FAILED)


def _tell(finding: Finding) -> None:
    state = typer.style(f"{finding.state:<5}", fg=COLOURS[finding.state])
    typer.echo(f"{state} {finding.name:<16} {finding.detail}")
    if finding.remedy:
        typer.echo(f"{'':<23}→ {finding.remedy}")
