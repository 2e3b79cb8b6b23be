"""A served toy: the tiny tokenizer, logits that are a hash of the last token, steps that tests can hold and break.

Its greedy output soon repeats itself, so a drafter that remembers what followed what is mostly right.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tiny_models import save_tokenizer

from decoding.arithmetic import NumpyArithmetic
from decoding.drafting import Draft, DraftingRequest
from decoding.errors import LimitExceeded, TargetUnavailable
from decoding.noise import NOISE_VERSION
from decoding.sequence import Sequence
from decoding.verdict import DecodeRequest, Finished, FinishReason, Opened, Verdict
from drafts.vocabulary import Vocabulary
from slipstream.description import Limits, TargetDescription
from target_server.lifecycle import Served

CONTEXT_LENGTH = 256
PROMPT_TOKENS = 200
BLOCK_ROWS = 8


class ToyTarget:
    """A Target in process. `before_step` is awaited before each step; what it raises, the step raises."""

    def __init__(self, vocabulary: Vocabulary, *, sessions: int = 8) -> None:
        self.vocabulary = vocabulary
        self.sessions = sessions
        self.steps = 0
        self.opened_ever = 0
        self.open_now = 0
        self.closed = False
        self.changed = asyncio.Condition()
        self.before_step: Callable[[], object] | None = None

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for a step, an opening or a freeing that makes `holds` true."""
        async with self.changed:
            await asyncio.wait_for(self.changed.wait_for(holds), 20)

    async def note(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    @asynccontextmanager
    async def open(self, request: DecodeRequest) -> AsyncIterator[ToyVerifier]:
        if self.closed:
            raise TargetUnavailable("closed")
        if self.open_now >= self.sessions:
            raise LimitExceeded("sessions", limit=self.sessions, unit="sequences", retry_after_ms=50)
        verifier = ToyVerifier(self, request)
        self.open_now += 1
        self.opened_ever += 1
        try:
            await self.note()
            yield verifier
        finally:
            self.open_now -= 1
            await asyncio.shield(self.note())

    async def close(self) -> None:
        self.closed = True

    def logits(self, token: int) -> NDArray[np.float32]:
        size = self.vocabulary.size
        seed = int.from_bytes(hashlib.blake2b(str(token).encode(), digest_size=8).digest(), "little")
        row = np.random.default_rng(seed).standard_normal(size).astype(np.float32)
        row[list(self.vocabulary.end_of_text_ids)] = -50
        return row


class ToyVerifier:
    def __init__(self, target: ToyTarget, request: DecodeRequest) -> None:
        self.target = target
        self.sequence = Sequence(
            request,
            end_of_text=frozenset(target.vocabulary.end_of_text_ids),
            token_bytes=target.vocabulary.token_bytes,
            vocabulary_size=target.vocabulary.size,
            context_length=CONTEXT_LENGTH,
            arithmetic=NumpyArithmetic(),
        )
        self.request = request
        self.opened = Opened(
            prompt_tokens=len(request.prompt), cached_tokens=0, seed=request.sampling.seed, noise_version=NOISE_VERSION
        )

    async def verify(self, draft: Draft) -> Verdict:
        block = self.sequence.block(draft)
        if self.target.before_step is not None:
            waiting = self.target.before_step()
            if asyncio.iscoroutine(waiting):
                await waiting
        self.target.steps += 1
        verdict = self.sequence.judge(draft, [self.target.logits(token) for token in block])
        await self.target.note()
        return verdict

    async def run(self, limit: int, *, drafter: str = "") -> AsyncIterator[Verdict]:
        drafting = None
        if drafter:
            drafting = ToyDrafter().open(
                DraftingRequest(
                    prompt=self.request.prompt, language=self.request.language, sampling=self.request.sampling
                )
            )
        while limit > 0 and self.sequence.finish is None:
            room = min(limit, BLOCK_ROWS) - 1
            draft = Draft(position=self.sequence.position, tokens=(), sampling_fingerprint="")
            if drafting and room:
                draft = drafting.propose(room)
            verdict = await self.verify(draft)
            if drafting:
                drafting.extend(verdict.tokens)
            limit -= len(verdict.tokens)
            yield verdict

    async def finish(self) -> Finished:
        return Finished(
            reason=self.sequence.finish or FinishReason.CLOSED,
            statistics=self.sequence.statistics,
            queue_us=0,
            first_token_us=1000 if self.sequence.statistics.emitted_tokens else 0,
            total_us=2000 * max(1, self.sequence.statistics.emitted_tokens),
        )


class ToyDrafter:
    """Proposes what followed each token the last time. `fails`: raises instead."""

    name = "mix"

    def __init__(self, *, hostile: bool = False, fails: bool = False) -> None:
        self.hostile = hostile
        self.fails = fails

    def open(self, request: DraftingRequest) -> ToyDrafting:
        return ToyDrafting(self, request)


class ToyDrafting:
    def __init__(self, drafter: ToyDrafter, request: DraftingRequest) -> None:
        self.drafter = drafter
        self.tokens = list(request.prompt)

    def extend(self, tokens: tuple[int, ...]) -> None:
        self.tokens.extend(tokens)

    def propose(self, limit: int) -> Draft:
        if self.drafter.fails:
            raise RuntimeError("a drafter broke over canary text")
        after = dict(zip(self.tokens, self.tokens[1:], strict=False))
        token = self.tokens[-1]
        guessed = []
        for _ in range(limit):
            if self.drafter.hostile:
                token = (token + 1) % 256 + 1
            elif token in after:
                token = after[token]
            else:
                break
            guessed.append(token)
        return Draft(
            position=len(self.tokens),
            tokens=tuple(guessed),
            sampling_fingerprint="",
            sources=("toy",) * len(guessed),
        )


class ToyDrafters:
    def __init__(self, drafter: ToyDrafter) -> None:
        self.drafter = drafter

    def for_language(self, language: str) -> ToyDrafter:
        return self.drafter

    def named(self, language: str, name: str) -> ToyDrafter | None:
        return self.drafter if name == self.drafter.name else None


def toy_vocabulary(folder: Path) -> Vocabulary:
    save_tokenizer(folder)
    return Vocabulary.load(folder)


def toy_served(vocabulary: Vocabulary, target: ToyTarget, drafter: ToyDrafter | None = None) -> Served:
    drafter = drafter or ToyDrafter()
    return Served(
        target=target,
        vocabulary=vocabulary,
        drafters=ToyDrafters(drafter),
        description=TargetDescription(
            model_id="toy",
            model_revision="0",
            tokenizer_fingerprint=vocabulary.fingerprint,
            vocabulary_size=vocabulary.size,
            end_of_text_ids=vocabulary.end_of_text_ids,
            fim=vocabulary.fim,
            context_length=CONTEXT_LENGTH,
            dtype="float32",
            device="cpu",
            noise_version=NOISE_VERSION,
            limits=Limits(
                sessions=target.sessions,
                queued_requests=0,
                prompt_tokens=PROMPT_TOKENS,
                block_rows=BLOCK_ROWS,
                message_bytes=2**20,
            ),
            drafters=(("python", drafter.name), ("rust", drafter.name)),
            server_version="0",
        ),
        close=target.close,
    )
