"""`slipstream target` and `slipstream lsp`: the two servers, with settings from file and command line."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import config, logs
from cli.errors import UsageProblem
from cli.options import ConfigFile, LogFormat, LogLevel
from cli.paths import cache_folder

if TYPE_CHECKING:
    from target_server.lifecycle import Served


def target(
    model: Annotated[str | None, typer.Option(help='"default", a folder, or a hub id.')] = None,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub id.")] = None,
    dtype: Annotated[str | None, typer.Option(help="auto, float32, bfloat16 or float16.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:N.")] = None,
    host: Annotated[str | None, typer.Option(help="Where gRPC listens.")] = None,
    port: Annotated[int | None, typer.Option(help="gRPC's port; 0 takes a free one.")] = None,
    http_host: Annotated[str | None, typer.Option(help="Where metrics and the status page listen.")] = None,
    http_port: Annotated[int | None, typer.Option(help="Their port; 0 takes a free one.")] = None,
    selftest: Annotated[
        bool, typer.Option("--selftest", help="Check parity and time steps instead; exits with 1 where parity fails.")
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write what --selftest found to a file, too.")
    ] = None,
    log_format: LogFormat = None,
    log_level: LogLevel = None,
    config_file: ConfigFile = None,
) -> None:
    """Serve a target model over gRPC, with metrics over HTTP, until SIGTERM or SIGINT."""
    if json_file is not None and not selftest:
        raise UsageProblem("--json is for --selftest: give both, or neither")
    if json_file is not None and not json_file.parent.is_dir():
        raise UsageProblem(f"--json {json_file}: there is no folder {json_file.parent}")
    configuration = config.load(config_file)
    logs.configure(config.overridden(configuration.log, format=log_format, level=log_level))
    settings = config.overridden(
        configuration.target,
        model=model,
        revision=revision,
        dtype=dtype,
        device=device,
        host=host,
        port=port,
        http_host=http_host,
        http_port=http_port,
    )
    from target_server.threads import wait_politely

    wait_politely(os.environ)
    if selftest:
        from cli.selftest import run_self_test

        raise typer.Exit(run_self_test(settings, json_file))
    from target_server.loading import load
    from target_server.server import serve

    def loaded() -> Served:
        return load(settings, configuration.drafts, cache_folder=cache_folder())

    asyncio.run(
        serve(settings, configuration.gate, guard=configuration.guard, budget=configuration.budget, load=loaded)
    )


def lsp(
    tcp: Annotated[bool, typer.Option("--tcp/--stdio", help="Listen for TCP, or serve standard input.")] = False,
    host: Annotated[str | None, typer.Option(help="Where to listen for TCP.")] = None,
    port: Annotated[int | None, typer.Option(help="TCP's port; 0 takes a free one.")] = None,
    target: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="The target's gRPC address.")] = None,
    log_format: LogFormat = None,
    log_level: LogLevel = None,
    config_file: ConfigFile = None,
) -> None:
    """Serve an editor over LSP."""
    configuration = config.load(config_file)
    logs.configure(config.overridden(configuration.log, format=log_format, level=log_level))
    settings = config.overridden(configuration.lsp, host=host, port=port, target=target)
    from lsp_server.server import run_stdio, run_tcp
    from lsp_server.services import Services

    run = run_tcp if tcp else run_stdio
    services = Services(
        drafts=configuration.drafts,
        gate=configuration.gate,
        guard=configuration.guard,
        budget=configuration.budget,
        cache_folder=cache_folder(),
    )
    sys.exit(run(settings, services))
