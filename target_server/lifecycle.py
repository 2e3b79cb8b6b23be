"""Where the server stands: loading, serving, draining; what it serves; how many calls are open. One place says so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from decoding.drafting import Drafter
from decoding.errors import TargetUnavailable
from decoding.record_book import RecordBook
from decoding.verdict import Target
from drafts.vocabulary import Vocabulary
from slipstream.description import TargetDescription
from target_server.step_metrics import StepRecord

LOADING = "loading"
SERVING = "serving"
DRAINING = "draining"


class Drafters(Protocol):
    """The drafters beside the model, by language; None where there is none. May read files: not for the event loop."""

    def for_language(self, language: str) -> Drafter | None: ...

    def named(self, language: str, name: str) -> Drafter | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A loaded model and what goes with it.

    close: frees the device once no sequence is open. records: what is known of the drafters at this target.
    listen: has each step told to whom it is given, on any thread.
    """

    target: Target
    vocabulary: Vocabulary
    drafters: Drafters
    description: TargetDescription
    close: Callable[[], Awaitable[None]]
    records: RecordBook = field(default_factory=RecordBook)
    listen: Callable[[Callable[[StepRecord], None]], None] = lambda _: None


class Lifecycle:
    """Lives on the event loop's thread."""

    def __init__(self) -> None:
        self._served: Served | None = None
        self._draining = False
        self.open_calls = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def state(self) -> str:
        if self._draining:
            return DRAINING
        return LOADING if self._served is None else SERVING

    def serve(self, served: Served) -> None:
        self._served = served

    def drain(self) -> None:
        """Refuse calls from now on; the open ones go on."""
        self._draining = True

    def served(self) -> Served:
        """What answers a new call. Raises TargetUnavailable."""
        if self._draining:
            raise TargetUnavailable("the target shuts down; connect again once it is back")
        if self._served is None:
            raise TargetUnavailable("the target still loads its model; try again in a moment")
        return self._served

    def call_began(self) -> None:
        self.open_calls += 1
        self._idle.clear()

    def call_ended(self) -> None:
        """Its status has been sent, or its client has gone."""
        self.open_calls -= 1
        if not self.open_calls:
            self._idle.set()

    async def idle(self) -> None:
        """Wait until no call is open."""
        await self._idle.wait()
