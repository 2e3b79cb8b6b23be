"""What a storm is made of: requests, each with the moment at which it is left, and how. Runs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules
from decoding.verdict import DecodeRequest

MOST_STEPS = 4
OUTPUT_TOKENS = 32
CONTROL_TOKENS = 48
_SHARED_BEGINNINGS = 4


class Moment(StrEnum):
    """Where in its life a request is when it is left; a random while later, in truth."""

    OPENING = "opening"
    PREFILL = "prefill"
    BETWEEN = "between steps"
    STEP = "step"
    RUN = "run"
    FINISH = "finish"


class Ending(StrEnum):
    """How it is left: the call cancelled, its deadline passed, or its whole connection closed."""

    CANCEL = "cancel"
    DEADLINE = "deadline"
    CLOSE = "close"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One request of the storm.

    steps: verdicts seen before the moment. draft_tokens: of each draft, random ones.
    share: 0 to 1; of the while that the moment usually lasts, or of a whole request where a deadline ends it.
    """

    number: int
    moment: Moment
    ending: Ending
    request: DecodeRequest
    steps: int
    draft_tokens: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What the target takes: ids below `vocabulary_size`, prompts and drafts of so many tokens at most."""

    vocabulary_size: int
    prompt_tokens: int
    draft_tokens: int
    fingerprint: str


def draw_cases(*, count: int, seed: int, bounds: Bounds) -> Iterator[Case]:
    """Prompts are random tokens; half of them begin as others do, so that the cache of prompts is in the storm, too."""
    dice = Random(f"storm {seed}")  # noqa: S311 - to be drawn again
    beginnings = [_tokens(dice, bounds.prompt_tokens // 2, bounds) for _ in range(_SHARED_BEGINNINGS)]
    for number in range(count):
        beginning = dice.choice(beginnings) if dice.random() < 0.5 else ()
        rest = dice.randint(1, bounds.prompt_tokens - len(beginning))
        yield Case(
            number=number,
            moment=dice.choice(tuple(Moment)),
            ending=dice.choice(tuple(Ending)),
            request=_request(
                f"storm-{number}",
                (*beginning, *_tokens(dice, rest, bounds)),
                OUTPUT_TOKENS,
                temperature=dice.choice((0.0, 0.8)),
                seed=number,
                bounds=bounds,
            ),
            steps=dice.randint(0, MOST_STEPS),
            draft_tokens=dice.randint(0, bounds.draft_tokens),
            share=dice.random(),
        )


def control_requests(*, count: int, seed: int, bounds: Bounds) -> tuple[DecodeRequest, ...]:
    """What is decoded beside the storm, again and again."""
    dice = Random(f"control {seed}")  # noqa: S311 - to be drawn again
    return tuple(
        _request(
            f"control-{number}",
            _tokens(dice, dice.randint(1, bounds.prompt_tokens), bounds),
            CONTROL_TOKENS,
            temperature=0.8 * (number % 2),
            seed=number,
            bounds=bounds,
        )
        for number in range(count)
    )


def _request(
    name: str, prompt: tuple[int, ...], max_tokens: int, *, temperature: float, seed: int, bounds: Bounds
) -> DecodeRequest:
    return DecodeRequest(
        prompt=prompt,
        sampling=SamplingConfig(temperature=temperature, seed=seed),
        stop=StopRules(max_tokens=max_tokens),
        language="python",
        drafter="",
        tokenizer_fingerprint=bounds.fingerprint,
        request_id=name,
    )


def _tokens(dice: Random, count: int, bounds: Bounds) -> tuple[int, ...]:
    return tuple(dice.randrange(bounds.vocabulary_size) for _ in range(count))
