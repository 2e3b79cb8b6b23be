"""What drafting can be told: which drafter serves a language, how sure it must be, and how much it may hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from decoding.errors import InvalidSetting
from drafts.languages import KNOWN_LANGUAGES, PLAINTEXT

KINDS = ("mix", "lookup", "ngram", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftSettings:
    """Settings of all drafters; immutable.

    tables: folder of n-gram tables, one LANGUAGE.ngrams each; None means the tables that ship with the package.
    kind: drafter of every language that `kinds` doesn't name: "mix", "lookup", "ngram" or "none" (plain decoding).
    kinds: drafter by canonical language id.
    least_confidence: 0 to 1; a draft ends before the first token whose estimated chance to be accepted is under it.
    least_match: 1 to 16 tokens; shorter repeats are no evidence to the lookup drafter.
    longest_match: tokens beyond which a longer repeat is not looked for; at least least_match, at most 64.
    occurrences: 1 to 64; of one repeat, the most recent ones that are compared.
    index_tokens: 256 to 1048576 tokens that a request's lookup index holds, prompt, output and buffers together.
    buffer_tokens: 0 to index_tokens; of those, tokens of other open files.
    loaded_tables: 1 to 64 tables in memory at once, the least recently used dropped first (a few MiB each).
    """

    tables: Path | None = None
    kind: str = "mix"
    kinds: Mapping[str, str] = field(default_factory=dict)
    least_confidence: float = 0.55
    least_match: int = 1
    longest_match: int = 32
    occurrences: int = 16
    index_tokens: int = 32_768
    buffer_tokens: int = 8_192
    loaded_tables: int = 8

    def __post_init__(self) -> None:
        for name, kind in (
            ("kind", self.kind),
            *((f"kinds.{language}", kind) for language, kind in self.kinds.items()),
        ):
            if kind not in KINDS:
                raise InvalidSetting(f"drafts.{name}", f"must be one of {', '.join(KINDS)}, got {kind!r}")
        for language in self.kinds:
            if language not in (*KNOWN_LANGUAGES, PLAINTEXT):
                close = get_close_matches(language, KNOWN_LANGUAGES, n=1)
                hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(KNOWN_LANGUAGES)}, {PLAINTEXT}"
                raise InvalidSetting(f"drafts.kinds.{language}", f"is not the id of a language; {hint}")
        if not 0.0 <= self.least_confidence <= 1.0:
            raise InvalidSetting("drafts.least_confidence", f"must be from 0 to 1, got {self.least_confidence}")
        self._within("least_match", 1, 16)
        self._within("longest_match", self.least_match, 64)
        self._within("occurrences", 1, 64)
        self._within("index_tokens", 256, 2**20)
        self._within("buffer_tokens", 0, self.index_tokens)
        self._within("loaded_tables", 1, 64)

    def _within(self, name: str, low: int, high: int) -> None:
        value = getattr(self, name)
        if not low <= value <= high:
            raise InvalidSetting(f"drafts.{name}", f"must be from {low} to {high}, got {value}")
