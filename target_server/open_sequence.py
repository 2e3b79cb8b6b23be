"""One open sequence in the engine: the steps it takes on the device, and the slot it holds until it is closed.

What the prefix cache doesn't hold of the prompt is cached in the background from the moment of opening, so that the
client can draft meanwhile. All of the sequence's token state is in `decoding.sequence`; this module keeps the slot, the
timing and the failures.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from torch import Tensor

from decoding.drafting import Draft, DraftingRequest, DraftSession
from decoding.errors import (
    ContractViolation,
    DeadlineExceeded,
    InvalidSetting,
    LimitExceeded,
    SlipstreamError,
    TargetFailed,
    TargetUnavailable,
)
from decoding.noise import NOISE_VERSION
from decoding.sequence import Sequence
from decoding.stopping import MAX_OUTPUT_TOKENS
from decoding.verdict import DecodeRequest, Finished, FinishReason, Opened, Verdict
from target_server.guarded_drafts import Drafting, GuardedDrafts, Lengths
from target_server.model import StepShape
from target_server.step_loop import StepLoop
from target_server.steps import Outcome, Segment
from target_server.ticket import Ran, Ticket

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A slot, and what one sequence may do with it.

    cached: tokens of the prompt that stand in the slot already, a multiple of the prefill rows.
    arrived, expires: clock readings, seconds; queue_us: microseconds waited for admission.
    filled: called on the step loop's thread with each chunk that stands: its start, its tokens.
    give_back: called once, on the event loop, when no step can write to the slot any more; told whether what the slot
        holds is sound.
    """

    slot: int
    cached: int
    arrived: float
    expires: float
    queue_us: int
    filled: Callable[[int, tuple[int, ...]], None]
    give_back: Callable[[bool], None]


