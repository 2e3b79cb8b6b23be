"""The Completion service: text in, streamed text out, with drafts made here. Knows messages only through the wire.

A request's text becomes token ids in one place, and its language's drafter and gate are chosen there; the rest is the
one loop of `drafts.speculation` over the same target that the Target service serves.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace

import structlog

from decoding.draft_length import DraftLength
from decoding.drafting import Drafter, DraftingRequest, DraftSession
from decoding.gate import Decision, Gate, GateBook, RequestOutcome
from decoding.prompt import Prompt, assemble
from decoding.rules import GuardRules
from decoding.session import Chunk, DraftStop, Mode, Session
from decoding.traces import trace
from decoding.verdict import DecodeRequest, Finished, Opened
from drafts.detection import detect
from drafts.speculation import DraftBudget, speculate
from slipstream import services, wire
from slipstream.completion import CompletionDelta, CompletionRequest, CompletionStarted
from target_server.account import watched
from target_server.calls import REQUEST_ID_KEY, Calls, Context
from target_server.lifecycle import Served
from target_server.metrics import Metrics, Moved


class CompletionService(services.CompletionServicer):
    """`clock` is in nanoseconds, monotonic; `now` in seconds since the epoch, to date the changes of gates."""

    def __init__(
        self,
        *,
        calls: Calls,
        metrics: Metrics,
        gates: GateBook,
        guard: GuardRules | None = None,
        budget: DraftBudget | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._calls = calls
        self._metrics = metrics
        self._gates = gates
        self._guard = guard
        self._budget = budget
        self._clock = clock
        self._now = now

    async def Complete(self, message: services.CompleteRequestMessage, context: Context) -> None:  # noqa: N802
        async with self._calls.accounted(context, "complete") as account:
            served = self._calls.lifecycle.served()
            account.request_id = self._calls.request_id(context)
            asked = wire.completion_request_value(message)
            account.request_id = asked.request_id or account.request_id
            await context.send_initial_metadata(((REQUEST_ID_KEY, account.request_id),))
            # Long texts and tables take a while, so the loop goes on meanwhile.
            account.language, prompt, drafter = await asyncio.to_thread(_understood, asked, served)
            gate = self._gates.gate(account.language, drafter.name) if drafter else None
            decision = gate.decide() if gate else Decision(speculate=False)
            if not decision.speculate:
                drafter = None
            sampling = asked.sampling
            if not asked.seed_given:
                sampling = replace(sampling, seed=self._calls.seed())
            request = DecodeRequest(
                prompt=prompt,
                sampling=sampling,
                stop=asked.stop,
                language=account.language,
                drafter=drafter.name if drafter else "",
                tokenizer_fingerprint=served.description.tokenizer_fingerprint,
                request_id=account.request_id,
                client=context.peer(),
            )
            account.drafter = request.drafter
            length = None
            if gate is not None and decision.speculate:
                record = served.records.of(account.language, request.drafter).record
                length = DraftLength(record, probing=decision.probe)
            session = _session(request, served, self._guard, length)
            try:
                async with watched(served.target, request, account) as verifier:
                    await _answer(context, _started(request, verifier.opened))
                    drafting = _drafting(session, drafter)
                    async with aclosing(
                        speculate(session, drafting, verifier, clock=self._clock, budget=self._budget)
                    ) as chunks:
                        async for chunk in chunks:
                            await _answer(context, _delta(chunk))
                    finished = await verifier.finish()
            finally:
                if gate is not None:
                    self._record(gate, session.outcome(probe=decision.probe))
            account.settle("OK")
            await _answer(context, finished)

    def _record(self, gate: Gate, outcome: RequestOutcome) -> None:
        """Let the gate learn of a request, finished or not, and count what it makes of it."""
        for event in gate.record(outcome):
            self._metrics.gate_moved(
                Moved(
                    at=self._now(),
                    side="server",
                    language=event.language,
                    drafter=event.drafter,
                    before=event.before,
                    after=event.after,
                    reason=event.reason,
                )
            )
        self._metrics.gate_state(gate.language, gate.drafter, side="server", state=gate.state)


def _understood(asked: CompletionRequest, served: Served) -> tuple[str, tuple[int, ...], Drafter | None]:
    """The language, the prompt's token ids, and the language's drafter unless a plain completion is asked for.

    The prompt is what fits, with room left for the output up to half of the context.
    """
    description, vocabulary = served.description, served.vocabulary
    language = detect(asked.language, asked.path, asked.prefix)
    room = max(description.context_length - asked.stop.max_tokens, description.context_length // 2)
    budget = min(description.limits.prompt_tokens, room)
    text = Prompt(prefix=asked.prefix, suffix=asked.suffix, language=language, path=asked.path)
    prompt = assemble(text, vocabulary.encode, vocabulary.fim, budget, vocabulary.begin_of_text_id)
    return language, prompt, None if asked.plain else served.drafters.for_language(language)


def _session(request: DecodeRequest, served: Served, guard: GuardRules | None, length: DraftLength | None) -> Session:
    return Session(
        request,
        mode=Mode.EDGE if request.drafter else Mode.PLAIN,
        block_rows=served.description.limits.block_rows,
        context_length=served.description.context_length,
        token_bytes=served.vocabulary.token_bytes,
        end_of_text=served.description.end_of_text_ids,
        guard=guard,
        length=length,
    )


def _drafting(session: Session, drafter: Drafter | None) -> DraftSession | None:
    """The drafter's state for this request; one that fails already here costs the request its drafts and no more."""
    if drafter is None:
        return None
    request = session.request
    try:
        return drafter.open(
            DraftingRequest(prompt=request.prompt, language=request.language, sampling=request.sampling)
        )
    except Exception as error:
        session.stop_drafting(DraftStop.DRAFTER_FAILED)
        structlog.get_logger().warning("drafter", drafter=drafter.name, trace=trace(error))
        return None


def _started(request: DecodeRequest, opened: Opened) -> CompletionStarted:
    return CompletionStarted(
        language=request.language,
        drafter=request.drafter,
        seed=opened.seed,
        noise_version=opened.noise_version,
        request_id=request.request_id,
    )


def _delta(chunk: Chunk) -> CompletionDelta:
    return CompletionDelta(text=chunk.text, tokens=chunk.tokens, sources=chunk.sources)


async def _answer(context: Context, value: CompletionStarted | CompletionDelta | Finished) -> None:
    await context.write(wire.completion_answer_message(value))
