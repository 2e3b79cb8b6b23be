"""The drafters of the random cases: right, wrong, silent, too sure, and breaking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from equality_cases import Case

from decoding.drafting import Draft, DraftingRequest, DraftSession
from decoding.verdict import DecodeRequest
from drafts.lookup import LookupGuesser
from drafts.mix import GuessingDrafter
from drafts.settings import DraftSettings

Guess = Callable[[tuple[int, ...], int], tuple[int, ...]]


def guess_of(case: Case, dice: Random, prompt: int, truth: tuple[int, ...], end: int, size: int) -> Guess:
    """What the case's drafter guesses, who knows the target's own tokens, its end, and tokens beyond it."""
    ahead = (*truth, end, *(dice.randrange(size) for _ in range(9)))

    def guess(history: tuple[int, ...], limit: int) -> tuple[int, ...]:
        known = ahead[len(history) - prompt :][:limit]
        match case.drafter:
            case "empty":
                known = known if dice.random() < 0.2 else ()
            case "noise":
                known = tuple(dice.randrange(size) for _ in range(limit))
            case "repeat":
                known = history[-1:] * limit
            case "oracle" | "breaking":
                known = known[: dice.randint(0, limit)]
                known = tuple(token if dice.random() < case.right else dice.randrange(size) for token in known)
            case "sure":  # right but for one token, and then as sure of what follows
                off = dice.randrange(len(known)) if known else 0
                known = (*known[:off], dice.randrange(size), *known[off + 1 :]) if known else ()
        return known

    return guess


class Drafting:
    """A drafting session that guesses from what it has read, always sure of itself, until it breaks."""

    def __init__(self, case: Case, prompt: tuple[int, ...], guess: Guess) -> None:
        self._history = prompt
        self._guess = guess
        self._fails_at = case.fails_at if case.drafter == "breaking" else -1
        self._fault = case.fault
        self._calls = 0

    def extend(self, tokens: Sequence[int]) -> None:
        if self._calls == self._fails_at and self._fault == "reading raises":
            raise OSError("the table is gone")
        self._history += tuple(tokens)

    def propose(self, limit: int) -> Draft:
        self._calls += 1
        tokens, position, fingerprint = self._guess(self._history, limit), len(self._history), ""
        if self._calls == self._fails_at:
            match self._fault:
                case "drafting raises":
                    raise OSError("the table is gone")
                case "too long":
                    tokens = (1,) * (limit + 1)
                case "stale":
                    position -= 1
                case "another config":
                    fingerprint = "0" * 16
        return Draft(
            position=position,
            tokens=tokens,
            confidences=(1.0,) * len(tokens),
            sources=("toy",) * len(tokens),
            sampling_fingerprint=fingerprint,
        )


def drafting_of(case: Case, request: DecodeRequest, guess: Guess) -> DraftSession:
    if case.drafter != "lookup":
        return Drafting(case, request.prompt, guess)
    settings = DraftSettings(least_confidence=0.3)
    drafter = GuessingDrafter("toy", [lambda asked: LookupGuesser(asked, settings)], least_confidence=0.3)
    return drafter.open(DraftingRequest(prompt=request.prompt, language="python", sampling=request.sampling))
