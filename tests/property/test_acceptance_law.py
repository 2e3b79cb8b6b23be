"""The law of the output is the target's own, whatever is drafted: by partition of the noise, and over many seeds.

The exact part rests on one theorem (Gumbel-max): with independent standard Gumbel noise, token x has the largest
log p(x) + G(x) with probability p(x). So noise space falls into one cell for each token, of known mass. What our code
must do, and what is checked, is to find the right cell, from noise that lies at the cell's very edge, and to put the
cells of several positions together without regard to the draft.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from one_row import process
from scipy import stats
from toy_target import ToyTarget

from decoding.acceptance import pick
from decoding.arithmetic import NumpyArithmetic
from decoding.noise import position_key, splitmix
from decoding.processors import Context
from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules

SEED = 2**63 + 5
PROMPT = (1,)
MARGIN = 1e-13

CONFIGS = [
    SamplingConfig(temperature=1.0, seed=SEED),
    SamplingConfig(temperature=0.6, repetition_penalty=1.5, seed=SEED),
    SamplingConfig(temperature=1.7, top_k=3, logit_bias=((1, 1.5),), seed=SEED),
    SamplingConfig(temperature=0.9, top_p=0.8, min_p=0.05, banned=(0,), seed=SEED),
]


class LawTarget(ToyTarget):
    """Logits of no special shape: a standard normal draw for each context. No ties."""

    def __init__(self, *, size: int, padding: int) -> None:
        super().__init__(size=size, padding=padding)
        self._rows: dict[tuple[int, ...], NDArray[np.float64]] = {}

    def logits(self, tokens: tuple[int, ...]) -> NDArray[np.float64]:
        if tokens not in self._rows:
            self._rows[tokens] = np.random.default_rng([self.salt, len(tokens), *tokens]).normal(size=self.size)
        return self._rows[tokens]

    def complete(
        self,
        config: SamplingConfig,
        prompt: tuple[int, ...],
        count: int,
        drafted: tuple[int, ...],
        arithmetic: NumpyArithmetic,
    ) -> tuple[int, ...]:
        """`count` tokens: one verify step with the draft, then plain ones."""
        stop = StopRules(max_tokens=count)
        sequence = self.open(prompt=prompt, sampling=config, stop=stop, end_of_text=frozenset(), arithmetic=arithmetic)
        tokens = self.judge(sequence, prompt, drafted).tokens
        while sequence.finish is None:
            tokens += self.judge(sequence, prompt + tokens).tokens
        return tokens


class ChosenNoise(NumpyArithmetic):
    """Gives chosen noise for the words that (seed, position, token) make, and fails on any other word."""

    def __init__(self) -> None:
        super().__init__()
        self.noise: dict[int, float] = {}

    def choose(self, position: int, noise: NDArray[np.float64]) -> None:
        key = position_key(SEED, position)
        self.noise.update({splitmix(key, token): value for token, value in enumerate(noise.tolist())})

    def gumbel(self, words: NDArray[np.uint64]) -> NDArray[np.float64]:
        return np.array([[self.noise[word] for word in row] for row in words.tolist()])


def probabilities(row: NDArray[np.float64], context: tuple[int, ...], config: SamplingConfig) -> list[float]:
    """The processed distribution, in plain Python, written from SamplingConfig's words alone."""
    bias = dict(config.logit_bias)
    scores: list[float] = []
    for token, logit in enumerate(row.tolist()):
        if token in context:
            logit = logit / config.repetition_penalty if logit > 0 else logit * config.repetition_penalty
        logit += bias.get(token, 0.0)
        scores.append(-math.inf if token in config.banned else logit / config.temperature)

    def normalized(kept: set[int]) -> list[float]:
        weights = [math.exp(score) if token in kept else 0.0 for token, score in enumerate(scores)]
        return [weight / math.fsum(weights) for weight in weights]

    order = sorted(range(len(scores)), key=lambda token: (-scores[token], token))
    kept = {token for token in order if scores[token] > -math.inf}
    if config.top_k:
        kept &= set(order[: config.top_k])
    now = normalized(kept)
    mass = 0.0
    for token in order:
        if mass >= config.top_p:
            kept.discard(token)
        mass += now[token]
    now = normalized(kept)
    kept = {token for token in kept if now[token] >= config.min_p * max(now)}
    return normalized(kept)


def threshold(
    row: NDArray[np.float64], noise: NDArray[np.float64], token: int, position: int, config: SamplingConfig
) -> float:
    """The least noise of `token`, others' given, with which our code picks it: found by bisection, to 1e-13."""
    low, high = -80.0, 80.0
    while high - low > 1e-13 and low < (low + high) / 2 < high:
        middle = (low + high) / 2
        arithmetic = ChosenNoise()
        arithmetic.choose(position, np.where(np.arange(len(row)) == token, middle, noise))
        picked = pick(row, Context(PROMPT), position, config, arithmetic, valid_size=len(row)).token
        low, high = (low, middle) if picked == token else (middle, high)
    return high


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("config", CONFIGS)
def test_the_border_between_tokens_is_where_the_theorem_puts_it(size: int, config: SamplingConfig) -> None:
    """A token wins from exactly the best rival's score less its own log-probability."""
    random = np.random.default_rng(size)
    for position in range(8):
        row = random.normal(size=size) * 2
        noise = random.gumbel(size=size)
        law = probabilities(row, PROMPT, config)
        for token in (token for token in range(size) if 0 < law[token] < 1):
            rival = max(math.log(law[other]) + noise[other] for other in range(size) if other != token and law[other])
            expected = rival - math.log(law[token])
            assert threshold(row, noise, token, position, config) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("config", CONFIGS[:3])
