"""The parity audit: many prompts, plain and disturbed, in this process, on the real model; no output may differ.

Loads the model once a dtype, and writes what it has found so far after every group.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from drafts.registry import DrafterRegistry
from drafts.settings import DraftSettings
from evaluation.audit_cases import MOST_SESSIONS, Bounds, Group, draw_groups
from evaluation.audit_drafting import Desk, Drafters
from evaluation.audit_prompts import Prompts
from evaluation.audit_report import Asked, Audited, Steps, Tally, as_json, write
from evaluation.audit_run import Auditor
from evaluation.audit_sources import LANGUAGES, Source, counts
from target_server.engine import Engine
from target_server.loader import LoadedModel, load
from target_server.settings import TargetSettings
from target_server.store import locate

_A_DAY_S = 86_400.0
_AN_HOUR_MS = 3_600_000

Progress = Callable[[Sequence[Tally]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """prompts: of each dtype, 1 or more. dtypes: as `TargetSettings.dtype`. seed: of all that is drawn.

    only: the number of a case; nothing but its group is run. None runs all.
    """

    prompts: int
    dtypes: tuple[str, ...]
    seed: int
    only: int | None = None


async def audit(
    settings: AuditSettings,
    *,
    target: TargetSettings,
    drafts: DraftSettings,
    sources: Mapping[str, Sequence[Source]],
    cache_folder: Path,
    json_file: Path | None,
    progress: Progress,
) -> tuple[Tally, ...]:
    """Run it all; a tally for each dtype. `progress` hears of every group.

    Raises what loading the model raises, and UnsupportedModel on a device where parity can't be had.
    """
    asked = Asked(prompts=settings.prompts, seed=settings.seed, files=counts(sources))
    tallies: list[Tally] = []
    for dtype in settings.dtypes:
        adapted = _adapted(replace(target, dtype=dtype))
        loaded = load(locate(adapted.model, cache_folder, revision=adapted.revision), adapted)
        desk = Desk()
        alone = replace(adapted, retained_prefixes=0)
        async with _engine(loaded, alone, Desk()) as plain, _engine(loaded, adapted, desk) as audited:
            steps = Steps(await audited.inspect(lambda model: model.shapes), block_rows=audited.limits.block_rows)
            audited.observe = steps.record
            tally = Tally(
                Audited(model=loaded.name, revision=loaded.revision, dtype=loaded.dtype, device=loaded.device),
                asked,
                steps,
            )
            tallies.append(tally)
            bounds = Bounds(
                vocabulary_size=min(loaded.vocabulary.size, loaded.vocabulary_size),
                prompt_tokens=audited.limits.prompt_tokens,
                block_rows=audited.limits.block_rows,
            )
            auditor = Auditor(
                plain=plain,
                audited=audited,
                desk=desk,
                drafters=Drafters(DrafterRegistry(drafts, loaded.vocabulary), loaded.vocabulary),
                prompts=Prompts(sources, loaded.vocabulary, prompt_tokens=bounds.prompt_tokens),
                vocabulary=loaded.vocabulary,
                context_tokens=audited.limits.context_tokens,
                clock=time.monotonic_ns,
            )
            groups = draw_groups(sources, count=settings.prompts, seed=settings.seed, bounds=bounds)
            start = time.monotonic()
            async for outcomes in auditor.run([group for group in groups if _wanted(group, settings.only)]):
                tally.add(outcomes)
                tally.seconds = time.monotonic() - start
                if json_file is not None:
                    write(json_file, as_json(asked, tallies, complete=False))
                progress(tallies)
    if json_file is not None:
        write(json_file, as_json(asked, tallies, complete=True))
    return tuple(tallies)


def files_needed(prompts: int) -> int:
    """How many files of each language so many prompts are cut from, where there are as many."""
    return -(-prompts // len(LANGUAGES))


def _wanted(group: Group, only: int | None) -> bool:
    return only is None or any(case.number == only for case in group)


def _adapted(settings: TargetSettings) -> TargetSettings:
    """The same arithmetic, with room for a group and without deadlines: a busy machine must not refuse a case."""
    return replace(
        settings,
        sessions=max(settings.sessions, MOST_SESSIONS),
        request_timeout_s=_A_DAY_S,
        queue_wait_ms=_AN_HOUR_MS,
    )


@asynccontextmanager
async def _engine(loaded: LoadedModel, settings: TargetSettings, desk: Desk) -> AsyncIterator[Engine]:
    engine = Engine(loaded, settings, drafting=desk)
    try:
        await engine.warm_up()
        yield engine
    finally:
        await asyncio.to_thread(engine.close)
