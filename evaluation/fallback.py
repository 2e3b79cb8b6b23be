"""A hostile drafter through the real client, gate and target: the gate falls back, recovers, and no token changes.

Runs in this process, beside a target that serves in another. What happens is told as it happens, by `Step` values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import TypeAlias

from decoding.drafting import Drafter
from decoding.gate import GateEvent, GateState
from decoding.rules import GateRules
from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules
from drafts.registry import DrafterRegistry
from drafts.settings import DraftSettings
from drafts.vocabulary import Vocabulary
from evaluation.errors import EvaluationFailed
from evaluation.hostile import HostileDrafter, Switch, noise
from evaluation.scenes import Scene
from lsp_server.completion import CompletionService
from lsp_server.suggestion import CompletionRequest, CompletionResult
from lsp_server.target_client import TargetClient

Narrate: TypeAlias = Callable[["Step"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackSettings:
    """How the demonstration goes.

    usual: the gate's rules as they are configured.
    evidence, probe_every: what of them is shortened, so that few requests show what otherwise takes many: judged
        tokens before a rate counts, and requests from probe to probe.
    prompt_tokens, max_tokens: of each request.
    most_requests: requests at most until the gate falls back, and again until it recovers.
    while_hostile: requests after the fallback, while the drafter is still hostile.
    """

    usual: GateRules = field(default_factory=GateRules)
    evidence: int = 24
    probe_every: int = 2
    prompt_tokens: int = 256
    max_tokens: int = 32
    most_requests: int = 16
    while_hostile: int = 2

    @property
    def rules(self) -> GateRules:
        """The gate's, for the demonstration."""
        return replace(
            self.usual,
            threshold_evidence=self.evidence,
            floor_evidence=self.evidence,
            probe_every=self.probe_every,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One request of the demonstration.

    part: "hostile", "fallen back" or "healed"; mode: how it was decoded, "edge" or "plain".
    """

    part: str
    mode: str
    drafted: int
    accepted: int
    total_ms: float
    identical: bool
    gate: GateState | None
    transitions: tuple[GateEvent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """What came of it. `identical`: every output equalled plain decoding's, whatever drafted it."""

    fell_back: bool
    recovered: bool
    identical: bool
    steps: tuple[Step, ...]


async def demonstrate_fallback(
    address: str,
    scenes: Sequence[Scene],
    *,
    drafts: DraftSettings,
    cache_folder: Path,
    narrate: Narrate,
    settings: FallbackSettings | None = None,
    seed: int = 0,
) -> Fallback:
    """Complete at `scenes`, all of one language, by turns. Raises EvaluationFailed, and what the client raises.

    seed: of the noise.
    """
    settings = settings or FallbackSettings()
    switch = Switch()
    client = TargetClient(address, cache_folder=cache_folder)
    try:
        service = CompletionService(
            client,
            drafts=drafts,
            gate=settings.rules,
            choose_length=False,  # else hostile drafts are cut before the gate hears of them
            registry=lambda kinds, vocabulary: HostileRegistry(kinds, vocabulary, switch, Random(seed)),  # noqa: S311
        )
        return await _Demonstration(service, scenes, switch, settings, narrate).run()
    finally:
        await client.close()


class HostileRegistry:
    """The registry's drafters, each with the switch in front of it."""

    def __init__(self, settings: DraftSettings, vocabulary: Vocabulary, switch: Switch, random: Random) -> None:
        self._real = DrafterRegistry(settings, vocabulary)
        self._switch = switch
        self._noise = noise(vocabulary, random)

    def for_language(self, language: str) -> Drafter:
        return HostileDrafter(self._real.for_language(language), self._switch, self._noise)


class _Demonstration:
    def __init__(
        self,
        service: CompletionService,
        scenes: Sequence[Scene],
        switch: Switch,
        settings: FallbackSettings,
        narrate: Narrate,
    ) -> None:
        self._service = service
        self._scenes = scenes
        self._switch = switch
        self._settings = settings
        self._narrate = narrate
        self._plain: list[tuple[int, ...]] = []
        self._steps: list[Step] = []

    async def run(self) -> Fallback:
        for scene in self._scenes:
            self._plain.append((await self._complete(scene, drafting=False)).tokens)
        self._switch.hostile = True
        fell_back = await self._until(GateState.FALLEN_BACK, "hostile")
        if fell_back:
            for _ in range(self._settings.while_hostile):
                await self._step("fallen back")
        self._switch.hostile = False
        recovered = fell_back and await self._until(GateState.SPECULATING, "healed")
        return Fallback(
            fell_back=fell_back,
            recovered=recovered,
            identical=all(step.identical for step in self._steps),
            steps=tuple(self._steps),
        )

    async def _until(self, state: GateState, part: str) -> bool:
        for _ in range(self._settings.most_requests):
            if (await self._step(part)).gate is state:
                return True
        return False

    async def _step(self, part: str) -> Step:
        turn = len(self._steps) % len(self._scenes)
        result = await self._complete(self._scenes[turn], drafting=True)
        step = Step(
            part=part,
            mode=result.mode.value,
            drafted=result.statistics.drafted_tokens,
            accepted=result.statistics.accepted_tokens,
            total_ms=result.total_ms,
            identical=result.tokens == self._plain[turn],
            gate=result.gate,
            transitions=result.transitions,
        )
        self._steps.append(step)
        self._narrate(step)
        return step

    async def _complete(self, scene: Scene, *, drafting: bool) -> CompletionResult:
        result = await self._service.complete(
            CompletionRequest(
                request_id=f"fallback-{len(self._steps)}",
                prefix=scene.prefix,
                suffix=scene.suffix,
                language_id=scene.language,
                path=str(scene.path),
                sampling=SamplingConfig(),
                stop=StopRules(max_tokens=self._settings.max_tokens),
                prompt_tokens=self._settings.prompt_tokens,
                drafting=drafting,
                placement="edge",  # where the hostile drafter is
                deadline_s=300.0,
            )
        )
        if not result.tokens:
            raise EvaluationFailed(f"{scene.name}: the target completed nothing")
        return result
