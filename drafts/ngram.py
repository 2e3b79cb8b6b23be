"""Guess from a language's table: what most often follows the last few tokens in code of that language."""

from __future__ import annotations

from collections.abc import Sequence

from drafts.guessing import Guess
from drafts.table import SHARES, Table

SOURCE = "ngram"

_TRUST = 0.9  # the target agrees less often than the sources do: measured on held-out files (docs/drafting.md)


class TableGuesser:
    """One request's reading of a shared table; holds as many tokens as the table's longest context."""

    def __init__(self, table: Table, prompt: Sequence[int]) -> None:
        self._table = table
        self._tail = tuple(prompt[-table.reach :]) if table.reach else ()

    def extend(self, tokens: Sequence[int]) -> None:
        self._tail = (*self._tail, *tokens)[-self._table.reach :] if self._table.reach else ()

    def guess(self, ahead: Sequence[int]) -> Guess | None:
        found = self._table.next((*self._tail, *ahead)[-self._table.reach :]) if self._table.reach else None
        if found is None:
            return None
        token, share, _ = found
        return Guess(token=token, confidence=_TRUST * (share + 0.5) / SHARES, source=SOURCE)
