"""Sessions at once: tokens a second and the time between tokens, by how many there are, in strict and in fast parity.

    python benchmarks/crowd.py [--model NAME] [--sessions 1 4 8 16] [--rounds 3] [--prompts 8] [--prompt-tokens 256]
                               [--seconds 1.25] [--arrivals-seconds 3] [--json FILE]

One process, one set of weights; the target drafts by itself (`Run`), so that nothing but the engine is timed. There is
one engine at a time: the teams of threads of two would get in each other's way. Two kinds of work:

- decoding: every session decodes on and on; what counts begins when the last has its first token. How well drafts do
  depends on the prompt, so a cell has as many windows as its sessions need to decode every prompt.
- arrivals: every session asks for completions of 64 tokens, one after the other, none of whose prompts is retained:
  prompts of some are computed while others decode.

Every cell runs once a round, in another order in each; ratios are taken within a round. A session's rate is its tokens
by the time from its first to its last verdict in the window; a window's is the sum of them, a cell's their mean.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from rich.console import Console

from benchmarks.crowd_report import Cell, Measured, show, summary
from benchmarks.figures import write
from benchmarks.peers.prompts import Prompt, prompts
from cli import logs
from cli.paths import cache_folder
from decoding.drafting import DraftingRequest, DraftSession
from decoding.errors import SlipstreamError
from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules
from decoding.verdict import DecodeRequest
from drafts.registry import DrafterRegistry
from drafts.settings import DraftSettings
from evaluation.errors import EvaluationFailed
from target_server.settings import TargetSettings
from target_server.store import locate
from target_server.threads import apart, wait_politely

if TYPE_CHECKING:
    from target_server.engine import Engine
    from target_server.loader import LoadedModel
    from target_server.step_metrics import StepRecord

OUT = Path(__file__).parent / "out" / "crowd.json"
PARITIES = ("strict", "fast")
ARRIVAL_TOKENS = 64
DECODING_TOKENS = 700  # more than a session gets to while the others come and the window lasts


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """One verdict: when it came, in seconds, and how many tokens. gap: seconds since the one before, None at first."""

    at: float
    tokens: int
    gap: float | None


class Window:
    """From when on it counts, and until when: it opens when every session has its first token."""

    def __init__(self, sessions: int, seconds: float) -> None:
        self._missing = sessions
        self._seconds = seconds
        self.opened = self.closes = float("inf")

    def began(self, now: float) -> None:
        self._missing -= 1
        if not self._missing:
            self.opened, self.closes = now, now + self._seconds


class Crowd:
    """One engine and the sessions that are let loose on it."""

    def __init__(self, engine: Engine, loaded: LoadedModel, given: Sequence[Prompt]) -> None:
        self._engine = engine
        self._loaded = loaded
        self._given = given
        self._drafters = DrafterRegistry(DraftSettings(), loaded.vocabulary)
        self._steps: list[StepRecord] = []
        engine.observe = self._steps.append

    def close(self) -> None:
        self._engine.close()

    async def run(self, cell: Cell, *, seconds: float) -> Measured:
        self._steps.clear()
        windows = -(-len(self._given) // cell.sessions) if cell.work == "decoding" else 1
        found = [await self._window(cell, first=number * cell.sessions, seconds=seconds) for number in range(windows)]
        inside = [each for _, arrived, _ in found for each in arrived]
        gaps = [(each.gap, each.tokens) for each in inside if each.gap is not None]
        decoding = [step.blocks for step in self._steps if step.blocks]
        return Measured(
            cell=cell,
            tokens_per_s=mean(rate for rate, _, _ in found),
            verdict_gaps=tuple(gap for gap, _ in gaps),
            token_gaps=tuple(gap / tokens for gap, tokens in gaps for _ in range(tokens)),
            first_waits=tuple(wait for _, _, waits in found for wait in waits),
            blocks_per_step=mean(decoding),
        )

    async def _window(self, cell: Cell, *, first: int, seconds: float) -> tuple[float, list[Arrived], list[float]]:
        """Tokens a second, verdicts in the window, and waits for first tokens."""
        window = Window(cell.sessions, seconds)
        places = range(first, first + cell.sessions)
        found = await asyncio.gather(*(self._session(cell, window, place) for place in places))
        rate, counted = 0.0, []
        for arrived, _ in found:
            inside = [each for each in arrived if window.opened <= each.at <= window.closes]
            if len(inside) > 1:
                rate += sum(each.tokens for each in inside[1:]) / (inside[-1].at - inside[0].at)
            counted += inside
        if not rate:
            raise EvaluationFailed("a window was too short for two verdicts of a session: ask for more --seconds")
        return rate, counted, [wait for _, waits in found for wait in waits]

    async def _session(self, cell: Cell, window: Window, place: int) -> tuple[list[Arrived], list[float]]:
        """Verdicts, and waits for first tokens, of a session until the window closes; `place`: of its first prompt."""
        arrived: list[Arrived] = []
        waits: list[float] = []
        limit = DECODING_TOKENS if cell.work == "decoding" else ARRIVAL_TOKENS
        while time.perf_counter() < window.closes:
            prompt = self._given[(place + len(waits) * cell.sessions) % len(self._given)]
            drafter = self._drafters.for_language(prompt.language).name if cell.drafting else ""
            request = DecodeRequest(
                prompt=prompt.tokens,
                sampling=SamplingConfig(),
                stop=StopRules(max_tokens=limit),
                language=prompt.language,
                drafter=drafter,
                tokenizer_fingerprint=self._loaded.vocabulary.fingerprint,
                request_id=f"session-{place}",
                client=f"session-{place}",
            )
            asked = time.perf_counter()
            before: float | None = None
            async with self._engine.open(request) as verifier:
                async for verdict in verifier.run(limit, drafter=drafter):
                    now = time.perf_counter()
                    if before is None:
                        waits.append(now - asked)
                        if len(waits) == 1:
                            window.began(now)
                    gap = None if before is None else now - before
                    arrived.append(Arrived(at=now, tokens=len(verdict.tokens), gap=gap))
                    before = now
                    if now >= window.closes:
                        break
        return arrived, waits


async def measure(
    crowds: Callable[[str], Awaitable[Crowd]], cells: list[tuple[Cell, float]], *, rounds: int
) -> list[list[Measured]]:
    """The cells of each round, each run for its seconds; those of one parity together, after a short run to warm up."""
    found = []
    for turn in range(rounds):
        order, parities = (cells, PARITIES) if turn % 2 == 0 else (cells[::-1], PARITIES[::-1])
        measured = []
        for parity in parities:
            crowd = await crowds(parity)
            try:
                await crowd.run(Cell(work="decoding", parity=parity, drafting=True, sessions=2), seconds=1.0)
                measured += [await crowd.run(cell, seconds=seconds) for cell, seconds in order if cell.parity == parity]
            finally:
                crowd.close()
        found.append(measured)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default="default")
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 4, 8, 16], help="1 must be among them")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.25, help="a window of decoding; 0 leaves them out")
    parser.add_argument("--arrivals-seconds", type=float, default=3.0, help="a cell of arrivals; 0 leaves them out")
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--prompt-tokens", type=int, default=256)
    parser.add_argument("--json", type=Path, default=OUT)
    options = parser.parse_args()
    if 1 not in options.sessions:
        parser.error("--sessions needs 1, which the others are compared with")
    logs.configure(logs.LogSettings(level="warning"))
    wait_politely(os.environ)
    from benchmarks.steps import machine  # imports torch, which must hear of it first

    settings = TargetSettings(
        model=options.model,
        context_tokens=options.prompt_tokens + DECODING_TOKENS,
        prompt_tokens=options.prompt_tokens,
        sessions=max(options.sessions),
        retained_prefixes=0,
    )
    cells = [
        (Cell(work=work, parity=parity, drafting=drafting, sessions=sessions), seconds)
        for work, seconds, ways in (
            ("decoding", options.seconds, (False, True)),
            ("arrivals", options.arrivals_seconds, (True,)),
        )
        if seconds
        for drafting in ways
        for sessions in options.sessions
        for parity in PARITIES
    ]
    try:
        rounds, loaded = _measured(settings, cells, options)
    except SlipstreamError as error:
        sys.exit(f"benchmark: {error}")
    found = summary(rounds)
    show(Console(), found)
    names = ("model", "sessions", "rounds", "seconds", "arrivals_seconds", "prompts", "prompt_tokens")
    write(
        options.json,
        {
            "what": "one process; the target drafts; ratios within a round; a verdict's gap is spread over its tokens",
            **found,
            "settings": {name: getattr(options, name) for name in names}
            | {"gather_ms": settings.gather_ms, "prefill_budget_ms": settings.prefill_budget_ms},
            "model": {"revision": loaded.revision, "dtype": loaded.dtype},
            "machine": machine(),
        },
    )


def _measured(
    settings: TargetSettings, cells: list[tuple[Cell, float]], options: argparse.Namespace
) -> tuple[list[list[Measured]], LoadedModel]:
    from target_server.engine import Engine
    from target_server.loader import load

    loaded = apart(lambda: load(locate(settings.model, cache_folder(), revision=settings.revision), settings))
    registry = DrafterRegistry(DraftSettings(), loaded.vocabulary)

    def drafting(language: str, name: str, request: DraftingRequest) -> DraftSession | None:
        drafter = registry.named(language, name)
        return None if drafter is None else drafter.open(request)

    room = {"prompt_tokens": options.prompt_tokens, "new_tokens": ARRIVAL_TOKENS}
    given = prompts(loaded.vocabulary, count=options.prompts, **room)

    async def crowd(parity: str) -> Crowd:
        engine = apart(lambda: Engine(loaded, replace(settings, parity=parity), drafting=drafting))
        await engine.warm_up()
        return Crowd(engine, loaded, given)

    return asyncio.run(measure(crowd, cells, rounds=options.rounds)), loaded


if __name__ == "__main__":
    main()
