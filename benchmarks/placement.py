"""Where drafting pays, by the length of the way: beside the editor, at the target, or wherever measurements say.

    python -m benchmarks.placement [--delays 0,5,20,50,100,200] [--rounds 2] [--max-tokens 48] [--json FILE]

A target process, over gRPC, behind a proxy that makes each round trip longer by a delay. At every delay the same
completions, one a language, are made with drafts from either side, with `auto`, and plainly; by turns, and with the
same output, or this fails. Two rounds are left out: in them `auto` measures, and estimates settle. Gates never fall
back here, so that nothing but placement and draft length decides. Tokens a second are emitted tokens by the whole time
of their requests.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from benchmarks.delay import delayed
from cli import logs
from cli.paths import cache_folder
from decoding.errors import SlipstreamError
from decoding.rules import GateRules
from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules
from drafts.settings import DraftSettings
from evaluation.errors import EvaluationFailed
from evaluation.scenes import Scene, load_scenes
from evaluation.target_process import target_process
from lsp_server.completion import CompletionService
from lsp_server.suggestion import CompletionRequest, CompletionResult
from lsp_server.target_client import TargetClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

OUT = Path(__file__).parent / "out" / "placement.json"
UNMEASURED_ROUNDS = 2
WAYS = ("edge", "server", "auto", "plain")
GATE = GateRules(threshold=0, floor=0, slower_margin=1e6, plain_every=0)
TARGET = [
    *(sys.executable, "-m", "cli", "target", "--log-format", "json"),
    *("--host", "127.0.0.1", "--port", "0", "--http-host", "127.0.0.1", "--http-port", "0"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Of the measured completions of one way at one delay. `modes` counts them by how they were decoded."""

    tokens: int
    steps: int
    ms: float
    modes: Mapping[str, int]
    round_trip_ms: float

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.ms * 1000


def sums(results: Sequence[CompletionResult], *, round_trip_ms: float) -> Sums:
    modes: dict[str, int] = {}
    for result in results:
        modes[result.mode.value] = modes.get(result.mode.value, 0) + 1
    return Sums(
        tokens=sum(result.statistics.emitted_tokens for result in results),
        steps=sum(result.statistics.verify_steps for result in results),
        ms=sum(result.total_ms for result in results),
        modes=modes,
        round_trip_ms=round_trip_ms,
    )


def break_even(delays: Sequence[float], here: Sequence[float], there: Sequence[float]) -> float | None:
    """The delay at which `here`, at first no slower than `there`, has become as slow: between measured ones by a
    straight line through their ratios. 0 where it is slower from the start, None where it never is.
    """
    points = [(delay, first / second - 1) for delay, first, second in zip(delays, here, there, strict=True)]
    if points and points[0][1] < 0:
        return 0.0
    for (before, lead), (after, lag) in pairwise(points):
        if lag < 0:
            return before + (after - before) * lead / (lead - lag)
    return None


@asynccontextmanager
async def completing(address: str) -> AsyncIterator[CompletionService]:
    client = TargetClient(address, cache_folder=cache_folder())
    try:
        yield CompletionService(client, drafts=DraftSettings(), gate=GATE)
    finally:
        await client.close()


async def complete(service: CompletionService, scene: Scene, way: str, options: argparse.Namespace) -> CompletionResult:
    return await service.complete(
        CompletionRequest(
            request_id=f"placement-{way}",
            prefix=scene.prefix,
            suffix=scene.suffix,
            language_id=scene.language,
            path=str(scene.path),
            sampling=SamplingConfig(),
            stop=StopRules(max_tokens=options.max_tokens),
            prompt_tokens=options.prompt_tokens,
            drafting=way != "plain",
            placement="edge" if way == "plain" else way,
            deadline_s=300.0,
        )
    )


