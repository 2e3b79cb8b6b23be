"""The rule of acceptance for one row, written as plainly as it can be: every token's probability, every token's noise.

It shares with ours the noise alone, which has an oracle of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from decoding.arithmetic import NumpyArithmetic
from decoding.noise import gumbel
from decoding.sampling import SamplingConfig

EDGE = 1e-12


def token_and_log_probability(
    row: NDArray[np.floating], context: Iterable[int], position: int, config: SamplingConfig
) -> tuple[int, float]:
    law = log_probabilities(row.astype(np.float64), context, config)
    if config.greedy:
        token = int(law.argmax())
    else:
        token = int((law + gumbel(config.seed, [position], np.arange(len(row)), NumpyArithmetic())[0]).argmax())
    return token, float(law[token])


def log_probabilities(
    logits: NDArray[np.float64], context: Iterable[int], config: SamplingConfig
) -> NDArray[np.float64]:
    scores = logits.copy()
    for token in set(context):
        by = config.repetition_penalty
        scores[token] = scores[token] / by if scores[token] > 0 else scores[token] * by
    for token, bias in config.logit_bias:
        scores[token] += bias
    scores[list(config.banned)] = -math.inf
    if config.greedy:
        return normalized(scores)
    scores = scores / config.temperature
    if 0 < config.top_k < len(scores):
        scores[scores < np.sort(scores)[-config.top_k]] = -math.inf
    if config.top_p < 1:
        order = np.argsort(-scores, kind="stable")
        mass = np.cumsum(np.exp(normalized(scores)[order]))
        scores[order[int((mass < config.top_p - EDGE).sum()) + 1 :]] = -math.inf
    if config.min_p:
        scores[scores < scores.max() + math.log(config.min_p) - EDGE] = -math.inf
    return normalized(scores)


def normalized(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    shifted = scores - scores.max()
    return np.asarray(shifted - math.log(math.fsum(np.exp(shifted))))
