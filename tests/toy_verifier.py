"""A toy target behind the `Verifier` seam, in process, and drafters of every quality for it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence

from toy_target import END, ToyTarget, token_bytes

from decoding.draft_length import DraftLength
from decoding.drafting import Draft
from decoding.sampling import SamplingConfig
from decoding.session import Mode, Session
from decoding.stopping import StopRules
from decoding.verdict import DecodeRequest, Finished, FinishReason, Opened, Verdict

PROMPT = (1, 2)
END_OF_TEXT = frozenset({END})
Guess = Callable[[tuple[int, ...], int], tuple[int, ...]]


def request(
    *, sampling: SamplingConfig | None = None, stop: StopRules | None = None, drafter: str = "toy"
) -> DecodeRequest:
    return DecodeRequest(
        prompt=PROMPT,
        sampling=sampling or SamplingConfig(),
        stop=stop or StopRules(),
        language="python",
        drafter=drafter,
        tokenizer_fingerprint="",
        request_id="toy",
    )


def session(
    opening: DecodeRequest,
    mode: Mode,
    *,
    block_rows: int = 8,
    context_length: int = 1000,
    length: DraftLength | None = None,
) -> Session:
    return Session(
        opening,
        mode=mode,
        block_rows=block_rows,
        context_length=context_length,
        token_bytes=token_bytes,
        end_of_text=END_OF_TEXT,
        length=length,
    )


class ToyVerifier:
    """One sequence of a toy target. `guess` is what it drafts by when a run names a drafter."""

    def __init__(
        self, target: ToyTarget, opening: DecodeRequest, *, context_length: int = 1000, guess: Guess | None = None
    ) -> None:
        self.sequence = target.open(
            prompt=opening.prompt, sampling=opening.sampling, stop=opening.stop, context_length=context_length
        )
        self.history = opening.prompt
        self.runs: list[tuple[int, str]] = []
        self.running = False
        self._target = target
        self._guess = guess or (lambda history, limit: ())

    @property
    def opened(self) -> Opened:
        return Opened(prompt_tokens=len(PROMPT), cached_tokens=1, seed=0, noise_version="toy")

    async def verify(self, draft: Draft) -> Verdict:
        block = self.sequence.block(draft)
        rows = [self._target.logits(self.history + block[1 : index + 1]) for index in range(len(block))]
        verdict = self.sequence.judge(draft, rows)
        self.history += verdict.tokens
        return verdict

    async def run(self, limit: int, *, drafter: str = "") -> AsyncGenerator[Verdict, None]:
        self.runs.append((limit, drafter))
        self.running = True
        try:
            left = limit
            while left and self.sequence.finish is None:
                tokens = self._guess(self.history, left - 1) if drafter else ()
                sources = ("server",) * len(tokens)
                draft = Draft(position=self.sequence.position, tokens=tokens, sampling_fingerprint="", sources=sources)
                verdict = await self.verify(draft)
                left -= len(verdict.tokens)
                yield verdict
        finally:
            self.running = False

    async def finish(self) -> Finished:
        reason = self.sequence.finish or FinishReason.CLOSED
        return Finished(reason=reason, statistics=self.sequence.statistics, queue_us=0, first_token_us=0, total_us=0)


class ToyDrafting:
    """A drafting session that guesses by a function of history, position included."""

    def __init__(self, guess: Guess, *, fingerprint: str = "") -> None:
        self.history = PROMPT
        self._guess = guess
        self._fingerprint = fingerprint

    def extend(self, tokens: Sequence[int]) -> None:
        self.history += tuple(tokens)

    def propose(self, limit: int) -> Draft:
        tokens = self._guess(self.history, limit)[:limit]
        return Draft(
            position=len(self.history),
            tokens=tokens,
            sampling_fingerprint=self._fingerprint,
            sources=("toy",) * len(tokens),
        )


async def reference(target: ToyTarget, opening: DecodeRequest, *, context_length: int = 1000) -> list[Verdict]:
    """Plain decoding without a session: one empty draft after another."""
    verifier = ToyVerifier(target, opening, context_length=context_length)
    return [verdict async for verdict in verifier.run(opening.stop.max_tokens + 1)]
