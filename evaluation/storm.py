"""A storm of requests that are left at random moments, through a real server, and what stays behind of them.

Server and clients run in this process, over a real port, so that all that could leak is in reach: sequences, slots of
the KV cache, tasks, threads, connections. Beside the storm a control is decoded again and again.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from decoding.gate import GateRules
from decoding.verdict import DecodeRequest, Target, Verifier
from drafts.settings import DraftSettings
from evaluation.errors import EvaluationFailed
from evaluation.storm_cases import Bounds, Ending, Moment, control_requests, draw_cases
from evaluation.storm_client import Pace, StormClient, drafted
from evaluation.storm_remains import Remains, look, resident_bytes
from evaluation.storm_report import Report, counted
from lsp_server.target_client import TargetClient
from target_server.engine import Engine
from target_server.loading import load
from target_server.server import TargetServer
from target_server.settings import TargetSettings

CONTROLS = 4
_SETTLING_S = 30.0
_LOOK_AGAIN_S = 0.2
_AN_HOUR_MS = 3_600_000

Progress = Callable[[int], None]
Tokens = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StormSettings:
    """requests: that are left, 1 or more. at_once: how many of them are open or wait. seed: of all that is drawn.

    prompt_tokens: of the longest prompt.
    """

    requests: int
    at_once: int
    seed: int
    prompt_tokens: int


async def storm(
    settings: StormSettings, *, target: TargetSettings, cache_folder: Path, progress: Progress = lambda _: None
) -> Report:
    """Run it all; `progress` hears how many requests are over. Raises what loading the model raises."""
    adapted = replace(
        target,
        port=0,
        http_port=0,
        queued_requests=max(target.queued_requests, settings.at_once + CONTROLS),
        queue_wait_ms=_AN_HOUR_MS,  # a busy machine must not refuse a control
    )
    served = await asyncio.to_thread(load, adapted, DraftSettings(), cache_folder=cache_folder)
    if not isinstance(served.target, Engine):
        raise EvaluationFailed("a storm looks into an engine of this process, and there is none")
    opens = CountedOpens(served.target)
    server = TargetServer(adapted, GateRules(), load=lambda: replace(served, target=opens))
    addresses = await server.start()
    try:
        limits = (await server.load()).description.limits
        bounds = Bounds(
            vocabulary_size=min(served.vocabulary.size, served.description.vocabulary_size),
            prompt_tokens=min(settings.prompt_tokens, limits.prompt_tokens),
            draft_tokens=limits.block_rows - 1,
            fingerprint=served.description.tokenizer_fingerprint,
        )
        place = Place(engine=served.target, server=server, address=addresses.grpc, cache_folder=cache_folder)
        return await Storm(settings, bounds, place, opens).run(progress)
    finally:
        await server.drain()


class CountedOpens:
    """A target that counts the sequences that were opened at it."""

    def __init__(self, target: Target) -> None:
        self.count = 0
        self._target = target

    @asynccontextmanager
    async def open(self, request: DecodeRequest) -> AsyncIterator[Verifier]:
        async with self._target.open(request) as verifier:
            self.count += 1
            yield verifier


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the storm is: a server, and the engine behind it."""

    engine: Engine
    server: TargetServer
    address: str
    cache_folder: Path

    def connect(self) -> TargetClient:
        return TargetClient(self.address, cache_folder=self.cache_folder)

    async def settled(self, before: Remains | None = None) -> Remains:
        """What there is once all has gone that will go: nothing beyond `before`, or what is left after a while."""
        deadline = time.monotonic() + _SETTLING_S
        while True:
            now = look(self.engine, self.server)
            busy = now.open_calls or now.open_sessions if before is None else now.beyond(before)
            if not busy or time.monotonic() > deadline:
                return now
            await asyncio.sleep(_LOOK_AGAIN_S)


