"""What engine tests share: requests, drafters of every temper, and the two ways to decode."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from decoding.drafting import Draft
from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules
from decoding.verdict import DecodeRequest, Finished, Verdict
from target_server.engine import Engine
from target_server.loader import LoadedModel
from target_server.settings import TargetSettings

Guess = Callable[[int], Sequence[int]]

# In float32 whatever the processor multiplies natively: what tests compare with is float32, too.
SMALL = TargetSettings(
    model="tiny",
    dtype="float32",
    device="cpu",
    threads=1,
    context_tokens=192,
    prompt_tokens=160,
    sessions=2,
    prefill_rows=32,
)


def settings(**changes: Any) -> TargetSettings:
    return replace(SMALL, **changes)


def request_for(
    loaded: LoadedModel,
    prompt: Sequence[int],
    *,
    sampling: SamplingConfig | None = None,
    **stop: Any,
) -> DecodeRequest:
    return DecodeRequest(
        prompt=tuple(prompt),
        sampling=sampling or SamplingConfig(),
        stop=StopRules(**stop),
        language="python",
        drafter="",
        tokenizer_fingerprint=loaded.vocabulary.fingerprint,
        request_id="test",
    )


def plain_draft(request: DecodeRequest, emitted: int = 0, tokens: Sequence[int] = ()) -> Draft:
    return Draft(position=len(request.prompt) + emitted, tokens=tuple(tokens), sampling_fingerprint="")


async def decode_plainly(engine: Engine, request: DecodeRequest) -> tuple[list[Verdict], Finished]:
    async with engine.open(request) as sequence:
        verdicts = [verdict async for verdict in sequence.run(request.stop.max_tokens)]
        return verdicts, await sequence.finish()


async def decode_with(engine: Engine, request: DecodeRequest, guess: Guess) -> tuple[list[Verdict], Finished]:
    """`guess(n)`: what to draft when n tokens have been emitted."""
    verdicts: list[Verdict] = []
    emitted = 0
    async with engine.open(request) as sequence:
        while not verdicts or verdicts[-1].finish is None:
            verdicts.append(await sequence.verify(plain_draft(request, emitted, guess(emitted))))
            emitted += len(verdicts[-1].tokens)
        return verdicts, await sequence.finish()


def tokens_of(verdicts: Sequence[Verdict]) -> list[int]:
    return [token for verdict in verdicts for token in verdict.tokens]


def noisy_oracle(known: Sequence[int], *, right: float, vocabulary: int, longest: int, seed: int) -> Guess:
    """Drafts of any length up to `longest`, each token right with that probability."""
    dice = random.Random(seed)  # noqa: S311

    def guess(emitted: int) -> list[int]:
        ahead = known[emitted : emitted + dice.randint(0, longest)]
        return [token if dice.random() < right else dice.randrange(vocabulary) for token in ahead]

    return guess
