"""The seam between what guesses one token and what makes a draft of guesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """One next token, the chance (0 to 1) that the target agrees, and who guesses it."""

    token: int
    confidence: float
    source: str


class Guesser(Protocol):
    """Guesses the next token of one request, one at a time."""

    def extend(self, tokens: Sequence[int]) -> None:
        """Append tokens that are certain: emitted by the target."""

    def guess(self, ahead: Sequence[int]) -> Guess | None:
        """The token after everything certain followed by `ahead`; None without evidence."""
