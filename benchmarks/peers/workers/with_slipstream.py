"""Our own engine in process, with the drafter beside it or none, as a worker. Settings: model, threads, drafting."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import aclosing
from importlib.metadata import version
from itertools import count
from typing import Any

from benchmarks.peers.answering import Asked, Emit, Generate, answer
from cli import logs
from cli.paths import cache_folder
from decoding.drafting import DraftingRequest
from decoding.sampling import SamplingConfig
from decoding.session import Mode, Session
from decoding.stopping import StopRules
from decoding.verdict import DecodeRequest
from drafts.settings import DraftSettings
from drafts.speculation import speculate
from target_server.threads import wait_politely


def make(settings: dict[str, Any]) -> tuple[Generate, dict[str, Any]]:
    logs.configure(logs.LogSettings(level="warning"))
    wait_politely(os.environ)  # as the target does at its start, before torch is imported
    import torch

    from target_server.loading import load
    from target_server.settings import TargetSettings

    target = TargetSettings(model=settings["model"], threads=settings["threads"])
    served = load(target, DraftSettings(), cache_folder=cache_folder())
    vocabulary, description = served.vocabulary, served.description
    runner, numbers = asyncio.Runner(), count()

    async def decode(asked: Asked, emit: Emit) -> None:
        drafter = served.drafters.for_language(asked.language) if settings["drafting"] else None
        request = DecodeRequest(
            prompt=tuple(asked.prompt),
            sampling=SamplingConfig(),
            stop=StopRules(max_tokens=asked.new_tokens),
            language=asked.language,
            drafter=drafter.name if drafter else "",
            tokenizer_fingerprint=vocabulary.fingerprint,
            request_id=f"peers-{next(numbers)}",
        )
        session = Session(
            request,
            mode=Mode.EDGE if drafter else Mode.PLAIN,
            block_rows=description.limits.block_rows,
            context_length=description.context_length,
            token_bytes=vocabulary.token_bytes,
            end_of_text=description.end_of_text_ids,
        )
        drafting = None
        if drafter:  # which sees the prompt alone, as the peers' lookups do
            drafting = drafter.open(
                DraftingRequest(prompt=request.prompt, language=asked.language, sampling=request.sampling)
            )
        async with (
            served.target.open(request) as verifier,
            aclosing(speculate(session, drafting, verifier, clock=time.perf_counter_ns)) as chunks,
        ):
            async for chunk in chunks:
                if chunk.tokens:
                    emit(list(chunk.tokens))

    def generate(asked: Asked, emit: Emit) -> None:
        runner.run(decode(asked, emit))

    return generate, {
        "versions": {"slipstream-completion": version("slipstream-completion"), "torch": torch.__version__},
        "threads": settings["threads"],
        "dtype": description.dtype,
        "prefix_cache": "as it comes; each prompt is asked once, and no two begin alike",
    }


if __name__ == "__main__":
    answer(make)
