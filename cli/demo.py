"""`slipstream demo`: the main job, shown in about two minutes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from cli import config, logs
from cli.errors import FAILED, UsageProblem
from cli.options import ConfigFile
from cli.paths import cache_folder


def demo(
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the figures to a file, too.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The target's model; else the configuration's.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Tokens of each completion at most.")] = None,
    examples: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Files to complete in, with their cursors.toml.")
    ] = None,
    config_file: ConfigFile = None,
) -> None:
    """Complete real files in five languages through real servers, speculative and plain; then turn a drafter hostile.

    Exits with 1 if any output differed from plain decoding, or the gate did not fall back and recover.
    """
    configuration = config.load(config_file)
    logs.configure(logs.LogSettings(level="error"))
    if json_file is not None and not json_file.parent.is_dir():
        raise UsageProblem(f"--json {json_file}: there is no folder {json_file.parent}")
    from rich.console import Console

    from evaluation.demo import DemoSettings, demonstrate
    from evaluation.fallback import FallbackSettings
    from evaluation.report import as_json
    from evaluation.scenes import EXAMPLES, load_scenes
    from evaluation.stage import ConsoleStage

    settings = config.overridden(
        DemoSettings(fallback=FallbackSettings(usual=configuration.gate)), max_tokens=max_tokens
    )
    ourselves = [sys.executable, "-m", "cli"]
    shared = ["--log-format", "json", *(["--config", str(configuration.path)] if configuration.path else [])]
    local = ["--host", "127.0.0.1", "--port", "0", "--http-host", "127.0.0.1", "--http-port", "0"]
    report = asyncio.run(
        demonstrate(
            target=[*ourselves, "target", *local, *shared, *(["--model", model] if model else [])],
            language_server=[*ourselves, "lsp", "--stdio", *shared],
            scenes=load_scenes(examples or EXAMPLES),
            drafts=configuration.drafts,
            cache_folder=cache_folder(),
            stage=ConsoleStage(Console()),
            settings=settings,
        )
    )
    if json_file is not None:
        json_file.write_text(as_json(report) + "\n", encoding="utf-8")
    if not report.good:
        raise typer.Exit(FAILED)
