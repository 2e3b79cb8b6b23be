"""`slipstream complete`: one completion at a place in a file, through the same client that editors use."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import config, logs
from cli.errors import UsageProblem
from cli.options import AsJson, ConfigFile
from cli.paths import cache_folder
from cli.source import read_source, split_at
from decoding.errors import TargetUnavailable
from lsp_server.settings import LspSettings

if TYPE_CHECKING:
    from lsp_server.suggestion import CompletionRequest, CompletionResult, Piece, Progress

DEADLINE_S = 120.0


def complete(
    file: Annotated[Path, typer.Argument(help="The file to complete in, UTF-8.", show_default=False)],
    line: Annotated[int, typer.Option(help="Line, from 1, as editors show it.", show_default=False)],
    column: Annotated[int, typer.Option(help="Column, from 1; n is before the nth character.", show_default=False)],
    plain: Annotated[bool, typer.Option("--plain", help="Never speculate; the output is the same.")] = False,
    seed: Annotated[int | None, typer.Option(help="Fixes the output at a temperature over 0.")] = None,
    temperature: Annotated[float | None, typer.Option(help="0 is greedy, else 0.001 to 100.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Tokens to write at most, 1 to 4096.")] = None,
    target: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="The target's gRPC address.")] = None,
    as_json: AsJson = False,
    config_file: ConfigFile = None,
) -> None:
    """Complete FILE at a place: stream it in the colours of who proposed each token, or print it."""
    configuration = config.load(config_file)
    settings = config.overridden(
        configuration.lsp,
        target=target,
        temperature=temperature,
        seed=seed,
        max_tokens=max_tokens,
        drafting=False if plain else None,
    )
    logs.configure(logs.LogSettings(level="error"))
    text = read_source(file, max_bytes=settings.max_document_bytes, private=settings.private)
    prefix, suffix = split_at(text, line, column, path=file)
    request = _request(file, prefix, suffix, settings)

    def ask(deliver: Callable[[Progress], None]) -> CompletionResult:
        return asyncio.run(_ask(request, settings, configuration, deliver))

    if as_json:
        typer.echo(json.dumps(as_object(ask(lambda _: None)), indent=2))
    elif sys.stdout.isatty():
        _stream(ask)
    else:
        typer.echo(ask(lambda _: None).text)


def as_object(result: CompletionResult) -> dict[str, object]:
    """A completion as JSON has it. `positions` of the receipt: of the first token and behind the last one."""
    counts = result.statistics
    return {
        "text": result.text,
        "raw_text": result.raw_text,
        "tokens": result.tokens,
        "sources": result.sources,
        "language": result.language,
        "drafter": result.drafter,
        "mode": result.mode,
        "finish": result.finish,
        "statistics": dataclasses.asdict(counts),
        "first_token_ms": result.first_token_ms,
        "total_ms": result.total_ms,
        "receipt": {
            "seed": result.seed,
            "positions": [counts.prompt_tokens, counts.prompt_tokens + counts.emitted_tokens],
            "noise_version": result.noise_version,
        },
    }


def _request(file: Path, prefix: str, suffix: str, settings: LspSettings) -> CompletionRequest:
    from lsp_server.suggestion import CompletionRequest

    if not prefix.strip():
        raise UsageProblem(f"nothing but blanks before the position in {file}: there is nothing to go by")
    return CompletionRequest(
        request_id=f"cli-{uuid.uuid4().hex[:12]}",
        prefix=prefix,
        suffix=suffix,
        path=str(file),
        sampling=settings.sampling,
        stop=settings.stop,
        prompt_tokens=settings.prompt_tokens,
        drafting=settings.drafting,
        placement=settings.placement,
        deadline_s=DEADLINE_S,
    )


async def _ask(
    request: CompletionRequest,
    settings: LspSettings,
    configuration: config.Configuration,
    deliver: Callable[[Progress], None],
) -> CompletionResult:
    from lsp_server.completion import CompletionService
    from lsp_server.connection import ConnectionSettings
    from lsp_server.target_client import TargetClient

    client = TargetClient(
        settings.target,
        cache_folder=cache_folder(),
        settings=ConnectionSettings(connect_timeout_s=settings.connect_timeout_ms / 1000),
    )
    try:
        service = CompletionService(
            client,
            drafts=configuration.drafts,
            gate=configuration.gate,
            guard=configuration.guard,
            budget=configuration.budget,
        )
        return await service.complete(request, deliver=deliver)
    except TargetUnavailable as error:
        raise TargetUnavailable(
            f"no target answers at {settings.target} ({error}); start one with `slipstream target`, "
            "or name another with --target"
        ) from error
    finally:
        await client.close()


def _stream(ask: Callable[[Callable[[Progress], None]], CompletionResult]) -> None:
    """Show the completion as it comes, then as it would be inserted, and what it cost."""
    from rich.console import Console
    from rich.live import Live

    from evaluation.painting import legend, painted

    console = Console()
    pieces: list[Piece] = []
    with Live(console=console, refresh_per_second=15) as live:

        def deliver(progress: Progress) -> None:
            pieces.extend(progress.pieces)
            live.update(painted(pieces))

        result = ask(deliver)
        live.update(painted(pieces, limit=len(result.text)))
    counts = result.statistics
    notes = Console(stderr=True, highlight=False, style="dim")
    notes.print(legend(result.sources))
    notes.print(
        f"{counts.emitted_tokens} tokens in {counts.verify_steps} steps, {counts.accepted_tokens} of "
        f"{counts.judged_tokens} judged drafts accepted; first token {result.first_token_ms or 0:.0f} ms, "
        f"total {result.total_ms:.0f} ms; seed {result.seed}, {result.language}, {result.drafter or 'no drafter'}"
    )
