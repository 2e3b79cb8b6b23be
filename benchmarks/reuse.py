"""Time to the first token of a long prompt: computed anew, and with one more character typed behind it.

    python benchmarks/reuse.py [--model NAME] [--prompts 8] [--tokens 2000] [--keystrokes 3] [--json FILE]

The engine runs in this process. Each prompt is the beginning of another file, opened once cold; then each further
character of the file is typed, the text encoded anew, and opened again. What each open reuses is the engine's own
count. At the end each last text is computed by an engine that retains nothing: its first token must be the same.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.figures import middle, write
from benchmarks.source_texts import SourceText, source_texts
from cli import logs
from cli.paths import cache_folder
from decoding.drafting import Draft
from decoding.errors import SlipstreamError
from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules
from decoding.verdict import DecodeRequest
from drafts.settings import DraftSettings
from evaluation.errors import EvaluationFailed
from target_server.lifecycle import Served
from target_server.loading import load
from target_server.settings import TargetSettings
from target_server.threads import wait_politely

OUT = Path(__file__).parent / "out" / "reuse.json"
ROOM_TOKENS = 48  # for what is typed, and one token of output


@dataclass(frozen=True, slots=True, kw_only=True)
class First:
    """One open. seconds: from the text to the first token, encoding included."""

    seconds: float
    tokens: int
    cached: int
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """One file: opened cold, then after each keystroke."""

    name: str
    cold: First
    warm: tuple[First, ...]

    @property
    def ratios(self) -> list[float]:
        return [each.seconds / self.cold.seconds for each in self.warm]


async def first_token(served: Served, text: str) -> First:
    """Open a sequence and have its first token decided."""
    start = time.perf_counter()
    prompt = served.vocabulary.encode(text)
    request = DecodeRequest(
        prompt=prompt,
        sampling=SamplingConfig(),
        stop=StopRules(max_tokens=1),
        language="python",
        drafter="",
        tokenizer_fingerprint=served.vocabulary.fingerprint,
        request_id="benchmark",
    )
    async with served.target.open(request) as verifier:
        verdict = await verifier.verify(Draft(position=len(prompt), tokens=(), sampling_fingerprint=""))
        seconds = time.perf_counter() - start
        cached = verifier.opened.cached_tokens
    return First(seconds=seconds, tokens=len(prompt), cached=cached, token=verdict.tokens[0])


async def measure(served: Served, texts: Sequence[SourceText]) -> list[Typed]:
    """The first text warms up. Raises EvaluationFailed where a cold prompt was not cold."""
    found = []
    for text in texts:
        cold = await first_token(served, text.text)
        if cold.cached:
            raise EvaluationFailed(f"{text.name}: {cold.cached} tokens of its prompt were there before")
        warm = [await first_token(served, text.text + text.rest[:count]) for count in range(1, len(text.rest) + 1)]
        found.append(Typed(name=text.name, cold=cold, warm=tuple(warm)))
    return found[1:]


async def check(served: Served, texts: Sequence[SourceText], typed: Sequence[Typed]) -> None:
    """Against an engine that retains nothing. Raises EvaluationFailed."""
    for text, each in zip(texts, typed, strict=True):
        alone = await first_token(served, text.text + text.rest)
        if alone.cached or alone.token != each.warm[-1].token:
            raise EvaluationFailed(f"{text.name}: the first token differs with reuse")


def summary(typed: Sequence[Typed]) -> dict[str, Any]:
    """`ratio`: of the first character typed. Times are medians over prompts, in milliseconds."""
    first = [each.ratios[0] for each in typed]
    return {
        "ratio": round(median(first), 4),
        "spread": middle(first, 4)["spread"],
        "ratio_all_keystrokes": middle([ratio for each in typed for ratio in each.ratios], 4),
        "cold_ms": middle([each.cold.seconds * 1000 for each in typed], 1),
        "warm_ms": middle([each.warm[0].seconds * 1000 for each in typed], 1),
        "rows": [
            {
                "prompt": each.name,
                "tokens": each.cold.tokens,
                "cold_ms": round(each.cold.seconds * 1000, 1),
                "warm_ms": [round(warm.seconds * 1000, 1) for warm in each.warm],
                "cached_tokens": [warm.cached for warm in each.warm],
                "ratios": [round(ratio, 4) for ratio in each.ratios],
            }
            for each in typed
        ],
    }


def show(console: Console, found: dict[str, Any]) -> None:
    table = Table(title="Time to the first token, cold and with one character typed")
    for heading in ("prompt", "tokens", "cold, ms", "warm, ms", "reused", "ratio", "later keystrokes"):
        table.add_column(heading, justify="left" if heading == "prompt" else "right")
    for row in found["rows"]:
        later = ", ".join(f"{ratio:.1%}" for ratio in row["ratios"][1:])
        cells = (f"{row['cold_ms']:.0f}", f"{row['warm_ms'][0]:.0f}", str(row["cached_tokens"][0]))
        table.add_row(row["prompt"], str(row["tokens"]), *cells, f"{row['ratios'][0]:.1%}", later)
    console.print(table)
    least, _, _, greatest = found["spread"]
    console.print(f"Median ratio {found['ratio']:.1%}, from {least:.1%} to {greatest:.1%}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default="default")
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=2000, help="of each prompt")
    parser.add_argument("--keystrokes", type=int, default=3, help="1 or more")
    parser.add_argument("--json", type=Path, default=OUT)
    options = parser.parse_args()
    logs.configure(logs.LogSettings(level="warning"))
    wait_politely(os.environ)
    from benchmarks.steps import machine  # imports torch, which must hear of it first

    longest = options.tokens + options.keystrokes
    settings = TargetSettings(
        model=options.model,
        context_tokens=longest + ROOM_TOKENS,
        prompt_tokens=longest,
        sessions=1,
        retained_prefixes=2,
    )
    try:
        served = load(settings, DraftSettings(), cache_folder=cache_folder())
        room = {"tokens": options.tokens, "rest": options.keystrokes}
        texts = source_texts(served.vocabulary, count=options.prompts + 1, **room)
        typed = asyncio.run(_closing(served, measure(served, texts)))
        alone = load(replace(settings, retained_prefixes=0), DraftSettings(), cache_folder=cache_folder())
        asyncio.run(_closing(alone, check(alone, texts[1:], typed)))
    except SlipstreamError as error:
        sys.exit(f"benchmark: {error}")
    found = summary(typed)
    show(Console(), found)
    write(
        options.json,
        {
            "what": "engine in process; seconds from the text to the first token, encoding included; ratio warm / cold",
            **found,
            "identical": True,
            "settings": {name: getattr(options, name) for name in ("model", "prompts", "tokens", "keystrokes")}
            | {"prefill_rows": settings.prefill_rows},
            "model": {"revision": served.description.model_revision, "dtype": served.description.dtype},
            "machine": machine(),
        },
    )


async def _closing(served: Served, work: Any) -> Any:
    try:
        return await work
    finally:
        await served.close()


if __name__ == "__main__":
    main()
