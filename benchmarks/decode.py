"""Speculative decoding against plain: same process, same model, same prompts, by turns; ratios, never times.

    python benchmarks/decode.py [--model NAME] [--rounds 3] [--max-tokens 64] [--prompt-tokens 512]
                                [--hostile-requests 32] [--overhead-turns 24] [--json FILE]

The engine runs in this process: no socket, no editor; it retains no prompts, so that each is computed. Every prompt is
decoded both ways in each round, the order changing from prompt to prompt. Decoding is what follows the first chunk, so
it excludes the prompt's prefill; total includes it. Both ways must emit the same tokens, or this fails. Then hostile
text, and what a switched-off drafter costs (benchmarks/hostile.py).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import hostile
from benchmarks.figures import spread, write
from cli import logs
from cli.paths import cache_folder
from decoding.drafting import Drafter, DraftingRequest
from decoding.errors import SlipstreamError
from decoding.sampling import SamplingConfig
from decoding.session import Mode, Session
from decoding.stopping import StopRules
from decoding.verdict import DecodeRequest
from drafts.registry import DrafterRegistry
from drafts.settings import DraftSettings
from drafts.speculation import speculate
from evaluation.errors import EvaluationFailed
from evaluation.scenes import Scene, load_scenes
from target_server.lifecycle import Served
from target_server.loading import load
from target_server.settings import TargetSettings
from target_server.threads import wait_politely

OUT = Path(__file__).parent / "out" / "decode.json"
AHEAD_CHARACTERS = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One prompt decoded once. first_s, total_s: seconds from opening to the first chunk, and to the end."""

    tokens: tuple[int, ...]
    first_tokens: int
    first_s: float
    total_s: float
    steps: int
    judged: int
    accepted: int

    @property
    def decode_s_per_token(self) -> float:
        """Seconds a token after the first chunk."""
        return (self.total_s - self.first_s) / (len(self.tokens) - self.first_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One prompt, both ways, in one round."""

    language: str
    speculative: Run
    plain: Run

    @property
    def speedup_decode(self) -> float:
        return self.plain.decode_s_per_token / self.speculative.decode_s_per_token

    @property
    def speedup_total(self) -> float:
        return self.plain.total_s / self.speculative.total_s

    @property
    def tokens_per_step(self) -> float:
        return len(self.speculative.tokens) / self.speculative.steps


FIGURES = ("speedup_decode", "speedup_total", "tokens_per_step")


async def decode(served: Served, scene: Scene, drafter: Drafter | None, *, prompt_tokens: int, max_tokens: int) -> Run:
    """Decode a scene's prompt as the editor's side would, plainly without drafter; drafts may look ahead."""
    vocabulary, description = served.vocabulary, served.description
    request = DecodeRequest(
        prompt=vocabulary.encode(scene.prefix)[-prompt_tokens:],
        sampling=SamplingConfig(),
        stop=StopRules(max_tokens=max_tokens),
        language=scene.language,
        drafter=drafter.name if drafter else "",
        tokenizer_fingerprint=vocabulary.fingerprint,
        request_id="benchmark",
    )
    session = Session(
        request,
        mode=Mode.EDGE if drafter else Mode.PLAIN,
        block_rows=description.limits.block_rows,
        context_length=description.context_length,
        token_bytes=vocabulary.token_bytes,
        end_of_text=description.end_of_text_ids,
    )
    ahead = vocabulary.encode(scene.suffix[:AHEAD_CHARACTERS])
    start = time.perf_counter()
    drafting = None
    if drafter:
        drafting = drafter.open(
            DraftingRequest(prompt=request.prompt, language=scene.language, sampling=request.sampling, buffers=(ahead,))
        )
    first: tuple[float, int] | None = None
    tokens: list[int] = []
    async with served.target.open(request) as verifier:
        async with aclosing(speculate(session, drafting, verifier, clock=time.perf_counter_ns)) as chunks:
            async for chunk in chunks:
                tokens += chunk.tokens
                first = first or (time.perf_counter() - start, len(tokens))
        total = time.perf_counter() - start
    if first is None or len(tokens) <= first[1]:
        raise EvaluationFailed(f"{scene.name}: too short an output to measure, {len(tokens)} tokens")
    counts = session.statistics
    return Run(
        tokens=tuple(tokens),
        first_tokens=first[1],
        first_s=first[0],
        total_s=total,
        steps=counts.verify_steps,
        judged=counts.judged_tokens,
        accepted=counts.accepted_tokens,
    )


async def measure(served: Served, scenes: Sequence[Scene], options: argparse.Namespace) -> list[Sample]:
    """All samples; one decode before them isn't measured. Raises EvaluationFailed where outputs differ."""
    registry = DrafterRegistry(DraftSettings(), served.vocabulary)

    async def run(scene: Scene, *, drafting: bool) -> Run:
        drafter = registry.for_language(scene.language) if drafting else None
        return await decode(served, scene, drafter, prompt_tokens=options.prompt_tokens, max_tokens=options.max_tokens)

    await run(scenes[0], drafting=True)
    samples = []
    for turn in range(options.rounds):
        for number, scene in enumerate(scenes):
            order = (True, False) if (turn + number) % 2 == 0 else (False, True)
            runs = {drafting: await run(scene, drafting=drafting) for drafting in order}
            if runs[True].tokens != runs[False].tokens:
                raise EvaluationFailed(f"{scene.name}: speculative and plain output differ")
            samples.append(Sample(language=scene.language, speculative=runs[True], plain=runs[False]))
    return samples


def summary(samples: Sequence[Sample]) -> dict[str, Any]:
    """Medians over samples, and beside them their spread: least, quartiles, greatest."""
    values = {name: [getattr(sample, name) for sample in samples] for name in FIGURES}
    found: dict[str, Any] = {name: round(median(values[name]), 3) for name in FIGURES}
    judged = sum(sample.speculative.judged for sample in samples)
    accepted = sum(sample.speculative.accepted for sample in samples)
    return (
        found
        | {"acceptance": round(accepted / judged, 4) if judged else None}
        | {"spread": {name: spread(values[name]) for name in FIGURES}}
    )


def by_language(samples: Sequence[Sample]) -> dict[str, dict[str, Any]]:
    languages = dict.fromkeys(sample.language for sample in samples)
    return {name: summary([sample for sample in samples if sample.language == name]) for name in languages}


def show(
    console: Console, whole: dict[str, Any], languages: dict[str, dict[str, Any]], steps: dict[str, float]
) -> None:
    table = Table(title="Speculative against plain, medians (least to greatest)")
    for heading in ("language", "decode", "total", "tokens a step", "acceptance"):
        table.add_column(heading, justify="left" if heading == "language" else "right")
    for name, row in [*languages.items(), ("all", whole)]:
        cells = (f"{row[key]:.2f}× ({row['spread'][key][0]:.2f}–{row['spread'][key][3]:.2f})" for key in FIGURES[:2])
        rate = "–" if row["acceptance"] is None else f"{row['acceptance']:.0%}"
        table.add_row(name, *cells, f"{row['tokens_per_step']:.2f}", rate)
    console.print(table)
    console.print(
        f"A plain step takes {steps['plain_ms']} ms, of a full block {steps['block_ms']} ms, and of one row "
        f"by itself {steps['one_row_ms']} ms: without strict parity, plain decoding could be "
        f"{steps['plain_ms'] / steps['one_row_ms']:.2f}× as fast as plain here."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default="default")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--hostile-requests", type=int, default=32, help="of each kind of text; 0 leaves them out")
    parser.add_argument("--overhead-turns", type=int, default=24, help="0 leaves them out")
    parser.add_argument("--json", type=Path, default=OUT)
    options = parser.parse_args()
    logs.configure(logs.LogSettings(level="warning"))
    wait_politely(os.environ)
    from benchmarks.steps import machine, step_costs  # imports torch, which must hear of it first

    settings = TargetSettings(model=options.model, retained_prefixes=0)
    try:
        steps = step_costs(settings, cache_folder=cache_folder())
        served = load(settings, DraftSettings(), cache_folder=cache_folder())
        samples, other = asyncio.run(_measured(served, options))
    except SlipstreamError as error:
        sys.exit(f"benchmark: {error}")
    whole, languages = summary(samples), by_language(samples)
    console = Console()
    show(console, whole, languages, steps)
    if "hostile" in other:
        hostile.show(console, other)
    if "disabled" in other:
        console.print(
            f"Drafting switched off by the gate costs {other['disabled_overhead']:+.2%} against the target's bare run, "
            f"told not to draft {other['disabled']['told_not_to']['median']:+.2%} (medians of "
            f"{other['disabled']['turns']} turns)."
        )
    names = ("model", "rounds", "max_tokens", "prompt_tokens", "hostile_requests", "overhead_turns")
    write(
        options.json,
        {
            "what": "engine in process, edge drafting; decode excludes the prompt's prefill, total includes it",
            **whole,
            **other,
            "languages": languages,
            "samples": len(samples),
            "identical": True,
            "step_ms": steps,
            "settings": {name: getattr(options, name) for name in names},
            "model": {"revision": served.description.model_revision, "dtype": served.description.dtype},
            "machine": machine(),
        },
    )


async def _measured(served: Served, options: argparse.Namespace) -> tuple[list[Sample], dict[str, Any]]:
    scenes = load_scenes()
    try:
        samples = await measure(served, scenes, options)
        other: dict[str, Any] = {}
        if options.hostile_requests:
            pairs = await hostile.hostile_pairs(
                served, requests=options.hostile_requests, max_tokens=options.max_tokens
            )
            other |= hostile.hostile_summary(pairs)
        if options.overhead_turns:
            extra = await hostile.overhead(
                served, scenes, requests=options.overhead_turns, max_tokens=options.max_tokens
            )
            other |= {"disabled_overhead": extra["by_gate"]["median"], "disabled": extra}
        return samples, other
    finally:
        await served.close()


if __name__ == "__main__":
    main()
