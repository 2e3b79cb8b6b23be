"""From logits to the processed distribution, one row at a time, each row under its own context.

Order: repetition penalty, logit bias, bans, temperature, top-k, top-p, min-p. Knows nothing of noise or drafts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from decoding.arithmetic import Arithmetic, Ids, Row
from decoding.errors import InvalidSetting, TargetFailed
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

    @property
    def ids(self) -> Ids:
        """Distinct ids in order of first appearance, int64; a view that the next `add` may outdate."""
        return self._ids[: len(self._known)]


def process(row: Row, context: Context, config: SamplingConfig, arithmetic: Arithmetic[Row], *, valid_size: int) -> Row:
    """Log-probabilities of the processed distribution: float64, `valid_size` long, -inf where dropped.

    row: logits of any float dtype, at least `valid_size` long; what exceeds it is padding and never kept.
    context: ids under `valid_size`.
    At temperature 0 this is the distribution at temperature 1 with penalty, bias and bans, nothing cut off: the
    greedy token's log-probability is read from it.

    Raises TargetFailed for rows that are too short or hold NaN or +inf; InvalidSetting where bans leave nothing.
    """
    scores = adjust(row, context, config, arithmetic, valid_size=valid_size)
    if not config.greedy:
        scores = arithmetic.divide(scores, config.temperature)
        scores = _top_k(scores, config.top_k, arithmetic, valid_size)
        scores = _top_p(scores, config.top_p, arithmetic, valid_size)
        scores = _min_p(scores, config.min_p, arithmetic)
    return arithmetic.subtract(scores, arithmetic.log_total(scores))


def adjust(row: Row, context: Context, config: SamplingConfig, arithmetic: Arithmetic[Row], *, valid_size: int) -> Row:
    """Logits after penalty, bias and bans, before temperature: float64, `valid_size` long. Raises as `process`."""
    try:
        logits = arithmetic.widen(row, valid_size)
    except ValueError as error:
        raise TargetFailed(str(error)) from error
    if not math.isfinite(arithmetic.largest(logits)):
        raise TargetFailed("the target's logits hold NaN or infinity")
    penalty = config.repetition_penalty
    if penalty != 1 and len(context.ids):
        values = arithmetic.read(logits, context.ids)
        logits = arithmetic.write(logits, context.ids, np.where(values > 0, values / penalty, values * penalty))
    if config.logit_bias:
        ids = np.array([token for token, _ in config.logit_bias], dtype=np.int64)
        bias = np.array([amount for _, amount in config.logit_bias], dtype=np.float64)
        logits = arithmetic.write(logits, ids, arithmetic.read(logits, ids) + bias)
    if config.banned:
        ids = np.array(config.banned, dtype=np.int64)
        logits = arithmetic.write(logits, ids, np.full(len(ids), -np.inf))
        if arithmetic.largest(logits) == -math.inf:
            raise InvalidSetting("sampling.banned", "leaves no token that could be emitted")
    return logits


def _top_k(scores: Row, k: int, arithmetic: Arithmetic[Row], size: int) -> Row:
    """Keep the k largest and whatever equals the last of them."""
    if not 0 < k < size:
        return scores
    return arithmetic.keep(scores, arithmetic.at_least(scores, arithmetic.kth_largest(scores, k)))


def _top_p(scores: Row, p: float, arithmetic: Arithmetic[Row], size: int) -> Row:
    """Keep the smallest set of likeliest tokens whose mass reaches p; of equals, the lowest ids first."""
    if p == 1:
        return scores
    total = arithmetic.log_total(scores)
    # All tokens less likely than this weigh under (1 - p) / 2 together, so none of them is needed to reach p.
    needless = math.log((1 - p) / 2 / size)
    ids = arithmetic.at_least(scores, total + needless)
    values = arithmetic.read(scores, ids)
    order = np.argsort(-values, kind="stable")
    mass_up_to = np.cumsum(np.exp(values[order] - total))
    needed = int(np.searchsorted(mass_up_to, p - EDGE)) + 1
    return arithmetic.keep(scores, np.sort(ids[order[:needed]]))


def _min_p(scores: Row, ratio: float, arithmetic: Arithmetic[Row]) -> Row:
    """Keep tokens at least `ratio` times as likely as the likeliest."""
    if ratio == 0:
        return scores
    return arithmetic.keep(scores, arithmetic.at_least(scores, arithmetic.largest(scores) + math.log(ratio) - EDGE))
