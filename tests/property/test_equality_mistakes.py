"""The random cases have teeth: each of these mistakes, planted, sets an early case apart from plain decoding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from equality_toys import check
from structlog.testing import capture_logs

from decoding import sequence
from decoding.acceptance import Pick, pick
from decoding.arithmetic import NumpyArithmetic
from decoding.errors import SlipstreamError
from decoding.processors import Context
from decoding.sampling import SamplingConfig
from decoding.sequence import Sequence
from decoding.stopping import StopScanner

MOST_CASES = 300
MISTAKES = (
    "min-p only at the first row",
    "bias only at the first row",
    "penalty without what was drafted",
    "the noise of the block's start",
    "log-probabilities of the first row only",
    "stop strings within one token only",
    "the id that ends the text is emitted",
)


class Planted:
    """`pick` with a mistake in the rows of a block that follow the first; `start` is the block's."""

    def __init__(self, mistake: str) -> None:
        self.mistake = mistake
        self.start = 0
        self.before: Context = Context()

    def block(self, judging: Sequence[Any], draft: Any) -> tuple[int, ...]:
        self.start = judging.position
        self.before = Context(judging._context.ids.tolist())
        return real_block(judging, draft)

    def pick(self, row: Any, context: Context, position: int, config: SamplingConfig, *_: Any, valid_size: int) -> Pick:
        drafted = position > self.start
        match self.mistake:
            case "min-p only at the first row" if drafted:
                config = replace(config, min_p=0.0)
            case "bias only at the first row" if drafted:
                config = replace(config, logit_bias=())
            case "penalty without what was drafted":
                context = self.before
            case "the noise of the block's start":
                position = self.start
        chosen = pick(row, context, position, config, NumpyArithmetic(), valid_size=valid_size)
        if self.mistake == "log-probabilities of the first row only" and drafted:
            return replace(chosen, log_probability=0.0)
        return chosen


real_block, real_take = Sequence.block, Sequence._take


def first_caught() -> int | None:
    """The number of the first case that finds something wrong."""
    for number in range(MOST_CASES):
        try:
            check(number)
        except (AssertionError, SlipstreamError):
            return number
    return None


def plant(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = Planted(mistake)
    monkeypatch.setattr(Sequence, "block", lambda judging, draft: planted.block(judging, draft))
    monkeypatch.setattr(sequence, "pick", planted.pick)
    if mistake == "stop strings within one token only":
        monkeypatch.setattr(StopScanner, "_safe_length", lambda scanner, window: len(window))
    if mistake == "the id that ends the text is emitted":
        monkeypatch.setattr(Sequence, "_take", lambda judging, token: real_take(judging, token) or True)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_caught(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(mistake, monkeypatch)
    with capture_logs():
        assert first_caught() is not None


def test_nothing_is_caught_where_nothing_is_planted(monkeypatch: pytest.MonkeyPatch) -> None:
    plant("", monkeypatch)
    with capture_logs():
        assert first_caught() is None
