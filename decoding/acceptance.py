"""The rule of acceptance: which token the target emits at a position.

    token = argmax over x of ( log p(x) + G(seed, position, x) ), ties to the lowest id

with p the processed distribution in float64 and G standard Gumbel noise, so the token's law is p (the Gumbel-max
argument), and a drafted token is accepted exactly when it equals this one. Knows nothing of drafts.
"""

from __future__ import annotations

from dataclasses import dataclass

from decoding.arithmetic import Arithmetic, Row
from decoding.noise import gumbel
from decoding.processors import Context, adjust, process
from decoding.sampling import SamplingConfig


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
    arithmetic: Arithmetic[Row],
    *,
    valid_size: int,
) -> Pick:
    """The target's token at an absolute position, from its logits there and the context before it.

    At temperature 0 it is the likeliest token after penalty, bias and bans, ties to the lowest id, and the
    log-probability is the one at temperature 1 with nothing cut off. Raises as `process`.
    """
    if config.greedy:
        # The largest of the logits themselves: normalizing could round two neighbours into a tie.
        scores = adjust(row, context, config, arithmetic, valid_size=valid_size)
        token = arithmetic.argmax(scores)
        return Pick(token=token, log_probability=arithmetic.at(scores, token) - arithmetic.log_total(scores))
    scores = process(row, context, config, arithmetic, valid_size=valid_size)
    # What was dropped has probability 0 and can't win, so it needs no noise.
    kept = arithmetic.finite(scores)
    noise = gumbel(config.seed, position, kept, arithmetic)
    token = int(arithmetic.at(kept, arithmetic.argmax(arithmetic.add(arithmetic.take(scores, kept), noise))))
    return Pick(token=token, log_probability=arithmetic.at(scores, token))
