"""The noise: the same integers everywhere, sound as random numbers, and never infinite."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from decoding.arithmetic import NumpyArithmetic
from decoding.noise import gumbel, noise_words, position_key, splitmix
from target_server.arithmetic import TorchArithmetic

IDS = np.array([0, 1, 2, 3, 1000, 49151, 151_935, 2**31 - 1], dtype=np.int64)
SEEDS = [0, 1, 2**63 - 1, 2**63, 2**64 - 1, 0x9E3779B97F4A7C15]
POSITIONS = [0, 1, 2, 511, 2**20, 2**31]


def test_splitmix_is_the_published_generator() -> None:
    # The first outputs that are published for seed 1234567.
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [splitmix(1234567, index) for index in range(4)] == published


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("position", POSITIONS)
def test_words_are_the_same_in_python_numpy_and_torch(seed: int, position: int) -> None:
    plain = [splitmix(position_key(seed, position), int(token)) for token in IDS]
    in_numpy = noise_words(seed, [position], IDS, NumpyArithmetic())[0]
    in_torch = noise_words(seed, [position], torch.from_numpy(IDS), TorchArithmetic())[0]
    assert in_numpy.tolist() == plain
    assert [word % 2**64 for word in in_torch.tolist()] == plain


def test_noise_agrees_between_numpy_and_torch() -> None:
    ids = np.arange(50_000)
    in_numpy = gumbel(7, [123], ids, NumpyArithmetic())
    in_torch = gumbel(7, [123], torch.from_numpy(ids), TorchArithmetic())
    assert in_torch.dtype == torch.float64
    np.testing.assert_allclose(in_torch.numpy(), in_numpy, rtol=1e-14, atol=1e-14)


def test_noise_is_finite_at_both_ends_of_the_words() -> None:
    words = np.array([0, 1, 2**64 - 1, 2**64 - 2**11], dtype=np.uint64)
    lowest, highest = -math.log(53 * math.log(2)), 53 * math.log(2)
    for noise in (
        NumpyArithmetic().gumbel(words),
        TorchArithmetic().gumbel(torch.from_numpy(words.view(np.int64))).numpy(),
    ):
        np.testing.assert_allclose(noise, [lowest, lowest, highest, highest], rtol=1e-12)


def test_noise_does_not_depend_on_which_other_ids_are_asked_for() -> None:
    every = gumbel(3, [9], np.arange(1000), NumpyArithmetic())[0]
    some = np.array([5, 17, 999])
    np.testing.assert_array_equal(gumbel(3, [9], some, NumpyArithmetic())[0], every[some])


@pytest.mark.parametrize("along", ["ids", "positions", "seeds"])
def test_noise_is_gumbel_along_every_counter(along: str) -> None:
    count = 20_000
    arithmetic = NumpyArithmetic()
    if along == "ids":
        noise = gumbel(11, [5], np.arange(count), arithmetic)[0]
    else:
        keys = [position_key(11, n) if along == "positions" else position_key(n, 5) for n in range(count)]
        noise = arithmetic.gumbel(np.array([splitmix(key, 42) for key in keys], dtype=np.uint64))
    assert stats.kstest(noise, stats.gumbel_r.cdf).pvalue > 1e-3
    # Neighbours are independent: the lag-one correlation is within 4 standard errors of none.
    assert abs(np.corrcoef(noise[:-1], noise[1:])[0, 1]) < 4 / math.sqrt(count)


def test_neighbouring_seeds_and_positions_do_not_share_noise() -> None:
    words = {
        splitmix(position_key(seed, position), token)
        for seed in range(20)
        for position in range(20)
        for token in range(20)
    }
    assert len(words) == 20**3
