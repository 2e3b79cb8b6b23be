"""`slipstream models …`: get models."""

from __future__ import annotations

import typer

app = typer.Typer(help="Get models.", no_args_is_help=True)


@app.callback()
def models() -> None:
    pass
