"""From settings to what a server serves: a model found and loaded, its engine warm, drafters for its tokenizer."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from pathlib import Path

from decoding.drafting import DraftingRequest, DraftSession
from decoding.noise import NOISE_VERSION
from drafts.registry import DrafterRegistry
from drafts.settings import DraftSettings
from slipstream.description import Limits, TargetDescription
from target_server.engine import Engine
from target_server.lifecycle import Served
from target_server.loader import LoadedModel, load
from target_server.settings import TargetSettings
from target_server.store import locate


def assemble(settings: TargetSettings, drafts: DraftSettings, *, cache: Path) -> Served:
    """Blocks for seconds, longer where a hub is asked; for a thread without a running event loop.

    cache: the folder whose `models` the default model lies in. Raises what finding, loading and starting raise:
    ModelUnavailable, UnsupportedModel, UnusableVocabulary, BudgetExceeded.
    """
    loaded = load(locate(settings.model, cache, revision=settings.revision), settings)
    registry = DrafterRegistry(drafts, loaded.vocabulary)

    def drafting(language: str, name: str, request: DraftingRequest) -> DraftSession | None:
        drafter = registry.named(language, name)
        return None if drafter is None else drafter.open(request)

    engine = Engine(loaded, settings, drafting=drafting)
    asyncio.run(engine.warm_up())

    async def close() -> None:
        await asyncio.to_thread(engine.close)

    return Served(
        target=engine,
        vocabulary=loaded.vocabulary,
        drafters=registry,
        description=_description(loaded, engine, settings, registry),
        close=close,
    )


def _description(
    loaded: LoadedModel, engine: Engine, settings: TargetSettings, registry: DrafterRegistry
) -> TargetDescription:
    vocabulary, limits = loaded.vocabulary, engine.limits
    return TargetDescription(
        model_id=loaded.name,
        model_revision=loaded.revision,
        tokenizer_fingerprint=vocabulary.fingerprint,
        vocabulary_size=loaded.vocabulary_size,
        end_of_text_ids=vocabulary.end_of_text_ids,
        fim=vocabulary.fim,
        context_length=limits.context_tokens,
        dtype=loaded.dtype,
        device=loaded.device,
        noise_version=NOISE_VERSION,
        limits=Limits(
            sessions=settings.sessions,
            queued_requests=settings.queued_requests,
            prompt_tokens=limits.prompt_tokens,
            block_rows=limits.block_rows,
            message_bytes=settings.message_bytes,
        ),
        drafters=registry.listing(),
        server_version=version("slipstream-completion"),
    )