async def at_delay(
    address: str, delay_ms: float, scenes: Sequence[Scene], options: argparse.Namespace
) -> dict[str, Sums]:
    """Every way over one length of the way; each keeps its own estimates."""
    results: dict[str, list[CompletionResult]] = {way: [] for way in WAYS}
    async with AsyncExitStack() as stack:
        near = await stack.enter_async_context(delayed(address, delay_ms / 1000))
        services = {way: await stack.enter_async_context(completing(near)) for way in WAYS}
        for turn in range(options.rounds + UNMEASURED_ROUNDS):
            for number, scene in enumerate(scenes):
                first = (turn + number) % len(WAYS)
                outputs = set()
                for way in (*WAYS[first:], *WAYS[:first]):
                    result = await complete(services[way], scene, way, options)
                    outputs.add(result.tokens)
                    if turn >= UNMEASURED_ROUNDS:
                        results[way].append(result)
                if len(outputs) != 1:
                    raise EvaluationFailed(f"{scene.name}: outputs differ by where drafts are made")
        trips = {way: service.gating.records.timings.round_trip_us / 1000 for way, service in services.items()}
    return {way: sums(results[way], round_trip_ms=trips[way]) for way in WAYS}


async def measure(options: argparse.Namespace, console: Console) -> dict[float, dict[str, Sums]]:
    scenes = tuple({scene.language: scene for scene in load_scenes()}.values())
    found = {}
    async with target_process([*TARGET, "--model", options.model]) as address:
        for delay in options.delays:
            found[delay] = await at_delay(address, delay, scenes, options)
            console.print(
                f"{delay:g} ms: " + ", ".join(f"{way} {found[delay][way].tokens_per_s:.1f}" for way in WAYS),
                highlight=False,
            )
    return found


def summary(found: Mapping[float, Mapping[str, Sums]]) -> dict[str, Any]:
    delays = sorted(found)
    rates = {way: [found[delay][way].tokens_per_s for delay in delays] for way in WAYS}
    return {
        "rows": [
            {
                "delay_ms": delay,
                "round_trip_ms": round(found[delay]["edge"].round_trip_ms, 2),
                **{
                    way: {
                        "tokens_per_s": round(row.tokens_per_s, 2),
                        "tokens_per_step": round(row.tokens / row.steps, 3),
                        "modes": dict(row.modes),
                    }
                    for way, row in found[delay].items()
                },
            }
            for delay in delays
        ],
        "break_even_ms": {
            "edge_against_server": break_even(delays, rates["edge"], rates["server"]),
            "edge_against_plain": break_even(delays, rates["edge"], rates["plain"]),
        },
        "auto_against_better": [
            round(auto / max(edge, server), 3)
            for edge, server, auto in zip(rates["edge"], rates["server"], rates["auto"], strict=True)
        ],
    }


def show(console: Console, whole: Mapping[str, Any]) -> None:
    table = Table(title="Tokens a second by where drafts are made, and how long the way is")
    for heading in ("delay ms", "measured trip ms", *WAYS, "auto drafts at"):
        table.add_column(heading, justify="right")
    for row in whole["rows"]:
        rates = (f"{row[way]['tokens_per_s']:.1f}" for way in WAYS)
        sides = ", ".join(f"{mode} {count}" for mode, count in row["auto"]["modes"].items())
        table.add_row(f"{row['delay_ms']:g}", f"{row['round_trip_ms']:.1f}", *rates, sides)
    console.print(table)
    for pair, delay in whole["break_even_ms"].items():
        console.print(f"{pair.replace('_', ' ')}: " + ("no break-even here" if delay is None else f"{delay:.1f} ms"))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default="default")
    parser.add_argument(
        "--delays", type=lambda text: sorted(float(each) for each in text.split(",")), default=[0, 5, 20, 50, 100, 200]
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--json", type=Path, default=OUT)
    options = parser.parse_args()
    logs.configure(logs.LogSettings(level="warning"))
    console = Console()
    try:
        found = asyncio.run(measure(options, console))
    except SlipstreamError as error:
        sys.exit(f"benchmark: {error}")
    whole = summary(found)
    show(console, whole)
    from benchmarks.steps import machine

    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(
        json.dumps(
            {
                "what": "target process over gRPC behind a delaying proxy; emitted tokens by whole request time",
                **whole,
                "identical": True,
                "settings": {
                    name: getattr(options, name) for name in ("model", "rounds", "max_tokens", "prompt_tokens")
                },
                "machine": machine(),
            },
            indent=2,
        )
        + "\n"
    )


if __name__ == "__main__":
    main()
