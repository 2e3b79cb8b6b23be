"""`slipstream target --selftest`: what this machine keeps of the promise and how fast it is, as tables and as JSON."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING

from cli.errors import FAILED
from cli.paths import cache_folder
from target_server.settings import TargetSettings

if TYPE_CHECKING:
    from rich.console import Console

    from target_server.selftest import SelfTest

MEANINGS = {
    "rows": "a token's logits, whatever its row in the block",
    "rejected": "a token's logits after a rejected draft",
    "padding": "a token's logits, whatever the keys' padded length",
    "prefill": "a token's keys and values, whatever follows it in the chunk",
}


def run_self_test(settings: TargetSettings, json_file: Path | None) -> int:
    """Load the model, try it, print what was found. Answers the exit code."""
    from rich.console import Console

    from target_server.loader import load
    from target_server.selftest import Effort, self_test
    from target_server.store import locate

    loaded = load(locate(settings.model, cache_folder(), revision=settings.revision), settings)
    found = asyncio.run(self_test(loaded, settings, effort=Effort()))
    if json_file is not None:
        json_file.write_text(json.dumps(found.as_values(), indent=2) + "\n")
    _show(Console(), found)
    return 0 if found.passed else FAILED


def _show(console: Console, found: SelfTest) -> None:
    from rich.table import Table

    parity = Table(
        title=f"{found.model} in {found.dtype} on {found.device} ({found.device_name})", title_justify="left"
    )
    parity.add_column("bitwise equal")
    parity.add_column("")
    for name, meaning in MEANINGS.items():
        parity.add_row(meaning, "yes" if getattr(found.parity, name) else "NO")
    console.print(parity)

    replayed = ", decoding replayed from CUDA graphs" if found.replayed else ""
    steps = Table(title=f"steps, {found.threads} CPU threads{replayed}", title_justify="left")
    for heading in ("blocks", "chunks", "tokens", "rows", "median ms", "least ms"):
        steps.add_column(heading, justify="right")
    for step in found.steps:
        counts = (step.blocks, step.chunks, step.rows, step.total)
        steps.add_row(*map(str, counts), f"{step.median_ms:.2f}", f"{step.least_ms:.2f}")
    console.print(steps)

    prompt, speculation = found.prompt, found.speculation
    for line in (
        f"rows of a step that decodes ({found.mode}): {_listed(found.decode_rows)}",
        f"rows of a step that prefills ({found.mode}): {_listed(found.prefill_rows)}",
        f"first token of a {prompt.tokens}-token prompt: {prompt.cold_ms:.0f} ms; "
        f"of one a token longer, {prompt.reused} tokens cached: {prompt.warm_ms:.0f} ms",
        f"drafted and together, {speculation.differing} of {speculation.prompts} outputs differ from plain and alone "
        f"({speculation.accepted} of {speculation.tokens} tokens were drafted)",
        *([f"it would not serve: {found.refusal}"] if found.refusal else []),
        "passed" if found.passed else "FAILED",
    ):
        console.print(line, highlight=False, soft_wrap=True)


def _listed(counts: tuple[int, ...]) -> str:
    return ", ".join(map(str, counts))
