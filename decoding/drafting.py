"""A draft, and the seam that drafters stand behind. Knows nothing of how tokens are guessed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from decoding.errors import InvalidSetting
from decoding.sampling import SamplingConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Guessed tokens for consecutive absolute positions.

    position: index of the first drafted token; the prompt's first token has position 0.
    tokens: ids, possibly none (an empty draft is plain decoding).
    confidences: for each token the drafter's estimate, 0 to 1, that the target agrees given the ones before.
    sources: for each token, who proposed it, such as "lookup" or "ngram".
    sampling_fingerprint: of the config that the drafter assumed.
    """

    position: int
    tokens: tuple[int, ...]
    sampling_fingerprint: str
    confidences: tuple[float, ...] = ()
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.position < 0:
            raise InvalidSetting("draft.position", f"must be 0 or more, got {self.position}")
        for field, values in (("confidences", self.confidences), ("sources", self.sources)):
            if values and len(values) != len(self.tokens):
                raise InvalidSetting(f"draft.{field}", f"has {len(values)} for {len(self.tokens)} tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftingRequest:
    """What a drafter may know of a request. `buffers` are token ids of open files, nearest first."""

    prompt: tuple[int, ...]
    language: str
    sampling: SamplingConfig
    buffers: tuple[tuple[int, ...], ...] = ()


class DraftSession(Protocol):
    """One request's drafting state; bounded, dropped with the request."""

    def extend(self, tokens: Sequence[int]) -> None:
        """Append tokens that the target has emitted."""

    def propose(self, limit: int) -> Draft:
        """Guess at most `limit` next tokens; fewer, or none, where not confident."""


class Drafter(Protocol):
    """A named source of drafts for one language, shared by requests, immutable once loaded."""

    @property
    def name(self) -> str: ...

    def open(self, request: DraftingRequest) -> DraftSession: ...
