"""A tiny language model behind the real engine, loaded once for all tests of a module."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from serving import PROMPT, Stream, local, opening

from decoding.stopping import StopRules
from decoding.verdict import Verdict
from drafts.settings import DraftSettings
from slipstream import services
from slipstream.opening import RunMessage
from target_server.engine import Engine
from target_server.lifecycle import Served
from target_server.loading import load


@contextmanager
def tiny_served(model_folder: Path, cache_folder: Path, **settings: Any) -> Iterator[Served]:
    """What `serving` serves; draining a server leaves it open for the next one."""
    small = {"model": str(model_folder), "context_tokens": 256, "prompt_tokens": 128, "sessions": 2, "threads": 1}
    loaded = load(local(**(small | settings)), DraftSettings(), cache_folder=cache_folder)

    async def stays_open() -> None:
        """For the next test."""

    yield replace(loaded, close=stays_open)
    asyncio.run(loaded.close())


def engine_of(served: Served) -> Engine:
    assert isinstance(served.target, Engine)
    return served.target


async def run_to_end(stub: services.TargetStub, served: Served, *, tokens: int = 24) -> list[int]:
    """A whole output."""
    stream = Stream(stub)
    await stream.send(opening(PROMPT, served.vocabulary.fingerprint, stop=StopRules(max_tokens=tokens)))
    await stream.send(RunMessage(limit=tokens))
    return [token for answer in await stream.rest() if isinstance(answer, Verdict) for token in answer.tokens]
