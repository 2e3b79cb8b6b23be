"""An index of everything a request has seen, for finding where its last tokens stood before. Knows nothing of drafts.

Tokens lie in one list: open buffers, furthest first, then the prompt, then what was emitted. For a few lengths n, each
run of n tokens is chained to its previous occurrence. A search starts from the longest n that has one, walks the most
recent occurrences and measures how far each match reaches back: constant work a token, whatever the length of the list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_LADDER = (3, 8)  # run lengths indexed beside the least one, so that a common last token can't hide a long match


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """One earlier place whose preceding tokens equal the current last ones.

    following: the token that came next there.
    length: how many tokens match, up to the index's longest.
    """

    following: int
    length: int


class History:
    """Tokens and their index. Holds at most `capacity` tokens: when full, the older half is forgotten."""

    def __init__(self, *, least: int, longest: int, occurrences: int, capacity: int) -> None:
        self._runs = tuple(sorted({least, *(n for n in _LADDER if least < n <= longest)}))
        self._longest = longest
        self._occurrences = occurrences
        self._capacity = capacity
        self._separators = 0
        self._clear()

    def __len__(self) -> int:
        return len(self._tokens)

    def append(self, tokens: Iterable[int]) -> None:
        """Add tokens, ids of 0 or more, at the end."""
        for token in tokens:
            if len(self._tokens) >= self._capacity:
                self._forget()
            self._push(token)

    def separate(self) -> None:
        """End one text and begin another: no match reaches across."""
        self._separators += 1
        self.append((-self._separators,))  # each its own value, so that two separators never match either

    def repeats(self, ahead: Sequence[int] = ()) -> list[Repeat]:
        """Earlier places that match the end of the list followed by `ahead`: longest first, then most recent first."""
        end = [*self._tokens[-self._longest :], *ahead][-self._longest :]
        for run, latest, earlier in zip(
            reversed(self._runs), reversed(self._latest), reversed(self._earlier), strict=True
        ):
            place = latest.get(tuple(end[-run:]), -1) if len(end) >= run else -1
            if not ahead and place == len(self._tokens):
                place = earlier[place]  # the end itself is no repeat
            found = []
            walked = 0
            while place >= 0 and walked < self._occurrences:
                walked += 1
                if place < len(self._tokens) and self._tokens[place] >= 0:
                    found.append(Repeat(following=self._tokens[place], length=self._reach(end, place, run)))
                place = earlier[place]
            if found:
                return sorted(found, key=lambda repeat: -repeat.length)
        return []

    def _reach(self, end: list[int], place: int, known: int) -> int:
        """How many of the last tokens of `end` precede `place`; `known` of them do."""
        tokens = self._tokens
        length = known
        limit = min(len(end), place)
        while length < limit and tokens[place - 1 - length] == end[-1 - length]:
            length += 1
        return length

    def _push(self, token: int) -> None:
        """Places are indices of the token that follows a run, so a run ending the list has place len(tokens)."""
        tokens = self._tokens
        tokens.append(token)
        place = len(tokens)
        for run, latest, earlier in zip(self._runs, self._latest, self._earlier, strict=True):
            if place < run:
                earlier.append(-1)
                continue
            key = tuple(tokens[-run:])
            earlier.append(latest.get(key, -1))
            latest[key] = place

    def _forget(self) -> None:
        kept = self._tokens[len(self._tokens) - self._capacity // 2 :]
        self._clear()
        for token in kept:
            self._push(token)

    def _clear(self) -> None:
        self._tokens: list[int] = []
        # By run: the place after its latest occurrence; and from each place to the one after the occurrence before.
        self._latest: list[dict[tuple[int, ...], int]] = [{} for _ in self._runs]
        self._earlier: list[list[int]] = [[-1] for _ in self._runs]