def test_a_tokens_mass_integrates_to_its_probability(config: SamplingConfig) -> None:
    """Two tokens: integrate, over the second's noise, the mass of the first's noise beyond the border found above.

    With E = exp(-G), standard exponential, the integrand is smooth and Gauss-Laguerre exact to rounding.
    """
    row = np.array([0.3, 0.8])
    nodes, weights = np.polynomial.laguerre.laggauss(60)
    mass = sum(
        weight * -math.expm1(-math.exp(-threshold(row, np.array([0.0, -math.log(node)]), 0, 3, config)))
        for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True)
    )
    assert mass == pytest.approx(probabilities(row, PROMPT, config)[0], abs=1e-12)


def at_the_edge(law: list[float], winner: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Noise in the winner's cell, a margin from the border with whichever token comes second."""
    noise = random.gumbel(size=len(law))
    others = [math.log(p) + noise[token] for token, p in enumerate(law) if p and token != winner]
    if others:
        noise[winner] = max(others) - math.log(law[winner]) + MARGIN
    return noise


@pytest.mark.parametrize(
    ("size", "count", "config"),
    [(2, 4, config) for config in CONFIGS] + [(3, 3, config) for config in CONFIGS] + [(4, 3, CONFIGS[0])],
)
def test_the_law_of_the_output_is_the_targets_whatever_is_drafted(
    size: int, count: int, config: SamplingConfig
) -> None:
    """Enumerate the cells of every position, and every draft of 0 to 3 tokens; sum the mass of each output."""
    target = LawTarget(size=size, padding=0)
    random = np.random.default_rng(size)
    cells = []
    for winners in itertools.product(range(size), repeat=count):
        mass, arithmetic = 1.0, ChosenNoise()
        for index, winner in enumerate(winners):
            before = PROMPT + winners[:index]
            law = probabilities(target.logits(before), before, config)
            mass *= law[winner]
            if mass == 0:
                break
            arithmetic.choose(len(before), at_the_edge(law, winner, random))
        if mass:
            cells.append((winners, mass, arithmetic))
    assert sum(mass for _, mass, _ in cells) == pytest.approx(1, abs=1e-12)
    wanted = {winners: mass for winners, mass, _ in cells}
    for drafted in itertools.chain.from_iterable(itertools.product(range(size), repeat=length) for length in range(4)):
        found: defaultdict[tuple[int, ...], float] = defaultdict(float)
        for _, mass, arithmetic in cells:
            found[target.complete(config, PROMPT, count, drafted, arithmetic)] += mass
        assert found.keys() == wanted.keys()
        assert all(math.isclose(found[tokens], wanted[tokens], abs_tol=1e-12) for tokens in wanted)


def test_tokens_over_100_000_seeds_follow_the_law() -> None:
    """All seeds at once, over our words, noise and scores; the first 2,000 also through `pick` itself."""
    row = np.random.default_rng(1).normal(size=4)
    config = SamplingConfig(temperature=0.8, repetition_penalty=1.3)
    context, arithmetic, position, count = Context(PROMPT), NumpyArithmetic(), 7, 100_000
    keys = [position_key(seed, position) for seed in range(count)]
    words = np.array([[splitmix(key, token) for token in range(4)] for key in keys], dtype=np.uint64)
    scores = process(row, context, config, arithmetic, valid_size=4)
    tokens = (scores + arithmetic.gumbel(words)).argmax(axis=1)
    for seed in range(2_000):
        picked = pick(row, context, position, replace(config, seed=seed), arithmetic, valid_size=4)
        assert picked.token == tokens[seed]
    law = np.array(probabilities(row, PROMPT, config))
    assert stats.chisquare(np.bincount(tokens, minlength=4), law * count).pvalue > 1e-3


@pytest.mark.parametrize("drafted", [(), (0, 1), (3, 3)])
def test_whole_outputs_over_seeds_follow_the_joint_law(drafted: tuple[int, ...]) -> None:
    """Three tokens each, so that dependence between positions would show."""
    target = LawTarget(size=4, padding=0)
    config = SamplingConfig(temperature=1.2)
    law = {}
    for tokens in itertools.product(range(4), repeat=3):
        befores = [PROMPT + tokens[:index] for index in range(3)]
        law[tokens] = math.prod(
            probabilities(target.logits(before), before, config)[token]
            for before, token in zip(befores, tokens, strict=True)
        )
    count = 4_000
    found = dict.fromkeys(law, 0)
    for seed in range(count):
        found[target.complete(replace(config, seed=seed), PROMPT, 3, drafted, NumpyArithmetic())] += 1
    common = [tokens for tokens in law if law[tokens] * count >= 5]
    rare = 1 - sum(law[tokens] for tokens in common)
    observed = [found[tokens] for tokens in common]
    expected = [law[tokens] * count for tokens in common]
    if rare > 0:
        observed.append(count - sum(observed))
        expected.append(rare * count)
    assert stats.chisquare(observed, expected).pvalue > 1e-3
