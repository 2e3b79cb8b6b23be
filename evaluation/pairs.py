"""The same completion twice, speculative and plain, and what pairs of them add up to by language. Values only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from evaluation.editor import Suggestion
from evaluation.scenes import Scene


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One scene, completed in both ways in the same run."""

    scene: Scene
    speculative: Suggestion
    plain: Suggestion

    @property
    def identical(self) -> bool:
        """The same tokens, ended for the same reason, and the same text to insert."""
        one, other = self.speculative, self.plain
        return (one.tokens, one.finish, one.text) == (other.tokens, other.finish, other.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageRow:
    """Pairs of one language. Counts are sums over its completions, milliseconds are means for one completion.

    accepted, judged, drafted: tokens; judged are the accepted ones and the first rejected one of each draft.
    ttft_ms: from asking to the first token, speculative; plain_ttft_ms: the same, plain.
    """

    language: str
    completions: int
    tokens: int
    drafted: int
    judged: int
    accepted: int
    verify_steps: int
    ttft_ms: float
    total_ms: float
    plain_ttft_ms: float
    plain_total_ms: float
    identical: bool

    @property
    def acceptance(self) -> float | None:
        return self.accepted / self.judged if self.judged else None

    @property
    def tokens_per_step(self) -> float:
        return self.tokens / self.verify_steps if self.verify_steps else 0.0


def language_rows(pairs: Iterable[Pair]) -> tuple[LanguageRow, ...]:
    """One row a language, in order of appearance."""
    by_language: dict[str, list[Pair]] = {}
    for pair in pairs:
        by_language.setdefault(pair.scene.language, []).append(pair)
    return tuple(_row(language, group) for language, group in by_language.items())


def mean_tokens_per_step(rows: Sequence[LanguageRow]) -> float:
    """The mean over languages of their tokens a verify step."""
    return fmean(row.tokens_per_step for row in rows) if rows else 0.0


def _row(language: str, pairs: Sequence[Pair]) -> LanguageRow:
    ours, plain = [pair.speculative for pair in pairs], [pair.plain for pair in pairs]
    return LanguageRow(
        language=language,
        completions=len(pairs),
        tokens=sum(len(one.tokens) for one in ours),
        drafted=sum(one.drafted for one in ours),
        judged=sum(one.judged for one in ours),
        accepted=sum(one.accepted for one in ours),
        verify_steps=sum(one.verify_steps for one in ours),
        ttft_ms=fmean(one.first_token_ms for one in ours),
        total_ms=fmean(one.total_ms for one in ours),
        plain_ttft_ms=fmean(one.first_token_ms for one in plain),
        plain_total_ms=fmean(one.total_ms for one in plain),
        identical=all(pair.identical for pair in pairs),
    )
