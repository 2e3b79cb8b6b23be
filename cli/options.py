"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

ConfigFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Settings as TOML; else ./slipstream.toml, else slipstream.toml in the user's configuration folder.",
    ),
]
LogFormat: TypeAlias = Annotated[
    str | None, typer.Option("--log-format", metavar="auto|console|json", help="How to log, to standard error.")
]
LogLevel: TypeAlias = Annotated[
    str | None, typer.Option("--log-level", metavar="LEVEL", help="debug, info, warning or error.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]
