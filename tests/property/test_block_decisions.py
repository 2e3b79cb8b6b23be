"""A block decided at once is decided as row by row, and noise left out never mattered: in numpy and in torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from reference_sampling import token_and_log_probability
from toy_target import ToyTarget

from decoding import acceptance, noise
from decoding.acceptance import FEW, Pick, pick, pick_all
from decoding.arithmetic import NumpyArithmetic
from decoding.drafting import Draft
from decoding.errors import InvalidSetting, TargetFailed
from decoding.processors import Context
from decoding.sampling import SamplingConfig
from target_server.arithmetic import HostArithmetic, TorchArithmetic

SIZE = 3 * FEW
PROMPT = (3, 1, 4, 1, 5)
LIBRARIES: dict[str, tuple[Callable[..., Any], Callable[[NDArray[Any]], Any]]] = {
    "numpy": (NumpyArithmetic, np.asarray),
    "host": (HostArithmetic, torch.from_numpy),
    "torch": (TorchArithmetic, torch.from_numpy),
}
EVERY_LIBRARY = pytest.mark.parametrize("library", LIBRARIES)
CONFIGS = st.builds(
    SamplingConfig,
    temperature=st.sampled_from([0.0, 0.2, 0.8, 1.0, 3.0]),
    top_k=st.sampled_from([0, 0, 1, 40, SIZE - 1]),
    top_p=st.sampled_from([1.0, 1.0, 0.95, 0.3, 1e-13]),
    min_p=st.sampled_from([0.0, 0.0, 0.02]),
    repetition_penalty=st.sampled_from([1.0, 1.3, 0.7]),
    logit_bias=st.sampled_from([(), ((3, 2.0), (0, -3.0))]),
    banned=st.sampled_from([(), (0, 9, SIZE - 1)]),
    seed=st.integers(0, 2**64 - 1),
)
# Shapes that a model's rows have, and such as try the edges: ties of all, ties of many, one far ahead, some that are
# impossible, values so large that noise is lost in them, and the noise's own mirror image, where every token ties.
SHAPES = ("normal", "flat", "levels", "peak", "impossible", "huge", "mirror")


def row_of(shape: str, number: int, *, seed: int = 0, position: int = 0, size: int = SIZE) -> NDArray[np.float64]:
    random = np.random.default_rng([SHAPES.index(shape), number])
    row = random.normal(size=size) * random.choice([0.1, 3.0, 12.0])
    match shape:
        case "flat":
            row[:] = -7.25
        case "levels":
            row = np.floor(row)
        case "peak":
            row[random.integers(size)] += 60
        case "impossible":
            row[random.random(size) < 0.6] = -math.inf
            row[random.integers(size)] = 0.0
        case "huge":
            row = np.floor(row) * 1e30
        case "mirror":
            mirrored = -noise.gumbel(seed, [position], np.arange(size), NumpyArithmetic())[0]
            row = mirrored + random.choice([0.0, 1e-9, 0.3]) * random.normal(size=size)
    return row


@EVERY_LIBRARY
@given(shapes=st.lists(st.sampled_from(SHAPES), min_size=1, max_size=4), number=st.integers(0, 10**6), config=CONFIGS)
@settings(max_examples=120, deadline=None)
def test_blocks_are_decided_as_the_plain_rule_decides_their_rows(
    library: str, shapes: list[str], number: int, config: SamplingConfig
) -> None:
    make, array = LIBRARIES[library]
    rows = [
        row_of(shape, number + index, seed=config.seed, position=len(PROMPT) + index)
        for index, shape in enumerate(shapes)
    ]
    drafted = tuple(np.random.default_rng(number).integers(0, SIZE, size=len(rows) - 1).tolist())
    given_rows = [array(row) for row in rows]
    where = (config, make())
    found = pick_all(given_rows, drafted, Context(PROMPT), len(PROMPT), *where, valid_size=SIZE)
    for index, row in enumerate(rows):
        context, position = PROMPT + drafted[:index], len(PROMPT) + index
        one = pick(given_rows[index], Context(context), position, *where, valid_size=SIZE)
        assert found[index] == one  # to the last bit
        token, log_probability = token_and_log_probability(row, context, position, config)
        if not (shapes[index] == "mirror" and config.temperature == 1):  # there the last bits decide
            assert one.token == token
            assert one.log_probability == pytest.approx(log_probability, abs=1e-10, rel=1e-12)


def winner_of_all(row: NDArray[np.float64], seed: int, library: str) -> int:
    """The same sums, in the same library, with the noise of every token."""
    make, array = LIBRARIES[library]
    arithmetic = make()
    scores = arithmetic.widen((array(row),), len(row))
    scores = arithmetic.subtract(scores, arithmetic.largest(scores))
    ids = arithmetic.place(np.arange(len(row)), scores)
    sums = arithmetic.add(scores, noise.gumbel(seed, [0], ids, arithmetic))
    return int(np.flatnonzero(np.asarray(sums)[0] == float(sums.max()))[0])


def picked(row: NDArray[np.float64], seed: int, library: str) -> int:
    make, array = LIBRARIES[library]
    config = SamplingConfig(temperature=1.0, seed=seed)
    return pick(array(row), Context(), 0, config, make(), valid_size=len(row)).token


@EVERY_LIBRARY
@given(shape=st.sampled_from(SHAPES), number=st.integers(0, 10**6), seed=st.integers(0, 2**64 - 1))
@settings(max_examples=200, deadline=None)
def test_noise_left_out_could_not_have_won(library: str, shape: str, number: int, seed: int) -> None:
    row = row_of(shape, number, seed=seed, size=1500)
    assert picked(row, seed, library) == winner_of_all(row, seed, library)


@EVERY_LIBRARY
@given(
    words=st.lists(st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64 - 2**20, 2**64 - 1]), min_size=1, max_size=5),
    behind=st.lists(st.sampled_from([0.0, 3.0, 36.7, 36.736, 36.737, 36.74, 40.3, 40.36]), min_size=1, max_size=5),
    places=st.permutations(range(0, SIZE, 70)),
)
@settings(max_examples=200, deadline=None)
def test_the_bounds_hold_at_the_ends_of_the_noise(
    library: str, words: list[int], behind: list[float], places: list[int]
) -> None:
    """Noise that no search over seeds would find: the least and the largest that there is, at scores about them."""
    every = np.full(SIZE, 2**40, dtype=np.uint64)
    row = np.full(SIZE, -20.0)
    for place, word, distance in zip(places, words, behind, strict=False):
        every[place], row[place] = word, -distance

    def chosen(seed: int, positions: Any, ids: Any, arithmetic: Any) -> Any:
        if isinstance(arithmetic, TorchArithmetic):
            return torch.from_numpy(every.view(np.int64))[ids].reshape(1, -1)
        return every[ids].reshape(1, -1)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(noise, "noise_words", chosen)
        assert picked(row, 0, library) == winner_of_all(row, 0, library)


@pytest.mark.parametrize("mistake", ["largest noise", "bound of the words"])
def test_a_bound_that_is_too_low_is_caught(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if mistake == "largest noise":
        monkeypatch.setattr(acceptance, "LARGEST_NOISE", 5.0)
    else:
        real = acceptance.noise_bound
        monkeypatch.setattr(acceptance, "noise_bound", lambda *given: real(*given) - 3.0)
    rows = [(row_of(shape, number, seed=number), number) for shape in ("normal", "mirror") for number in range(40)]
    assert any(picked(row, seed, "numpy") != winner_of_all(row, seed, "numpy") for row, seed in rows)


def test_most_noise_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """On rows as a model gives them: a vocabulary of 49,152, of which noise is computed for a few hundred."""
    computed = []
    real = NumpyArithmetic.gumbel

    def counted(arithmetic: NumpyArithmetic, words: NDArray[np.uint64]) -> NDArray[np.float64]:
        computed.append(words.size)
        return real(arithmetic, words)

    monkeypatch.setattr(NumpyArithmetic, "gumbel", counted)
    row = np.random.default_rng(0).normal(size=49_152) * 3
    row[:20] += 12
    picked(row, 1, "numpy")
    assert 2 < sum(computed) < 5_000


@EVERY_LIBRARY
@pytest.mark.parametrize("at_once", [1, 2, 3, 64])
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_verdicts_do_not_depend_on_how_many_rows_are_decided_at_once(
    library: str, at_once: int, temperature: float
) -> None:
    """The first wrong token at each place of the draft; rows after it hold NaN, which nobody may look at."""
    make, array = LIBRARIES[library]
    config = SamplingConfig(temperature=temperature, repetition_penalty=1.5, top_p=0.9, seed=7)
    rows = [row_of("levels", index) for index in range(7)]
    right: tuple[int, ...] = ()
    for index, row in enumerate(rows):
        right += (token_and_log_probability(row, PROMPT + right, len(PROMPT) + index, config)[0],)
    for wrong in range(7):
        drafted = (*right[:wrong], (right[wrong] + 1) % SIZE, *right[wrong + 1 : 6])[:6]
        broken = [array(row if index <= wrong else np.full(SIZE, math.nan)) for index, row in enumerate(rows)]
        verdicts = []
        for arithmetic in (make(rows_at_once=at_once), make()):
            sequence = ToyTarget(size=SIZE).open(
                prompt=PROMPT, sampling=config, end_of_text=frozenset(), arithmetic=arithmetic
            )
            draft = Draft(position=len(PROMPT), tokens=drafted, sampling_fingerprint="")
            verdicts.append(sequence.judge(draft, broken))
        assert verdicts[0] == verdicts[1]
        assert verdicts[0].tokens == right[: wrong + 1]


@EVERY_LIBRARY
@pytest.mark.parametrize("config", [SamplingConfig(), SamplingConfig(temperature=1.0), SamplingConfig(min_p=0.1)])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_broken_row_is_the_failure_of_its_own_place_alone(library: str, config: SamplingConfig, bad: float) -> None:
    make, array = LIBRARIES[library]
    rows = [row_of("normal", index) for index in range(3)]
    rows[1][:] = bad
    found = pick_all([array(row) for row in rows], (1, 2), Context(), 0, config, make(), valid_size=SIZE)
    assert isinstance(found[0], Pick)
    assert isinstance(found[1], TargetFailed)
    assert isinstance(found[2], Pick)


@EVERY_LIBRARY
def test_bans_that_leave_nothing_in_one_row_are_told_at_that_row(library: str) -> None:
    make, array = LIBRARIES[library]
    rows = [row_of("normal", 0), np.full(SIZE, -math.inf)]
    rows[1][4] = 1.0
    config = SamplingConfig(temperature=1.0, banned=(4,))
    found = pick_all([array(row) for row in rows], (1,), Context(), 0, config, make(), valid_size=SIZE)
    assert isinstance(found[0], Pick)
    assert isinstance(found[1], InvalidSetting)