class Storm:
    """One storm, run once."""

    def __init__(self, settings: StormSettings, bounds: Bounds, place: Place, opens: CountedOpens) -> None:
        self._settings = settings
        self._bounds = bounds
        self._place = place
        self._opens = opens
        self._controls = control_requests(count=CONTROLS, seed=settings.seed, bounds=bounds)
        self._others = 0  # requests that aren't the storm's

    async def run(self, progress: Progress) -> Report:
        shared, apart = self._place.connect(), self._place.connect()
        try:
            alone = [await self._decoded(apart, request) for request in self._controls]
            pace = await self._pace(shared)
            await self._everywhere(apart)  # so that whatever is made once has been made
            before = await self._place.settled()
            resident = resident_bytes()
            start = time.monotonic()
            over = asyncio.Event()
            beside = asyncio.create_task(self._beside(apart, alone, over))
            client = StormClient(
                shared, connect=self._place.connect, pace=pace, vocabulary_size=self._bounds.vocabulary_size
            )
            outcomes = await self._blow(client, progress)
            seconds = time.monotonic() - start
            over.set()
            during = await beside
            after = await self._place.settled(before)
            grown = resident_bytes() - resident
            afterwards = await self._everywhere(apart)
        finally:
            await shared.close()
            await apart.close()
        return Report(
            requests=self._settings.requests,
            at_once=self._settings.at_once,
            seed=self._settings.seed,
            seconds=seconds,
            outcomes=outcomes,
            others=self._others,
            counted=counted(self._place.server.metrics.samples()),
            opened=self._opens.count,
            before=before,
            after=after,
            grown_bytes=grown,
            controls=len(during),
            controls_differing=during.count(False),
            controls_after=len(afterwards),
            controls_after_differing=sum(
                tokens != alone[number % CONTROLS] for number, tokens in enumerate(afterwards)
            ),
        )

    async def _blow(self, client: StormClient, progress: Progress) -> Counter[tuple[Moment, Ending, str]]:
        """All cases, so many at once."""
        cases = draw_cases(count=self._settings.requests, seed=self._settings.seed, bounds=self._bounds)
        outcomes: Counter[tuple[Moment, Ending, str]] = Counter()

        async def work() -> None:
            for case in cases:  # shared: whoever is free takes the next
                outcomes[case.moment, case.ending, await client.suffer(case)] += 1
                progress(outcomes.total())

        await asyncio.gather(*(work() for _ in range(self._settings.at_once)))
        return outcomes

    async def _beside(self, client: TargetClient, alone: Sequence[Tokens], over: asyncio.Event) -> list[bool]:
        """Whether each control was what it is alone, one after the other until the storm is over."""
        same: list[bool] = []
        while not over.is_set():
            number = len(same) % CONTROLS
            same.append(await self._decoded(client, self._controls[number]) == alone[number])
        return same

    async def _everywhere(self, client: TargetClient) -> list[Tokens]:
        """The controls, as many as there are slots, on all sessions at once: so that each slot is written again."""
        count = self._place.engine.free_slots
        requests = (self._controls[number % CONTROLS] for number in range(count))
        return await asyncio.gather(*(self._decoded(client, request) for request in requests))

    async def _decoded(self, client: TargetClient, request: DecodeRequest) -> Tokens:
        """A control's tokens: the first half drafted for, the other half left to the target."""
        self._others += 1
        tokens: list[int] = []
        dice = Random(request.request_id)  # noqa: S311 - to be drawn again
        async with client.open(request) as verifier:
            steps = drafted(verifier, request, self._bounds.draft_tokens, self._bounds.vocabulary_size, dice)
            async for verdict in steps:
                tokens += verdict.tokens
                if verdict.finish is not None or len(tokens) >= request.stop.max_tokens // 2:
                    break
            if verdict.finish is None:
                async for verdict in verifier.run(request.stop.max_tokens):
                    tokens += verdict.tokens
            await verifier.finish()
        return tuple(tokens)

    async def _pace(self, client: TargetClient) -> Pace:
        """How long things take among so many requests at once, none of which is left."""
        cases = draw_cases(count=self._settings.at_once, seed=self._settings.seed + 1, bounds=self._bounds)
        times = await asyncio.gather(*(self._timed(client, case.request) for case in cases))
        opening, prefill, step, whole = (sum(each) / len(times) for each in zip(*times, strict=True))
        return Pace(opening_s=opening, prefill_s=prefill, step_s=step, whole_s=whole)

    async def _timed(self, client: TargetClient, request: DecodeRequest) -> tuple[float, float, float, float]:
        self._others += 1
        sent = time.monotonic()
        async with client.open(request) as verifier:
            opened = time.monotonic()
            steps = [time.monotonic() async for _ in verifier.run(request.stop.max_tokens)]
            await verifier.finish()
        return opened - sent, steps[0] - opened, (steps[-1] - steps[0]) / max(1, len(steps) - 1), steps[-1] - sent
