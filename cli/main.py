"""The command `slipstream`: its subcommands, and how an error becomes a message and an exit code.

Imports nothing heavy: a command's module does that when it runs. Exit codes: 0, 1 for a failure, 2 for wrong usage or
configuration; messages go to standard error, without tracebacks.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from cli import audit, complete, demo, doctor, drafts, models, serving
from cli.errors import FAILED, exit_code
from decoding.errors import SlipstreamError
from decoding.traces import trace

DISK_TROUBLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)  # which nobody else can name: standard output's

app = typer.Typer(
    name="slipstream",
    help="Streamed speculative code completion for editors, whose speculation cannot change a token.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("target")(serving.target)
app.command("lsp")(serving.lsp)
app.command("complete")(complete.complete)
app.command("doctor")(doctor.doctor)
app.command("demo")(demo.demo)
app.add_typer(audit.app, name="audit")
app.add_typer(models.app, name="models")
app.add_typer(drafts.app, name="drafts")


@app.callback(invoke_without_command=True)
def slipstream(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    if show_version:
        typer.echo(f"slipstream {version('slipstream-completion')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command line, the process's own if None, and exit."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its errors reach us as exceptions; its log would be a second one
    try:
        app(arguments, prog_name="slipstream")
    except SlipstreamError as error:
        typer.echo(f"slipstream: {error}", err=True)
        sys.exit(exit_code(error))
    except Exception as error:  # a bug: say where it is, without what it choked on
        if isinstance(error, OSError) and error.errno in DISK_TROUBLE:
            typer.echo(f"slipstream: {error.strerror}", err=True)
            sys.exit(FAILED)
        lines = trace(error)
        typer.echo(f"slipstream: internal error, please report it: {lines[0]}{lines[-1]}", err=True)
        sys.exit(FAILED)
