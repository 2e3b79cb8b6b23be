"""The engine: a `decoding.verdict.Target` in this process. Checks requests, hands out slots, keeps the limits.

The life of a sequence: `open` waits for a slot -> the prompt is cached chunk by chunk -> each draft becomes one decode
step, judged on the device thread -> leaving the context gives the slot back within one step.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog
from torch import Tensor

from decoding.drafting import DraftingRequest, DraftSession
from decoding.errors import LimitExceeded, Mismatch
from decoding.sequence import Sequence
from decoding.verdict import DecodeRequest
from target_server.arithmetic import TorchArithmetic
from target_server.device import Device
from target_server.errors import UnsupportedModel
from target_server.guarded_drafts import Drafting
from target_server.loader import LoadedModel
from target_server.model import Model, StepShape
from target_server.open_sequence import Lease, OpenSequence
from target_server.parity import Parity, check_parity
from target_server.settings import TargetSettings
from target_server.slots import Slots

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLimits:
    """What is in force: the settings, bounded by what the model allows. `block_rows` in rows, the rest in tokens."""

    context_tokens: int
    prompt_tokens: int
    block_rows: int


class Engine:
    """Serves one model to several sequences that take turns on one device thread.

    drafting: gives a session of the drafter (language, name) for a request, None where there is none; used by `run`.
    clock: seconds, monotonic.

    Building it allocates the KV cache and takes a moment. Raises BudgetExceeded.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        settings: TargetSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        drafting: Drafting | None = None,
    ) -> None:
        self._loaded = loaded
        self._settings = settings
        self._clock = clock
        self._drafting = drafting or _no_drafter
        context = min(settings.context_tokens, loaded.context_tokens)
        self.limits = EngineLimits(
            context_tokens=context,
            prompt_tokens=min(settings.prompt_tokens, context - 1),
            block_rows=settings.block_rows,
        )
        self._model = Model(
            loaded.hf,
            loaded.layers,
            shape=StepShape(
                block_rows=settings.block_rows,
                prefill_rows=settings.prefill_rows,
                context_tokens=context,
                slots=settings.sessions,
            ),
            kv_cache_bytes=settings.kv_cache_bytes,
        )
        self._slots = Slots(
            settings.sessions,
            queued_requests=settings.queued_requests,
            queue_wait_ms=settings.queue_wait_ms,
            clock=clock,
        )
        self._device = Device(threads=settings.threads, clock=clock)
        self._vocabulary_size = min(loaded.vocabulary.size, loaded.vocabulary_size)
        self._end_of_text = frozenset(loaded.vocabulary.end_of_text_ids)

    @property
    def open_sessions(self) -> int:
        """Sequences that hold a slot."""
        return self._settings.sessions - self._slots.free

    @property
    def free_slots(self) -> int:
        return self._slots.free

    @property
    def waiting_requests(self) -> int:
        """Requests in line for a slot."""
        return self._slots.waiting

    @property
    def kv_cache_bytes(self) -> int:
        """Bytes that the KV cache takes."""
        return self._model.cache.bytes

    async def warm_up(self) -> Parity:
        """Run the first steps and check parity; call it once, before serving.

        Where only the padded length matters on this device, every step reads whole slots from then on. Raises
        UnsupportedModel where parity can't be had and `settings.parity` is "strict".
        """
        return (await asyncio.wrap_future(self._device.submit(self._check))).result

    @asynccontextmanager
    async def open(self, request: DecodeRequest) -> AsyncIterator[OpenSequence]:
        """Open a sequence. Raises InvalidSetting, Mismatch, LimitExceeded (with a retry hint where waiting helps)."""
        arrived = self._clock()
        sequence = self._sequence(request)
        slot = await self._slots.acquire()
        lease = Lease(
            slot=slot,
            arrived=arrived,
            expires=arrived + self._settings.request_timeout_s,
            queue_us=round((self._clock() - arrived) * 1e6),
            give_back=lambda: self._slots.release(slot),
        )
        opened = OpenSequence(
            request,
            sequence=sequence,
            model=self._model,
            device=self._device,
            lease=lease,
            clock=self._clock,
            drafting=self._drafting,
        )
        try:
            yield opened
        finally:
            opened.close()

    def close(self) -> None:
        """Stop the device thread after the step that runs. Sequences still open fail."""
        self._device.close()

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
            arithmetic=TorchArithmetic(),
        )

    def _check(self) -> Parity:
        found = check_parity(self._model, vocabulary_size=self._vocabulary_size)
        if not found.padding:
            self._model.pads_to_capacity = True
            found = check_parity(self._model, vocabulary_size=self._vocabulary_size)
        if not found.holds:
            differing = ", ".join(found.broken())
            log.error("rows depend on their neighbours: speculation may change outputs", differing=differing)
            if self._settings.parity == "strict":
                raise UnsupportedModel(
                    self._loaded.name,
                    f"a token's logits depend on how it is verified ({differing}); "
                    'speculative output would differ from plain; target.parity = "report" serves it all the same',
                )
        return found


def _no_drafter(language: str, name: str, request: DraftingRequest) -> DraftSession | None:
    del language, name, request
    return None
