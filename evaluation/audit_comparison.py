"""Whether two outputs are the same one, and where they part. Pure values; nothing is rounded and no text is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from decoding.verdict import FinishReason, Statistics


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """All that a user sees of one request, and what it counted."""

    tokens: tuple[int, ...]
    text: str
    log_probabilities: tuple[float, ...]
    finish: FinishReason
    statistics: Statistics


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where two outputs part in one respect.

    field: "ids", "log_probabilities", "text", "finish", "counts" or "error".
    position: absolute token index; for "text" of a character in the output; None where it has none.
    plain, audited: the values there, None past an output's end; never characters of the text, but their number.
    """

    field: str
    position: int | None
    plain: int | float | str | None
    audited: int | float | str | None


def differences(plain: Output, audited: Output, *, prompt_tokens: int) -> tuple[Difference, ...]:
    """The first difference in each respect in which there is one; log-probabilities are compared exactly."""
    return tuple(_differences(plain, audited, prompt_tokens))


def _differences(plain: Output, audited: Output, start: int) -> Iterator[Difference]:
    pairs: tuple[tuple[str, Sequence[int | float], Sequence[int | float]], ...] = (
        ("ids", plain.tokens, audited.tokens),
        ("log_probabilities", plain.log_probabilities, audited.log_probabilities),
    )
    for field, ours, theirs in pairs:
        place = parting(ours, theirs)
        if place is not None:
            yield Difference(field=field, position=start + place, plain=_at(ours, place), audited=_at(theirs, place))
    place = parting(plain.text, audited.text)
    if place is not None:
        yield Difference(field="text", position=place, plain=len(plain.text), audited=len(audited.text))
    if plain.finish is not audited.finish:
        yield Difference(field="finish", position=None, plain=plain.finish.value, audited=audited.finish.value)
    for output in (plain, audited):
        problem = _miscount(output)
        if problem:
            yield Difference(
                field="counts",
                position=None,
                plain=problem if output is plain else None,
                audited=problem if output is audited else None,
            )


def parting(ours: Sequence[object], theirs: Sequence[object]) -> int | None:
    """The first index at which two sequences differ, the end of the shorter included; None where they are equal."""
    missing = object()
    pairs = enumerate(zip_longest(ours, theirs, fillvalue=missing))
    return next((index for index, (one, other) in pairs if one != other), None)


def _at(values: Sequence[int | float], index: int) -> int | float | None:
    return values[index] if index < len(values) else None


def _miscount(output: Output) -> str:
    """What is wrong with the counts, "" where nothing is."""
    counts = output.statistics
    if counts.emitted_tokens != len(output.tokens):
        return f"{counts.emitted_tokens} tokens counted, {len(output.tokens)} emitted"
    if not 0 <= counts.accepted_tokens <= counts.judged_tokens <= counts.drafted_tokens:
        return f"{counts.accepted_tokens} accepted of {counts.judged_tokens} judged of {counts.drafted_tokens} drafted"
    return ""
