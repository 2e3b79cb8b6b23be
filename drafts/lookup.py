"""Guess what followed when the last tokens stood somewhere before: in the prompt, the output or an open buffer.

Needs no model, no table and no tokenizer. After every guessed token it looks up again, so that a draft can leave one
earlier place for a better one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from decoding.drafting import DraftingRequest
from drafts.guessing import Guess
from drafts.history import History, Repeat
from drafts.settings import DraftSettings

SOURCE = "lookup"

# How often the target went on as the longest, latest repeat did: by the repeat's length, and by what the other repeats
# say. Measured on held-out files in five languages (docs/drafting.md).
_LENGTHS = (1, 2, 3, 4, 5, 7, 10, 17)
_ALONE = (0.39, 0.70, 0.71, 0.78, 0.80, 0.84, 0.90, 0.96)
_UNANIMOUS = (0.75, 0.90, 0.90, 0.94, 0.94, 0.95, 0.97, 0.99)
_MAJORITY = (0.41, 0.57, 0.57, 0.57, 0.70, 0.78, 0.78, 0.90)
_MINORITY = (0.22, 0.50, 0.50, 0.52, 0.52, 0.55, 0.55, 0.55)


class LookupGuesser:
    """One request's lookup; holds at most `settings.index_tokens` tokens."""

    def __init__(self, request: DraftingRequest, settings: DraftSettings) -> None:
        self._history = History(
            least=settings.least_match,
            longest=settings.longest_match,
            occurrences=settings.occurrences,
            capacity=settings.index_tokens,
        )
        room = min(settings.buffer_tokens, settings.index_tokens - len(request.prompt))
        for buffer in reversed(_nearest(request.buffers, room)):
            self._history.append(buffer)
            self._history.separate()
        self._history.append(request.prompt)

    def extend(self, tokens: Sequence[int]) -> None:
        self._history.append(tokens)

    def guess(self, ahead: Sequence[int]) -> Guess | None:
        repeats = self._history.repeats(ahead)
        if not repeats:
            return None
        best = repeats[0]
        return Guess(token=best.following, confidence=confidence(repeats), source=SOURCE)


def confidence(repeats: Sequence[Repeat]) -> float:
    """The chance that the target goes on as the first of `repeats` (longest first) did."""
    step = bisect_right(_LENGTHS, repeats[0].length) - 1
    if len(repeats) == 1:
        return _ALONE[step]
    agreeing = sum(repeat.following == repeats[0].following for repeat in repeats)
    if agreeing == len(repeats):
        return _UNANIMOUS[step]
    return (_MAJORITY if 2 * agreeing >= len(repeats) else _MINORITY)[step]


def _nearest(buffers: Sequence[tuple[int, ...]], room: int) -> list[tuple[int, ...]]:
    """The first buffers that fit, nearest first; of the last one its beginning (imports and definitions)."""
    kept = []
    for buffer in buffers:
        if room <= 1:
            break
        kept.append(buffer[: room - 1])  # one for the separator
        room -= len(kept[-1]) + 1
    return kept
