"""From settings to what is served: finds the model, loads it, builds the engine and the drafters, and describes them.

Imports torch only when it runs, so that the server's ports are open while that takes its seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from decoding.draft_length import DraftLength
from decoding.drafting import DraftingRequest, DraftSession
from decoding.noise import NOISE_VERSION
from decoding.record_book import RecordBook
from drafts.registry import DrafterRegistry
from drafts.settings import DraftSettings
from slipstream.description import Limits, TargetDescription
from target_server.lifecycle import Served
from target_server.settings import TargetSettings
from target_server.step_metrics import StepRecord
from target_server.threads import apart


def load(settings: TargetSettings, drafts: DraftSettings, *, cache_folder: Path) -> Served:
    """Load the model that `settings` name; blocks for seconds, or for a download.

    cache_folder: where fetched models lie. Raises ModelUnavailable, UnsupportedModel, UnusableVocabulary,
    BudgetExceeded.
    """
    from target_server.engine import Engine
    from target_server.loader import LoadedModel
    from target_server.loader import load as load_model
    from target_server.store import locate

    records = RecordBook()

    def build() -> tuple[LoadedModel, DrafterRegistry, Engine]:
        model = load_model(locate(settings.model, cache_folder, revision=settings.revision), settings)
        drafters = DrafterRegistry(drafts, model.vocabulary)

        def drafting(language: str, name: str, request: DraftingRequest) -> DraftSession | None:
            drafter = drafters.named(language, name)
            return None if drafter is None else drafter.open(request)

        def lengths(language: str, name: str) -> DraftLength:
            return DraftLength(records.of(language, name).record)

        return model, drafters, Engine(model, settings, drafting=drafting, lengths=lengths)

    model, drafters, engine = apart(build)

    async def close() -> None:
        await asyncio.to_thread(engine.close)

    def listen(hear: Callable[[StepRecord], None]) -> None:
        engine.observe = hear

    try:
        asyncio.run(engine.warm_up())
    except BaseException:
        engine.close()
        raise
    return Served(
        target=engine,
        vocabulary=model.vocabulary,
        drafters=drafters,
        description=TargetDescription(
            model_id=model.name,
            model_revision=model.revision,
            tokenizer_fingerprint=model.vocabulary.fingerprint,
            vocabulary_size=model.vocabulary_size,
            end_of_text_ids=model.vocabulary.end_of_text_ids,
            fim=model.vocabulary.fim,
            context_length=engine.limits.context_tokens,
            dtype=model.dtype,
            device=model.device,
            noise_version=NOISE_VERSION,
            limits=Limits(
                sessions=settings.sessions,
                queued_requests=settings.queued_requests,
                prompt_tokens=engine.limits.prompt_tokens,
                block_rows=engine.limits.block_rows,
                message_bytes=settings.message_bytes,
            ),
            drafters=drafters.listing(),
            server_version=version("slipstream-completion"),
        ),
        close=close,
        records=records,
        listen=listen,
    )
