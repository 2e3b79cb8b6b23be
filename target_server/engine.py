"""The engine: a `decoding.verdict.Target` in this process. Checks requests, hands out slots, keeps the limits.

The life of a sequence: `open` waits for admission -> it gets the slot that already holds most of its prompt -> the rest
is cached chunk by chunk -> each draft is a block of a step, judged on the step loop's thread -> leaving the context
gives the slot back within one step; what the slot holds of the prompt stays for the next request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from torch import Tensor

from decoding.draft_length import DraftLength
from decoding.drafting import DraftingRequest, DraftSession
from decoding.errors import LimitExceeded, Mismatch
from decoding.sequence import Sequence
from decoding.verdict import DecodeRequest
from target_server.admission import Admission, Pass
from target_server.arithmetic import arithmetic_for
from target_server.gathering import Gathering
from target_server.graphs import record_decoding
from target_server.guarded_drafts import Drafting, Lengths
from target_server.loader import LoadedModel
from target_server.model import Model
from target_server.open_sequence import Lease, OpenSequence
from target_server.parity import Parity
from target_server.prefixes import Prefixes
from target_server.scheduler import Scheduler
from target_server.settings import TargetSettings
from target_server.step_loop import StepLoop
from target_server.step_metrics import StepRecord
from target_server.warm_up import build_model, warm_up

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLimits:
    """What is in force: the settings, bounded by what the model allows. `block_rows` in rows, the rest in tokens."""

    context_tokens: int
    prompt_tokens: int
    block_rows: int


class Engine:
    """Serves one model to several sequences, whose blocks and chunks share steps.

    drafting: gives a session of the drafter (language, name) for a request, None where there is none; used by `run`.
    lengths: chooses how long the drafts of (language, drafter) are; None lets them fill blocks.
    clock: seconds, monotonic. `observe` may be set: it hears of each step, on the step loop's thread.

    Building it allocates the KV cache and takes a moment. Raises BudgetExceeded.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        settings: TargetSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        drafting: Drafting | None = None,
        lengths: Lengths | None = None,
    ) -> None:
        self.observe: Callable[[StepRecord], None] = lambda _: None
        self._loaded = loaded
        self._settings = settings
        self._clock = clock
        self._drafting = drafting or _no_drafter
        self._lengths = lengths or _no_lengths
        context = min(settings.context_tokens, loaded.context_tokens)
        self.limits = EngineLimits(
            context_tokens=context,
            prompt_tokens=min(settings.prompt_tokens, context - 1),
            block_rows=settings.block_rows,
        )
        self._model = build_model(loaded, settings, context_tokens=context)
        slots = self._model.shape.slots
        self._prefixes = Prefixes(slots, chunk_rows=settings.prefill_rows, retain=settings.retained_prefixes > 0)
        self._admission = Admission(
            settings.sessions,
            queued_requests=settings.queued_requests,
            queue_wait_ms=settings.queue_wait_ms,
            clock=clock,
        )
        self._steps = StepLoop(
            self._model,
            Scheduler(lambda: self._model.shapes, budget_ms=settings.prefill_budget_ms),
            Gathering(longest_s=settings.gather_ms / 1000),
            threads=settings.threads,
            clock=clock,
            observe=lambda record: self.observe(record),
        )
        self._vocabulary_size = min(loaded.vocabulary.size, loaded.vocabulary_size)
        self._end_of_text = frozenset(loaded.vocabulary.end_of_text_ids)

    @property
    def open_sessions(self) -> int:
        """Sequences that are open, or whose last step has not ended yet."""
        return self._settings.sessions - self._admission.free

    @property
    def free_sessions(self) -> int:
        return self._admission.free

    @property
    def free_slots(self) -> int:
        """Slots of the KV cache that no sequence holds."""
        return self._prefixes.free

    @property
    def waiting_requests(self) -> int:
        """Requests that wait for admission."""
        return self._admission.waiting

    @property
    def kv_cache_bytes(self) -> int:
        """Bytes that the KV cache takes."""
        return self._model.cache.bytes

    async def warm_up(self) -> Parity:
        """Run the first steps and check parity; call it once, before serving.

        Where only the padded length matters on this device, every step reads whole slots from then on. Raises
        UnsupportedModel where parity can't be had and `settings.parity` is "strict".
        """
        return await asyncio.wrap_future(self._steps.errand(self._warm_up))

    async def inspect(self, job: Callable[[Model], Result]) -> Result:
        """Run a job on the step loop's thread, between steps: the only place where the model may be touched."""
        return await asyncio.wrap_future(self._steps.errand(partial(job, self._model)))

    @asynccontextmanager
    async def open(self, request: DecodeRequest) -> AsyncIterator[OpenSequence]:
        """Open a sequence. Raises InvalidSetting, Mismatch, LimitExceeded (with a retry hint where waiting helps)."""
        arrived = self._clock()
        sequence = self._sequence(request)
        leave = await self._admission.enter(request.client or request.request_id)
        claim = self._prefixes.claim(request.prompt)
        if claim.source is not None and not self._steps.closed:
            self._steps.errand(partial(self._model.cache.copy, claim.source, claim.slot, claim.tokens))
        opened = OpenSequence(
            request,
            sequence=sequence,
            shape=self._model.shape,
            steps=self._steps,
            lease=Lease(
                slot=claim.slot,
                cached=claim.tokens,
                arrived=arrived,
                expires=arrived + self._settings.request_timeout_s,
                queue_us=round((self._clock() - arrived) * 1e6),
                filled=partial(self._prefixes.filled, claim.slot),
                give_back=partial(self._give_back, claim.slot, leave),
            ),
            clock=self._clock,
            drafting=self._drafting,
            lengths=self._lengths,
        )
        try:
            yield opened
        finally:
            opened.close()

    def _warm_up(self) -> Parity:
        found = warm_up(self._model, self._loaded, self._settings, vocabulary_size=self._vocabulary_size)
        if self._settings.cuda_graphs:
            record_decoding(self._model, vocabulary_size=self._vocabulary_size)
        return found

    def close(self) -> None:
        """Stop the step loop after the step that runs. Sequences still open fail."""
        self._steps.close()

    def _give_back(self, slot: int, leave: Pass, sound: bool) -> None:
        """On the event loop: a sequence is done with its slot; one that isn't sound is wiped before its next use."""
        if not sound and not self._steps.closed:
            self._steps.errand(partial(self._model.cache.wipe, slot))
        self._prefixes.release(slot, sound=sound)
        self._admission.leave(leave)

    def _sequence(self, request: DecodeRequest) -> Sequence[Tensor]:
        vocabulary = self._loaded.vocabulary
        if request.tokenizer_fingerprint != vocabulary.fingerprint:
            raise Mismatch(
                "tokenizer fingerprint",
                expected=vocabulary.fingerprint,
                got=request.tokenizer_fingerprint or "none",
                remedy="fetch the target's tokenizer again and encode the prompt with it",
            )
        if len(request.prompt) > self.limits.prompt_tokens:
            raise LimitExceeded("prompt", limit=self.limits.prompt_tokens, unit="tokens", got=len(request.prompt))
        return Sequence(
            request,
            end_of_text=self._end_of_text,
            token_bytes=vocabulary.token_bytes,
            vocabulary_size=self._vocabulary_size,
            context_length=self.limits.context_tokens,
            arithmetic=arithmetic_for(self._model.device),
        )


def _no_drafter(language: str, name: str, request: DraftingRequest) -> DraftSession | None:
    del language, name, request
    return None


def _no_lengths(language: str, name: str) -> DraftLength | None:
    del language, name
    return None
