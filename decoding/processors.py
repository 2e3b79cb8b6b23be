"""From logits to the processed distribution, a few rows at a time, each row under its own context.

Order: repetition penalty, logit bias, bans, temperature, top-k, top-p, min-p. Knows nothing of noise or drafts.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic

import numpy as np

from decoding.arithmetic import Arithmetic, Block, Ids
from decoding.sampling import SamplingConfig

# Masses and ratios that differ by less count as equal, so that the last bits of a sum never decide who is kept.
EDGE = 1e-12


class Context:
    """The ids that stand before a row, in prompt and output, each once: what the repetition penalty looks at.

    Bounded by the vocabulary. Adding a token costs no more than a set's lookup.
    """

    def __init__(self, tokens: Iterable[int] = ()) -> None:
        self._known: set[int] = set()
        self._ids = np.empty(64, dtype=np.int64)
        for token in tokens:
            self.add(token)

    def add(self, token: int) -> None:
        if token in self._known:
            return
        count = len(self._known)
        if count == len(self._ids):
            self._ids = np.concatenate((self._ids, np.empty_like(self._ids)))
        self._ids[count] = token
        self._known.add(token)

    def __contains__(self, token: int) -> bool:
        return token in self._known

    @property
    def ids(self) -> Ids:
        """Distinct ids in order of first appearance, int64; a view that the next `add` may outdate."""
        return self._ids[: len(self._known)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution(Generic[Block]):
    """The processed distributions of a block's rows, over the tokens that may be left.

    ids: the token of each column, for each row; None where columns are ids.
    scores: float64, log-probabilities but for a constant in each row; the largest is 0, what was dropped is -inf.
    log_total: column; what to subtract for log-probabilities.
    """

    ids: Block | None
    scores: Block
    log_total: Block


def adjust(
    scores: Block, context: Context, drafted: Sequence[int], config: SamplingConfig, arithmetic: Arithmetic[Any, Block]
) -> Block:
    """Logits after penalty, bias and bans, before temperature. The context of row i is `context` and drafted[:i].

    scores: float64, as wide as the vocabulary; may be changed and must not be used again.
    """
    penalty = config.repetition_penalty
    if penalty != 1 and len(context.ids):
        ids = arithmetic.place(context.ids, scores)
        scores = arithmetic.put(scores, ids, arithmetic.penalize(arithmetic.take(scores, ids), penalty))
    fresh = [token for token in dict.fromkeys(drafted) if token not in context] if penalty != 1 else []
    if fresh:
        since = np.array([list(drafted).index(token) for token in fresh])
        stands = np.arange(len(drafted) + 1)[:, None] > since
        ids = arithmetic.place(np.array(fresh, dtype=np.int64), scores)
        values = arithmetic.take(scores, ids)
        scores = arithmetic.put(scores, ids, arithmetic.choose(stands, arithmetic.penalize(values, penalty), values))
    if config.logit_bias:
        ids = arithmetic.place(np.array([token for token, _ in config.logit_bias], dtype=np.int64), scores)
        bias = arithmetic.place(np.array([amount for _, amount in config.logit_bias], dtype=np.float64), scores)
        scores = arithmetic.put(scores, ids, arithmetic.add(arithmetic.take(scores, ids), bias))
    if config.banned:
        ids = arithmetic.place(np.array(config.banned, dtype=np.int64), scores)
        scores = arithmetic.put(scores, ids, arithmetic.place(np.full(len(config.banned), -np.inf), scores))
    return scores


def distribute(scores: Block, config: SamplingConfig, arithmetic: Arithmetic[Any, Block]) -> Distribution[Block]:
    """The distributions of rows of adjusted logits.

    At temperature 0 they are those at temperature 1 with nothing cut off: the greedy token's log-probability is read
    from them.
    """
    if not config.greedy and config.temperature != 1:
        scores = arithmetic.divide(scores, config.temperature)
    top = arithmetic.largest(scores)
    k = config.top_k if 0 < config.top_k < arithmetic.width(scores) else 0
    if config.greedy or (k == 0 and config.top_p == 1 and config.min_p == 0):
        scores = arithmetic.subtract(scores, top)
        return Distribution(ids=None, scores=scores, log_total=_log_total(scores, arithmetic))
    if k:
        return _cut(scores, top, arithmetic.kth_largest(scores, k), None, k, config, arithmetic)
    if config.top_p == 1:
        return _cut(scores, top, arithmetic.add(top, math.log(config.min_p) - EDGE), None, 0, config, arithmetic)
    total = arithmetic.total(arithmetic.exp(arithmetic.subtract(scores, top)))
    # All tokens less likely than this weigh under (1 - p) / 2 together, so none of them is needed to reach p.
    needless = math.log((1 - config.top_p) / 2 / arithmetic.width(scores))
    edges = arithmetic.add(arithmetic.add(arithmetic.log(total), top), needless)
    return _cut(scores, top, edges, total, 0, config, arithmetic)


def _cut(
    scores: Block,
    top: Block,
    edges: Block,
    total: Block | None,
    k: int,
    config: SamplingConfig,
    arithmetic: Arithmetic[Any, Block],
) -> Distribution[Block]:
    """What top-k, top-p and min-p leave, likeliest first. No token under its row's edge is among it.

    total: the sum of exp(scores - top) of what top-k keeps, where it is known. Sums go from the likeliest down, so
    that their bits don't depend on how much of what is dropped stands behind.
    """
    columns = arithmetic.columns(scores, edges)
    scores = arithmetic.subtract(arithmetic.take(scores, columns), top)
    order = arithmetic.descending(scores)
    scores = arithmetic.gather(scores, order)
    if k:
        # The k largest, and whatever equals the last of them.
        scores = arithmetic.at_least(scores, arithmetic.column(scores, k - 1), scores)
    if config.top_p < 1:
        # The smallest set of likeliest tokens whose mass reaches p; of equals, the lowest ids first.
        mass = arithmetic.running_total(arithmetic.exp(scores))
        before = arithmetic.divide(arithmetic.before(mass), arithmetic.column(mass, -1) if total is None else total)
        scores = arithmetic.below(before, max(config.top_p - EDGE, sys.float_info.min), scores)
    if config.min_p:
        # Tokens at least min_p times as likely as the likeliest, whose score is 0.
        scores = arithmetic.at_least(scores, math.log(config.min_p) - EDGE, scores)
    left = arithmetic.column(arithmetic.running_total(arithmetic.exp(scores)), -1)
    return Distribution(ids=arithmetic.take(columns, order), scores=scores, log_total=arithmetic.log(left))


def _log_total(scores: Block, arithmetic: Arithmetic[Any, Block]) -> Block:
    return arithmetic.log(arithmetic.total(arithmetic.exp(scores)))
