"""The main job, shown: a target, a language server, an editor; five languages, twice each; then a hostile drafter.

target process <── gRPC ── language server process <── LSP over stdio ── this process, as the editor
target process <── gRPC ── this process (the fallback, whose drafter has to be made hostile from inside)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from drafts.settings import DraftSettings
from evaluation.editor import EditorClient, Suggestion, editing
from evaluation.fallback import Fallback, FallbackSettings, Step, demonstrate_fallback
from evaluation.pairs import LanguageRow, Pair, language_rows
from evaluation.scenes import Scene
from evaluation.target_process import target_process
from lsp_server.suggestion import Piece

Show = Callable[[Sequence[Piece]], None]


class Stage(Protocol):
    """Where the demonstration is shown."""

    def note(self, text: str) -> None:
        """Say what comes next."""

    def running(self, scene: Scene, *, drafting: bool) -> AbstractContextManager[Show]:
        """Show one completion while it streams."""

    def finished(self, pair: Pair) -> None: ...

    def summary(self, rows: Sequence[LanguageRow]) -> None: ...

    def step(self, step: Step) -> None: ...

    def verdict(self, fallback: Fallback) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSettings:
    """What is shown, and how.

    max_tokens: of a completion. prompt_tokens: at most, taken of the text before the cursor.
    temperature, seed: of every completion, speculative and plain.
    fallback_language: whose scenes the hostile drafter gets; "" is the first scene's.
    """

    max_tokens: int = 56
    prompt_tokens: int = 512
    temperature: float = 0.0
    seed: int = 0
    fallback_language: str = ""
    fallback: FallbackSettings = field(default_factory=FallbackSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    pairs: tuple[Pair, ...]
    rows: tuple[LanguageRow, ...]
    fallback: Fallback

    @property
    def good(self) -> bool:
        """Whether everything was identical, and the gate did what it is for."""
        fallback = self.fallback
        return (
            all(row.identical for row in self.rows) and fallback.fell_back and fallback.recovered and fallback.identical
        )


async def demonstrate(
    *,
    target: Sequence[str],
    language_server: Sequence[str],
    scenes: Sequence[Scene],
    drafts: DraftSettings,
    cache_folder: Path,
    stage: Stage,
    settings: DemoSettings | None = None,
) -> Report:
    """Run it all. `target`, `language_server`: commands; the latter's target is set by the editor.

    Raises EvaluationFailed.
    """
    settings = settings or DemoSettings()
    stage.note("starting the target, which loads its model")
    async with target_process(target) as address:
        stage.note(f"target at {address}; starting the language server")
        async with editing(language_server, _options(settings, address)) as editor:
            pairs = await _pairs(editor, scenes, stage)
        rows = language_rows(pairs)
        stage.summary(rows)
        stage.note(_shortened(settings.fallback))
        language = settings.fallback_language or scenes[0].language
        fallback = await demonstrate_fallback(
            address,
            [scene for scene in scenes if scene.language == language],
            drafts=drafts,
            cache_folder=cache_folder,
            narrate=stage.step,
            settings=settings.fallback,
        )
        stage.verdict(fallback)
    return Report(pairs=pairs, rows=rows, fallback=fallback)


async def _pairs(editor: EditorClient, scenes: Sequence[Scene], stage: Stage) -> tuple[Pair, ...]:
    """Each scene speculative and plain, by turns which of them comes first."""

    async def run(scene: Scene, *, drafting: bool) -> Suggestion:
        editor.configure(drafting=drafting)
        with stage.running(scene, drafting=drafting) as show:
            return await editor.suggest(scene, show=show)

    editor.configure(max_tokens=1)
    await editor.suggest(scenes[0])  # not measured: first uses of everything
    pairs = []
    for number, scene in enumerate(scenes):
        order = (True, False) if number % 2 == 0 else (False, True)
        done = {drafting: await run(scene, drafting=drafting) for drafting in order}
        pair = Pair(scene=scene, speculative=done[True], plain=done[False])
        stage.finished(pair)
        pairs.append(pair)
    return tuple(pairs)


def _options(settings: DemoSettings, address: str) -> Mapping[str, object]:
    return {
        "target": address,
        "stream": True,
        "max_tokens": settings.max_tokens,
        "prompt_tokens": settings.prompt_tokens,
        "temperature": settings.temperature,
        "seed": settings.seed,
        "deadline_ms": 300_000,
    }


def _shortened(settings: FallbackSettings) -> str:
    """What the fallback's gate does otherwise than a user's would."""
    return (
        "a drafter turns hostile; so that few requests show it, the gate here probes every "
        f"{settings.probe_every} requests (configured: {settings.usual.probe_every}) and its floor needs "
        f"{settings.evidence} judged tokens (configured: {settings.usual.floor_evidence})"
    )
