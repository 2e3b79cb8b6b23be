"""What was measured and what it comes to: rates, ratios of ours to each peer, and their spread. Values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One prompt through one engine. first_s, total_s: from asking to the first and the last piece of output.

    first_tokens: how many tokens the first piece held; what follows it is decoding, all before it is prefill.
    """

    prompt: str
    prompt_tokens: int
    first_s: float
    total_s: float
    first_tokens: int
    tokens: tuple[int, ...]

    @property
    def decoded(self) -> int:
        return len(self.tokens) - self.first_tokens

    @property
    def decode_s(self) -> float:
        return self.total_s - self.first_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One engine: its timings, or the reason why it has none.

    facts: what its worker says of itself. trials: the settings that were tried, and total tokens/s with each.
    """

    name: str
    ours: bool
    settings: dict[str, Any]
    facts: dict[str, Any] = field(default_factory=dict)
    trials: tuple[tuple[dict[str, Any], float], ...] = ()
    timings: tuple[Timing, ...] = ()
    reason: str = ""

    @property
    def measured(self) -> bool:
        return not self.reason and bool(self.timings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """How many times as fast one engine was as another, prompt by prompt: the median and the quartiles."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f}× ({self.low:.2f}–{self.high:.2f})"


def prefill_rate(timings: Sequence[Timing]) -> float:
    """Prompt tokens a second until the first output, over all prompts together."""
    return sum(one.prompt_tokens for one in timings) / sum(one.first_s for one in timings)


def decode_rate(timings: Sequence[Timing]) -> float | None:
    """Tokens a second after the first piece; None where nothing came after it."""
    seconds = sum(one.decode_s for one in timings)
    return sum(one.decoded for one in timings) / seconds if seconds else None


def total_rate(timings: Sequence[Timing]) -> float:
    """New tokens a second, prefill included."""
    return sum(len(one.tokens) for one in timings) / sum(one.total_s for one in timings)


RATES = {"prefill": prefill_rate, "decode": decode_rate, "total": total_rate}


def ratio(ours: Row, other: Row, rate: str) -> Ratio | None:
    """Ours over the other's on each prompt that both have the rate for; None where there is no such prompt."""
    theirs = {one.prompt: one for one in other.timings}
    pairs = [(RATES[rate]([one]), RATES[rate]([theirs[one.prompt]])) for one in ours.timings if one.prompt in theirs]
    values = [mine / their for mine, their in pairs if mine and their]
    if not values:
        return None
    low, _, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return Ratio(median=median(values), low=low, high=high)


def hardest(ours: Row, rows: Sequence[Row], rate: str) -> tuple[str, Ratio] | None:
    """The best peer at a rate, which is the one that ours gains least over; None where no peer was measured."""
    found = [(row.name, ratio(ours, row, rate)) for row in rows if row.measured and not row.ours]
    known = [(name, value) for name, value in found if value]
    return min(known, key=lambda pair: pair[1].median) if known else None


def identical(ours: Row, other: Row) -> int:
    """On how many prompts the other made the very tokens that ours made."""
    theirs = {one.prompt: one.tokens for one in other.timings}
    return sum(theirs.get(one.prompt) == one.tokens for one in ours.timings)
