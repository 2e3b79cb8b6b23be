"""One random case on a toy target, speculated through session and drafter, and compared with plain decoding."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from random import Random
from typing import Any

from equality_cases import (
    Case,
    Free,
    check_counts,
    draw_case,
    draw_sampling,
    draw_stop,
    joined,
)
from equality_drafters import Guess, drafting_of, guess_of
from numpy.typing import NDArray
from toy_target import END, PIECES, ToyTarget, token_bytes
from toy_verifier import END_OF_TEXT, ToyVerifier

from decoding.acceptance import pick
from decoding.arithmetic import NumpyArithmetic
from decoding.processors import Context
from decoding.sampling import SamplingConfig
from decoding.session import Chunk, Mode, Session
from decoding.stopping import FinishReason
from decoding.verdict import DecodeRequest
from drafts.speculation import speculate

SIZE = len(PIECES)
MOST_TOKENS = (6, 12, 24, 32)
ROOM = 1000


class Remembering(ToyTarget):
    """Makes each row once: it is asked for the same ones plainly and speculatively."""

    def __init__(self, *, rows_at_once: int, **shape: Any) -> None:
        super().__init__(**shape)
        self._arithmetic = NumpyArithmetic(rows_at_once=rows_at_once)
        self._rows: dict[tuple[int, ...], NDArray[Any]] = {}

    def open(self, **changes: Any) -> Any:
        return super().open(**changes, arithmetic=self._arithmetic)

    def logits(self, tokens: tuple[int, ...]) -> NDArray[Any]:
        key = tokens[-self.order :]
        if key not in self._rows:
            self._rows[key] = super().logits(tokens)
        return self._rows[key]


def decode_freely(target: ToyTarget, prompt: tuple[int, ...], config: SamplingConfig, most: int) -> Free:
    """The rule of acceptance at one position after the other, each under a context that is made anew."""
    history, log_probabilities = prompt, []
    while len(log_probabilities) < most:
        row, context = target.logits(history), Context(history)
        chosen = pick(row, context, len(history), config, NumpyArithmetic(), valid_size=SIZE)
        if chosen.token == END:
            break
        history += (chosen.token,)
        log_probabilities.append(chosen.log_probability)
    ended = len(log_probabilities) < most
    return Free(tokens=history[len(prompt) :], log_probabilities=tuple(log_probabilities), ended=ended)


async def decode(
    case: Case, request: DecodeRequest, verifier: ToyVerifier, guess: Guess, context_length: int
) -> tuple[Session, list[Chunk]]:
    session = case.session(request, context_length=context_length, token_bytes=token_bytes, end_of_text=END_OF_TEXT)
    chunks: list[Chunk] = []
    clock = itertools.count(0, 30_000_000 if case.slow else 1).__next__
    if case.stop_after == 0:
        session.stop_drafting(case.stop_reason)
    async for chunk in speculate(session, drafting_of(case, request, guess), verifier, clock=clock):
        chunks.append(chunk)
        if len(chunks) == case.stop_after:
            session.stop_drafting(case.stop_reason)
    return session, chunks


def check(number: int) -> Counter[str]:
    """One case: that it is as plain decoding has it. What it was a case of."""
    dice = Random(number)  # noqa: S311
    case = draw_case(number, dice)
    target = Remembering(rows_at_once=case.rows_at_once, salt=dice.randrange(10**6), order=dice.randint(1, 4))
    config = draw_sampling(dice, range(SIZE))
    prompt = (dice.randrange(SIZE), dice.randrange(SIZE))
    context_length = dice.choice((ROOM, ROOM, dice.randint(3, 30)))
    most = dice.choice(MOST_TOKENS)
    free = decode_freely(target, prompt, config, most)
    stop = draw_stop(dice, b"".join(map(token_bytes, free.tokens)).decode(errors="replace"), free.tokens, most=most)
    expected = free.cut(stop, room=context_length - len(prompt), token_bytes=token_bytes)

    request = DecodeRequest(
        prompt=prompt,
        sampling=config,
        stop=stop,
        language="python",
        drafter="toy",
        tokenizer_fingerprint="",
        request_id=f"case-{number}",
    )
    guess = guess_of(case, dice, len(prompt), free.tokens, END, SIZE)
    verifier = ToyVerifier(target, request, context_length=context_length, guess=guess)
    session, chunks = asyncio.run(decode(case, request, verifier, guess, context_length))
    counts = verifier.sequence.statistics
    assert joined(chunks) == expected, f"case {number}"
    assert session.finish is verifier.sequence.finish is expected.finish
    assert session.statistics.verify_steps == len(chunks)
    check_counts(counts, expected, stop)
    for field in ("drafted_tokens", "judged_tokens", "accepted_tokens", "emitted_tokens", "verify_steps"):
        assert getattr(session.statistics, field) == getattr(counts, field), f"case {number}: {field}"
    assert case.mode is not Mode.PLAIN or not counts.drafted_tokens
    return seen(case, config, session, chunks)


def seen(case: Case, config: SamplingConfig, session: Session, chunks: list[Chunk]) -> Counter[str]:
    """The situations that a case was one of."""
    last, finish = chunks[-1], chunks[-1].finish
    accepted = sum(source != "target" for chunk in chunks for source in chunk.sources)
    stop, whole = session.request.stop, joined(chunks)
    held = len(b"".join(map(token_bytes, whole.tokens[:-1])).decode(errors="replace"))
    inside = bool(last.sources) and last.sources[-1] != "target"
    return Counter(
        {
            f"end: {finish}": 1,
            f"drafting stopped: {session.draft_stop}": 1,
            f"{case.mode}": 1,
            f"{finish} by an accepted token": inside,
            "a stop string across tokens": finish is FinishReason.STOP_STRING and len(whole.text) < held,
            "a stop string of many bytes": finish is FinishReason.STOP_STRING
            and any(not string.isascii() for string in stop.strings),
            "an accepted id that ends the text": session.statistics.accepted_tokens > accepted,
            "greedy": config.greedy,
            **{
                name: getattr(config, name) != getattr(SamplingConfig(), name)
                for name in ("top_k", "top_p", "min_p", "repetition_penalty", "logit_bias", "banned")
            },
            "accepted tokens": accepted,
        }
    )