class OpenSequence:
    """A `decoding.verdict.Verifier` over the engine's model. Made, used and closed on one event loop."""

    def __init__(
        self,
        request: DecodeRequest,
        *,
        sequence: Sequence[Tensor],
        shape: StepShape,
        steps: StepLoop,
        lease: Lease,
        clock: Callable[[], float],
        drafting: Drafting,
        lengths: Lengths,
    ) -> None:
        self._request = request
        self._sequence = sequence
        self._shape = shape
        self._steps = steps
        self._lease = lease
        self._clock = clock
        self._drafting = drafting
        self._lengths = lengths
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._tokens: list[int] = []
        self._queue_us = lease.queue_us
        self._first_token_us = 0
        self._ticket: Ticket[Any] | None = None
        self._busy = False
        self._closed = False
        self._spoiled = False  # the slot may hold NaN
        self._failure: SlipstreamError | None = None
        self._finished: Finished | None = None
        sequence.cached(lease.cached)
        self._prefill = asyncio.create_task(self._cache_prompt())
        self._prefill.add_done_callback(_heard)
        self._expiry = self._loop.call_later(lease.expires - clock(), self.close)

    @property
    def opened(self) -> Opened:
        return Opened(
            prompt_tokens=len(self._request.prompt),
            cached_tokens=self._lease.cached,
            seed=self._request.sampling.seed,
            noise_version=NOISE_VERSION,
        )

    async def verify(self, draft: Draft) -> Verdict:
        """A block of a step. Raises as `decoding.verdict.Verifier.verify`; ContractViolation for a second one at once.

        Cancelled, it closes the sequence: whether the step was taken is not known any more.
        """
        longest = self._shape.block_rows - 1
        if len(draft.tokens) > longest:
            raise LimitExceeded("draft.tokens", limit=longest, unit="tokens", got=len(draft.tokens))
        self._check_open()
        if self._busy:
            raise ContractViolation("a draft came before the verdict on the one before")
        block = self._sequence.block(draft)
        start = self._sequence.position - 1
        self._busy = True
        try:
            await asyncio.shield(self._prefill)
            block_segment = Segment(slot=self._lease.slot, start=start, tokens=block, prefill=False)
            ran = await self._on_device([block_segment], lambda _, outcome: self._judge(draft, outcome))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                self.close()
                raise
            self._check_open()  # not the caller but `close` took the step away, or the engine's end
            raise TargetUnavailable("the target shuts down") from None
        finally:
            self._busy = False
        verdict = replace(ran.result, queue_us=ran.queue_us, verify_us=ran.busy_us)
        self._tokens.extend(verdict.tokens)
        if verdict.tokens and not self._first_token_us:
            self._first_token_us = self._since_arrival_us()
        return verdict

    async def run(self, limit: int, *, drafter: str = "") -> AsyncIterator[Verdict]:
        """Loop here for at most `limit` tokens. Raises as `verify`; InvalidSetting for a drafter that isn't there."""
        if not 1 <= limit <= MAX_OUTPUT_TOKENS:
            raise InvalidSetting("run.limit", f"must be from 1 to {MAX_OUTPUT_TOKENS}, got {limit}")
        drafts = self._open_drafts(drafter)
        left = limit
        while left and self._sequence.finish is None:
            draft = drafts.propose(self._sequence.position, min(self._shape.block_rows, left) - 1)
            verdict = await self.verify(draft)
            drafts.judged(verdict)
            left -= len(verdict.tokens)
            yield verdict

    async def finish(self) -> Finished:
        """The final statistics; the slot is given back. Asked again, the same answer."""
        if self._finished is None:
            self._finished = Finished(
                reason=self._sequence.finish or FinishReason.CLOSED,
                statistics=self._sequence.statistics,
                queue_us=self._queue_us,
                first_token_us=self._first_token_us,
                total_us=self._since_arrival_us(),
            )
            self.close()
        return self._finished

    def close(self) -> None:
        """Free the slot: at once, or when the step that is on the device has ended. Doing it twice does no harm."""
        if self._closed:
            return
        self._closed = True
        self._expiry.cancel()
        self._prefill.cancel()
        self._steps.forget(self)
        if self._ticket is None:
            self._release()
        else:
            self._steps.withdraw(self._ticket, lambda: self._on_loop(self._release))

    async def _cache_prompt(self) -> None:
        """Everything but the prompt's last token, which is row 0 of the first decode step."""
        prompt, rows = self._request.prompt[:-1], self._shape.prefill_rows
        chunks = [
            Segment(slot=self._lease.slot, start=start, tokens=prompt[start : start + rows], prefill=True)
            for start in range(self._lease.cached, len(prompt), rows)
        ]
        if chunks:
            await self._on_device(chunks, self._filled)

    def _filled(self, chunk: Segment, outcome: Outcome) -> None:
        """On the step loop's thread: a chunk of the prompt stands. No decode step may ever come to show its NaN."""
        if outcome.finite and not self._spoiled:
            self._lease.filled(chunk.start, chunk.tokens)
        else:
            self._spoiled = True

    def _judge(self, draft: Draft, outcome: Outcome) -> Verdict:
        """On the step loop's thread: the decision on a block."""
        if not outcome.finite:
            self._spoiled = True  # maybe in rejected rows only, which is no fault of this request
        if outcome.logits is None:
            raise ContractViolation("a block came back without logits")
        return self._sequence.judge(draft, outcome.logits)

    async def _on_device(self, segments: list[Segment], make: Callable[[Segment, Outcome], Result]) -> Ran[Result]:
        """Have segments run when their turn comes, unless the sequence is over by then."""
        self._check_open()
        self._ticket = ticket = Ticket(
            segments,
            who=self,
            client=self._request.client or self._request.request_id,
            arrived=self._lease.arrived,
            expires=self._lease.expires,
            first=not self._first_token_us,
            make=make,
        )
        self._steps.submit(ticket)
        try:
            ran = await asyncio.wrap_future(ticket.future)
        except SlipstreamError as error:
            self._break(error)
            raise
        except Exception as error:
            raise self._break(error) from error
        self._queue_us += ran.queue_us
        return ran

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._clock() >= self._lease.expires:
            raise DeadlineExceeded("the sequence was open for longer than target.request_timeout_s")
        if self._closed:
            raise ContractViolation("the sequence has been closed")

    def _break(self, error: Exception) -> SlipstreamError:
        """Note that this sequence can't go on; the others do. Whoever called logs it, with the cause's trace."""
        known = (
            error if isinstance(error, SlipstreamError) else TargetFailed(f"the model failed ({type(error).__name__})")
        )
        self._failure, self._spoiled = known, True
        return known

    def _release(self) -> None:
        """On the event loop, when no step of this sequence is on the device."""
        self._lease.give_back(not self._spoiled)

    def _on_loop(self, callback: Callable[[], None]) -> None:
        """Now, on the event loop itself; from elsewhere, soon."""
        if threading.get_ident() == self._thread:
            callback()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback)

    def _open_drafts(self, name: str) -> GuardedDrafts:
        session: DraftSession | None = None
        if name:
            request = self._request
            known = DraftingRequest(prompt=request.prompt, language=request.language, sampling=request.sampling)
            session = self._drafting(request.language, name, known)
            if session is None:
                raise InvalidSetting("run.drafter", f"there is no drafter {name!r} for this language")
        drafts = GuardedDrafts(
            session,
            request_id=self._request.request_id,
            check=self._sequence.block,
            length=self._lengths(self._request.language, name) if session else None,
            clock=self._clock,
        )
        drafts.extend(self._tokens)
        return drafts

    def _since_arrival_us(self) -> int:
        return round((self._clock() - self._lease.arrived) * 1e6)


def _heard(task: asyncio.Task[None]) -> None:
    """Take note of a failed prefill, so that asyncio doesn't complain if nobody verifies any more."""
    if not task.cancelled():
        task.exception()
