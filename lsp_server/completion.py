"""A suggestion from text to text: prompt, drafter, gate, session, target. For any program; knows nothing of LSP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import Protocol

import structlog

from decoding.detokenizer import Detokenizer
from decoding.drafting import Drafter, DraftingRequest, DraftSession
from decoding.insertion import tidy
from decoding.rules import GateRules, GuardRules
from decoding.session import Chunk, DraftStop, Mode, Session
from decoding.traces import trace
from decoding.verdict import DecodeRequest, Verifier
from drafts.detection import detect
from drafts.registry import DrafterRegistry
from drafts.settings import DraftSettings
from drafts.speculation import DraftBudget, speculate
from drafts.vocabulary import Vocabulary
from lsp_server.context import BufferTokens, prompt_tokens
from lsp_server.gating import Gating, Plan
from lsp_server.suggestion import CompletionRequest, CompletionResult, Piece, Progress
from slipstream.description import TargetDescription
from slipstream.opening import GateReport

log = structlog.get_logger()

NO_DRAFTER = "none"  # the name of the one that stands where settings want no drafting


class EditorTarget(Protocol):
    """A target as the editor's side uses it; `target_client.TargetClient`, or one in process."""

    async def describe(self) -> TargetDescription:
        """Raises TargetUnavailable."""

    async def vocabulary(self) -> Vocabulary:
        """Raises TargetUnavailable, UnusableVocabulary."""

    def open(
        self, request: DecodeRequest, *, gate: GateReport | None = None, timeout_s: float | None = None
    ) -> AbstractAsyncContextManager[Verifier]: ...


