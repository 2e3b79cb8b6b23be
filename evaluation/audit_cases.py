"""What the audit tries: cases drawn from a seed, each a prompt's place, how it is sampled, and what is to disturb it.

Pure: the same seed and files give the same cases, and fewer of them are the first of more. A case holds no source text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from decoding.sampling import MAX_SEED, SamplingConfig
from decoding.session import Mode
from decoding.stopping import StopRules
from evaluation.audit_sources import Source

TEMPERATURES = (0.0, 0.2, 0.8, 1.0)
DRAFTERS = ("none", "lookup", "ngram", "noise", "oracle")
MOST_SESSIONS = 8  # whose blocks fill steps of every count up to a chunk's

_PROMPT_TOKENS = (64, 256)
_LONG_PROMPT_TOKENS = (400, 700)  # across a boundary of the attention's padding
_ONE_IN_LONG = 16
_OUTPUT_TOKENS = (12, 32)
_STOP_STRINGS = ("\n\n", ")", "return", "= ", "end", "};")
_FEWEST_CHARACTERS = 400  # before a cut


class Reuse(StrEnum):
    """What the target was asked right before, so that it may have kept what it computed of the prompt."""

    NOTHING = "nothing"  # of this prompt, not even its first token
    SAME = "same"  # this prompt
    SHORTER = "shorter"  # this prompt, less some tokens at its end
    LONGER = "longer"  # this prompt and what follows in the file
    FORKED = "forked"  # this prompt, with other tokens at its end


_REUSES = (Reuse.SAME, Reuse.SHORTER, Reuse.LONGER, Reuse.FORKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a target takes. vocabulary_size: ids are under it. prompt_tokens: at most. block_rows: of a verify step."""

    vocabulary_size: int
    prompt_tokens: int
    block_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One prompt and its disturbances.

    number: from 0, in this audit.
    file, offset: where it was cut, in characters. prompt_tokens: at most, before the cut.
    drafter: one of DRAFTERS. right: of the oracle's tokens the share that isn't spoilt.
    draft_tokens: the longest draft.
    mode: EDGE drafts beside the client, SERVER beside the target.
    fallback_after: emitted tokens after which drafting is ended from outside; None lets it go on.
    run_tokens: that a SERVER target emits before it can be told of that.
    guard_rate: acceptance under which the request itself stops drafting; 0 is off.
    reuse_tokens: by how many tokens what was asked before is SHORTER or LONGER, or FORKED.
    delay_ms: that it starts after the others of its group.
    """

    number: int
    language: str
    file: str
    offset: int
    prompt_tokens: int
    sampling: SamplingConfig
    stop: StopRules
    drafter: str
    right: float
    draft_tokens: int
    mode: Mode
    fallback_after: int | None
    run_tokens: int
    guard_rate: float
    reuse: Reuse
    reuse_tokens: int
    delay_ms: int


Group = tuple[Case, ...]


def draw_groups(sources: Mapping[str, Sequence[Source]], *, count: int, seed: int, bounds: Bounds) -> tuple[Group, ...]:
    """`count` cases, languages by turns, in groups of 1 to MOST_SESSIONS that are decoded at once."""
    cases = tuple(_draw(number, sources, seed, bounds) for number in range(count))
    sizes = Random(f"{seed}/groups")  # noqa: S311 - reproducible, not secret
    groups: list[Group] = []
    start = 0
    while start < count:
        size = sizes.randint(1, MOST_SESSIONS)
        groups.append(cases[start : start + size])
        start += size
    return tuple(groups)


def _draw(number: int, sources: Mapping[str, Sequence[Source]], seed: int, bounds: Bounds) -> Case:
    draw = Random(f"{seed}/case/{number}")  # noqa: S311 - reproducible, not secret
    turn, place = divmod(number, len(sources))
    files = sources[list(sources)[place]]
    file = files[turn % len(files)]
    stop = _stop(draw)
    long = draw.randrange(_ONE_IN_LONG) == 0
    return Case(
        number=number,
        language=file.language,
        file=file.name,
        offset=draw.randint(min(_FEWEST_CHARACTERS, len(file.text)), len(file.text)),
        prompt_tokens=min(draw.randint(*(_LONG_PROMPT_TOKENS if long else _PROMPT_TOKENS)), bounds.prompt_tokens),
        sampling=_sampling(draw, bounds.vocabulary_size),
        stop=stop,
        drafter=draw.choice(DRAFTERS),
        right=draw.choice((0.5, 0.8, 0.95, 1.0)),
        draft_tokens=draw.randint(1, bounds.block_rows - 1),
        mode=draw.choice((Mode.EDGE, Mode.SERVER)),
        fallback_after=draw.randrange(stop.max_tokens) if draw.random() < 0.5 else None,
        run_tokens=draw.choice((4, 8, 64)),
        guard_rate=draw.choice((0.0, 0.4)),
        reuse=Reuse.NOTHING if draw.random() < 0.5 else draw.choice(_REUSES),
        reuse_tokens=draw.randint(1, 80),
        delay_ms=draw.choice((0, 0, draw.randint(1, 200))),
    )


def _sampling(draw: Random, vocabulary_size: int) -> SamplingConfig:
    touched = draw.sample(range(vocabulary_size), 24) if draw.random() < 0.2 else []
    return SamplingConfig(
        temperature=draw.choice(TEMPERATURES),
        top_k=draw.choice((0, 0, 1, 5, 40)),
        top_p=draw.choice((1.0, 1.0, 0.95, 0.8, 0.5)),
        min_p=draw.choice((0.0, 0.0, 0.02, 0.1)),
        repetition_penalty=draw.choice((1.0, 1.0, 0.9, 1.1, 1.3)),
        logit_bias=tuple((token, draw.uniform(-4.0, 4.0)) for token in touched[:16]),
        banned=tuple(touched[16:]),
        seed=draw.randint(0, MAX_SEED),
    )


def _stop(draw: Random) -> StopRules:
    return StopRules(
        max_tokens=draw.randint(*_OUTPUT_TOKENS),
        max_lines=draw.choice((0, 0, 0, 1, 3)),
        strings=tuple(draw.sample(_STOP_STRINGS, 2)) if draw.random() < 0.2 else (),
    )
