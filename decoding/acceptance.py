"""The rule of acceptance: which token the target emits at a position.

    token = argmax over x of ( log p(x) + G(seed, position, x) ), ties to the lowest id

with p the processed distribution in float64 and G standard Gumbel noise, so the token's law is p (the Gumbel-max
argument), and a drafted token is accepted exactly when it equals this one. Knows nothing of drafts but the context
that their tokens are to the rows after them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from decoding.arithmetic import Arithmetic, Block, Row
from decoding.errors import InvalidSetting, TargetFailed
from decoding.noise import LARGEST_NOISE, gumbel, noise_bound
from decoding.processors import Context, Distribution, adjust, distribute
from decoding.sampling import SamplingConfig

FEW = 256  # tokens, whose noise costs no more than finding out which of them can win


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """The target's token. log_probability: natural logarithm, under the processed distribution."""

    token: int
    log_probability: float


def pick(
    row: Row,
    context: Context,
    position: int,
    config: SamplingConfig,
    arithmetic: Arithmetic[Row, Any],
    *,
    valid_size: int,
) -> Pick:
    """The target's token at an absolute position, from its logits there and the context before it.

    row: logits of any float dtype, at least `valid_size` long; what exceeds it is padding and never kept.
    context: ids under `valid_size`.
    At temperature 0 it is the likeliest token after penalty, bias and bans, ties to the lowest id, and the
    log-probability is the one at temperature 1 with nothing cut off.

    Raises TargetFailed for rows that are too short or hold NaN or +inf; InvalidSetting where bans leave nothing.
    """
    (found,) = pick_all((row,), (), context, position, config, arithmetic, valid_size=valid_size)
    return settled(found)


def pick_all(
    rows: Sequence[Row],
    drafted: Sequence[int],
    context: Context,
    position: int,
    config: SamplingConfig,
    arithmetic: Arithmetic[Row, Any],
    *,
    valid_size: int,
) -> list[Pick | TargetFailed | InvalidSetting]:
    """What `pick` says of each row, or raises, with one transfer of a few numbers a row to the host.

    rows: logits at `position` and on; the context of rows[i] is `context` and drafted[:i].
    Raises TargetFailed only for rows that are too short: all of a block's are equally long.
    """
    try:
        wide = arithmetic.widen(rows, valid_size)
    except ValueError as error:
        raise TargetFailed(str(error)) from error
    # A row that can't be judged is decided like the others, to no effect but warnings.
    with np.errstate(all="ignore"):
        given = arithmetic.largest(wide)
        scores = adjust(wide, context, drafted, config, arithmetic)
        left = arithmetic.largest(scores) if config.banned else given
        law = distribute(scores, config, arithmetic)
        positions = range(position, position + len(rows))
        winner = arithmetic.argmax(scores) if config.greedy else _winner(law, positions, config.seed, arithmetic)
        token = winner if law.ids is None else arithmetic.gather(law.ids, winner)
        log_probability = arithmetic.subtract(arithmetic.gather(law.scores, winner), law.log_total)
        decided = arithmetic.host((given, left, token, log_probability))
    return [_checked(*numbers) for numbers in decided.tolist()]


def settled(found: Pick | TargetFailed | InvalidSetting) -> Pick:
    """The pick; raises what stands in its place."""
    if isinstance(found, Pick):
        return found
    raise found


def _checked(given: float, left: float, token: float, log_probability: float) -> Pick | TargetFailed | InvalidSetting:
    if not math.isfinite(given):
        return TargetFailed("the target's logits hold NaN or infinity")
    if left == -math.inf:
        return InvalidSetting("sampling.banned", "leaves no token that could be emitted")
    return Pick(token=int(token), log_probability=log_probability)


def _winner(law: Distribution[Block], positions: Sequence[int], seed: int, arithmetic: Arithmetic[Any, Block]) -> Block:
    """The columns of the tokens with the largest score and noise; noise is computed only where it can matter.

    Let b be the score and noise of the likeliest token, so that the winner has at least b. A token with score s and
    noise at most m has at most s + m, so it neither wins nor ties where s < b - m. This holds for m = LARGEST_NOISE,
    that no noise exceeds, and for the largest noise of those whom that leaves, which takes their words but not their
    logarithms. Rounding of s + G is by less than 1e-14 of numbers this small, and both bounds leave 1e-6 and more.
    """
    scores, ids, seeds = law.scores, law.ids, (seed, positions)
    if arithmetic.width(scores) <= FEW:
        every = arithmetic.place(np.arange(arithmetic.width(scores)), scores) if ids is None else ids
        return arithmetic.lowest(arithmetic.add(scores, gumbel(*seeds, every, arithmetic)), every)
    likeliest = arithmetic.argmax(scores)
    first = likeliest if ids is None else arithmetic.gather(ids, likeliest)
    best = arithmetic.add(arithmetic.gather(scores, likeliest), gumbel(*seeds, first, arithmetic))
    columns = arithmetic.columns(scores, arithmetic.add(best, -LARGEST_NOISE))
    if arithmetic.width(columns) > FEW:
        near = columns if ids is None else arithmetic.take(ids, columns)
        columns = arithmetic.columns(scores, arithmetic.subtract(best, noise_bound(*seeds, near, arithmetic)))
    near = columns if ids is None else arithmetic.take(ids, columns)
    sums = arithmetic.add(arithmetic.take(scores, columns), gumbel(*seeds, near, arithmetic))
    return arithmetic.take(columns, arithmetic.lowest(sums, near))