class Drafters(Protocol):
    """Drafters by language; `drafts.registry.DrafterRegistry`, or one that stands before it."""

    def for_language(self, language: str) -> Drafter: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What requests to one target have in common; a target that was replaced has others."""

    description: TargetDescription
    vocabulary: Vocabulary
    registry: Drafters


class CompletionService:
    """Completes text with one target.

    clock: nanoseconds, monotonic. registry: makes the drafters for a vocabulary. choose_length: False drafts all that a
    block holds, whether it pays or not.
    """

    def __init__(
        self,
        target: EditorTarget,
        *,
        drafts: DraftSettings,
        gate: GateRules,
        guard: GuardRules | None = None,
        budget: DraftBudget | None = None,
        buffer_files: int = 64,
        choose_length: bool = True,
        clock: Callable[[], int] = time.monotonic_ns,
        registry: Callable[[DraftSettings, Vocabulary], Drafters] = DrafterRegistry,
    ) -> None:
        self.gating = Gating(gate)
        self._guard = guard
        self._budget = budget
        self._choose_length = choose_length
        self._target = target
        self._drafts = drafts
        self._clock = clock
        self._buffers = BufferTokens(buffer_files)
        self._make_registry = registry
        self._registry: tuple[Vocabulary, Drafters] | None = None
        self._facts: asyncio.Task[Facts] | None = None

    async def complete(
        self, request: CompletionRequest, *, deliver: Callable[[Progress], None] = lambda _progress: None
    ) -> CompletionResult:
        """The whole suggestion; `deliver` hears of its tokens as they are verified.

        Cancelling it frees the sequence at the target. Raises what `decoding.errors` names.
        """
        start = self._clock()
        facts = await asyncio.shield(self._learning())
        description, vocabulary = facts.description, facts.vocabulary
        language = detect(request.language_id, request.path, request.prefix)
        prompt = prompt_tokens(request, language, vocabulary, description)
        # Beside the event loop, since a language's first request loads its table.
        drafter = await asyncio.to_thread(facts.registry.for_language, language) if request.drafting else None
        plan = self._plan(request, language, facts, drafter)
        decode = DecodeRequest(
            prompt=prompt,
            sampling=request.sampling,
            stop=request.stop,
            language=language,
            drafter=plan.drafter,
            tokenizer_fingerprint=vocabulary.fingerprint,
            request_id=request.request_id,
        )
        session = Session(
            decode,
            mode=plan.mode,
            block_rows=description.limits.block_rows,
            context_length=description.context_length,
            token_bytes=vocabulary.token_bytes,
            end_of_text=description.end_of_text_ids,
            guard=self._guard,
            length=plan.length() if self._choose_length else None,
        )
        output = _Output(vocabulary, deliver)
        making = None
        if drafter is not None and plan.mode is Mode.EDGE:
            making = asyncio.create_task(self._drafting(drafter, request, decode, vocabulary))  # while the target opens
        report = self.gating.report(plan)
        reached = False
        try:
            left = request.deadline_s - (self._clock() - start) / 1e9
            async with self._target.open(decode, gate=report, timeout_s=left) as verifier:
                reached, opened = True, verifier.opened
                drafting = None if making is None else await making
                if making is not None and drafting is None:
                    session.stop_drafting(DraftStop.DRAFTER_FAILED)
                async with aclosing(
                    speculate(session, drafting, verifier, clock=self._clock, budget=self._budget)
                ) as chunks:
                    async for chunk in chunks:
                        output.take(chunk, self._clock())
                        if plan.overtaken:
                            session.stop_drafting(DraftStop.GATE)
        finally:
            if not reached:
                self.gating.untold(plan, report)
            if making is not None:
                making.cancel()
            transitions = self.gating.record(plan, session)
        raw = output.text
        return CompletionResult(
            request_id=request.request_id,
            text=tidy(raw, request.prefix, request.suffix),
            raw_text=raw,
            tokens=tuple(output.tokens),
            sources=tuple(output.sources),
            finish=session.finish,
            statistics=session.statistics,
            language=language,
            drafter=plan.drafter,
            mode=plan.mode,
            gate=None if plan.gate is None else plan.gate.state,
            transitions=transitions,
            seed=opened.seed,
            noise_version=opened.noise_version,
            first_token_ms=None if output.first_ns is None else (output.first_ns - start) / 1e6,
            total_ms=(self._clock() - start) / 1e6,
        )

    def warm(self) -> None:
        """Begin to learn what must be known of the target; a failure is the next request's to meet."""
        self._learning()

    def _learning(self) -> asyncio.Task[Facts]:
        """One task for all who wait: a request that is cancelled, as by the next keystroke, doesn't begin it anew."""
        if self._facts is None or self._facts.done():
            self._facts = asyncio.create_task(self._learn(), name="facts of the target")
            self._facts.add_done_callback(_retrieve)
        return self._facts

    async def _learn(self) -> Facts:
        description = await self._target.describe()
        vocabulary = await self._target.vocabulary()
        if self._registry is None or self._registry[0] is not vocabulary:
            self._registry = vocabulary, self._make_registry(self._drafts, vocabulary)
        return Facts(description=description, vocabulary=vocabulary, registry=self._registry[1])

    def _plan(self, request: CompletionRequest, language: str, facts: Facts, drafter: Drafter | None) -> Plan:
        """Who could draft for the request, and whether the gate lets it."""
        if drafter is None or drafter.name == NO_DRAFTER:
            return Plan(mode=Mode.PLAIN)
        return self.gating.plan(language, drafter.name, placement=request.placement, offered=facts.description.drafters)

    async def _drafting(
        self, drafter: Drafter, request: CompletionRequest, decode: DecodeRequest, vocabulary: Vocabulary
    ) -> DraftSession | None:
        """A drafter at work on a request; None where it broke."""
        ahead = vocabulary.encode(request.suffix[: request.buffer_tokens])
        buffers = [await self._buffers.of(buffer, vocabulary, request.buffer_tokens) for buffer in request.buffers]
        wish = DraftingRequest(
            prompt=decode.prompt,
            language=decode.language,
            sampling=decode.sampling,
            buffers=tuple(tokens for tokens in (ahead, *buffers) if tokens),
        )
        try:
            return await asyncio.to_thread(drafter.open, wish)  # it may index some ten thousand tokens
        except Exception as error:  # a drafter may only ever cost speed
            log.warning("drafter dropped", request=request.request_id, drafter=drafter.name, trace=trace(error))
            return None


def _retrieve(task: asyncio.Task[Facts]) -> None:
    """Take note of a failure, which all who waited for it may have been cancelled out of hearing."""
    if not task.cancelled():
        task.exception()


class _Output:
    """What has come of one request so far, told to `deliver` as it comes."""

    def __init__(self, vocabulary: Vocabulary, deliver: Callable[[Progress], None]) -> None:
        self.text = ""
        self.tokens: list[int] = []
        self.sources: list[str] = []
        self.first_ns: int | None = None
        self._deliver = deliver
        self._spelling = Detokenizer(vocabulary.token_bytes)

    def take(self, chunk: Chunk, now_ns: int) -> None:
        self.text += chunk.text
        self.tokens += chunk.tokens
        self.sources += chunk.sources
        if chunk.tokens and self.first_ns is None:
            self.first_ns = now_ns
        pieces = tuple(
            Piece(token=token, source=source, text=self._spelling.push(token))
            for token, source in zip(chunk.tokens, chunk.sources, strict=True)
        )
        self._deliver(Progress(position=chunk.position, text=chunk.text, pieces=pieces))
