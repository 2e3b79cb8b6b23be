"""Top-k, top-p and min-p against exact fractions, where ties and masses that land on the edge are common."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from one_row import process

from decoding.arithmetic import NumpyArithmetic
from decoding.processors import Context
from decoding.sampling import SamplingConfig
from target_server.arithmetic import TorchArithmetic


def kept_exactly(weights: list[int], top_k: int, top_p: Fraction, min_p: Fraction) -> dict[int, Fraction]:
    """The kept ids and their probabilities, from the definitions in SamplingConfig."""
    order = sorted(range(len(weights)), key=lambda token: (-weights[token], token))
    if top_k:
        order = [token for token in order if weights[token] >= weights[order[min(top_k, len(order)) - 1]]]
    total, mass, nucleus = sum(weights[token] for token in order), Fraction(0), []
    for token in order:
        if top_p < 1 and mass >= top_p:
            break
        nucleus.append(token)
        mass += Fraction(weights[token], total)
    final = [token for token in nucleus if weights[token] >= min_p * weights[nucleus[0]]]
    return {token: Fraction(weights[token], sum(weights[other] for other in final)) for token in final}


@given(
    weights=st.lists(st.integers(1, 8), min_size=1, max_size=12),
    top_k=st.integers(0, 13),
    top_p=st.fractions(Fraction(1, 20), 1, max_denominator=20),
    min_p=st.fractions(0, Fraction(19, 20), max_denominator=20),
)
@settings(max_examples=400, deadline=None)
def test_truncation_is_exact_in_numpy_and_torch(
    weights: list[int], top_k: int, top_p: Fraction, min_p: Fraction
) -> None:
    config = SamplingConfig(temperature=1.0, top_k=top_k, top_p=float(top_p), min_p=float(min_p))
    row = np.log(np.array(weights, dtype=np.float64))
    wanted = np.zeros(len(weights))
    for token, probability in kept_exactly(weights, top_k, top_p, min_p).items():
        wanted[token] = probability
    ours = process(row, Context(), config, NumpyArithmetic(), valid_size=len(weights))
    theirs = process(torch.from_numpy(row), Context(), config, TorchArithmetic(), valid_size=len(weights))
    for scores in (ours, theirs):
        np.testing.assert_array_equal(scores == -math.inf, wanted == 0)
        np.testing.assert_allclose(np.exp(scores), wanted, atol=1e-12)
