from __future__ import annotations

from collections.abc import Sequence

import pytest

from decoding.drafting import DraftingRequest
from decoding.sampling import SamplingConfig
from drafts.guessing import Guess
from drafts.history import Repeat
from drafts.lookup import LookupGuesser, confidence
from drafts.mix import GuessingDrafter
from drafts.settings import DraftSettings

SAMPLING = SamplingConfig(temperature=0.5, top_k=7, seed=1)


def request(prompt: Sequence[int], *buffers: Sequence[int]) -> DraftingRequest:
    return DraftingRequest(
        prompt=tuple(prompt), language="python", sampling=SAMPLING, buffers=tuple(map(tuple, buffers))
    )


class Script:
    """A guesser that says what it is told, by how far ahead it is asked."""

    def __init__(self, source: str, guesses: dict[int, tuple[int, float]]) -> None:
        self.source = source
        self.guesses = guesses
        self.certain: list[int] = []

    def extend(self, tokens: Sequence[int]) -> None:
        self.certain.extend(tokens)

    def guess(self, ahead: Sequence[int]) -> Guess | None:
        found = self.guesses.get(len(ahead))
        return found and Guess(token=found[0], confidence=found[1], source=self.source)


def drafter(*scripts: Script, least: float = 0.5) -> GuessingDrafter:
    return GuessingDrafter("mix", [lambda _, script=script: script for script in scripts], least_confidence=least)


def test_a_draft_ends_where_nobody_is_sure() -> None:
    session = drafter(Script("a", {0: (1, 0.9), 1: (2, 0.5), 2: (3, 0.49), 3: (4, 0.9)})).open(request([9, 9]))
    draft = session.propose(7)
    assert draft.tokens == (1, 2)
    assert draft.confidences == (0.9, 0.5)
    assert draft.position == 2
    assert draft.sampling_fingerprint == SAMPLING.fingerprint()


def test_the_surest_speaks_at_each_position() -> None:
    first = Script("lookup", {0: (1, 0.6), 1: (2, 0.9), 2: (3, 0.8)})
    second = Script("ngram", {0: (5, 0.7), 1: (6, 0.6), 2: (7, 0.8)})
    draft = drafter(first, second).open(request([9])).propose(7)
    assert draft.tokens == (5, 2, 3)  # of equals the first guesser
    assert draft.sources == ("ngram", "lookup", "lookup")


def test_agreement_is_evidence() -> None:
    draft = (
        drafter(Script("lookup", {0: (1, 0.4)}), Script("ngram", {0: (1, 0.5)}), least=0.7)
        .open(request([9]))
        .propose(7)
    )
    assert draft.tokens == (1,)
    assert draft.confidences == pytest.approx((0.7,))


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_never_more_than_the_limit(limit: int) -> None:
    session = drafter(Script("a", {n: (n, 1.0) for n in range(20)})).open(request([9]))
    assert len(session.propose(limit).tokens) == limit


def test_proposing_changes_nothing_and_extending_moves_on() -> None:
    script = Script("a", {0: (1, 1.0)})
    session = drafter(script).open(request([9, 9, 9]))
    assert session.propose(3) == session.propose(3)
    session.extend([4, 5])
    assert session.propose(3).position == 5
    assert script.certain == [4, 5]


def test_no_guesser_is_plain_decoding() -> None:
    draft = GuessingDrafter("none", (), least_confidence=0.0).open(request([1, 1, 1])).propose(5)
    assert draft.tokens == ()


def test_lookup_follows_the_latest_of_the_longest_repeats() -> None:
    guesser = LookupGuesser(request([1, 2, 3, 50, 1, 2, 3, 60, 8, 2, 3, 70, 1, 2, 3]), DraftSettings())
    guess = guesser.guess(())
    assert guess is not None
    assert (guess.token, guess.source) == (60, "lookup")
    assert guesser.guess((60,)).token == 8


def test_lookup_looks_again_after_every_guess() -> None:
    prompt = [1, 2, 3, 4, 5, 6, 7, 9, 0, 4, 5, 6, 7, 8, 0, 1, 2]
    guesser = LookupGuesser(request(prompt), DraftSettings(least_match=2))
    ahead: list[int] = []
    for _ in range(6):
        ahead.append(guesser.guess(ahead).token)
    assert ahead == [3, 4, 5, 6, 7, 9]


def test_lookup_prefers_the_prompt_to_buffers_and_near_buffers_to_far_ones() -> None:
    tail = [1, 2, 3]
    near, far = [*tail, 60], [*tail, 70]
    assert LookupGuesser(request([*tail, 50, *tail], near, far), DraftSettings()).guess(()).token == 50
    assert LookupGuesser(request([9, *tail], near, far), DraftSettings()).guess(()).token == 60
    assert LookupGuesser(request([9, *tail], [], far), DraftSettings()).guess(()).token == 70


def test_lookup_never_guesses_across_the_end_of_a_buffer() -> None:
    assert LookupGuesser(request([1, 2, 3], [1, 2, 3], [1, 2, 3]), DraftSettings()).guess(()) is None


def test_lookup_holds_no_more_than_it_may() -> None:
    settings = DraftSettings(index_tokens=300, buffer_tokens=100)
    guesser = LookupGuesser(request(range(1000), range(2000), range(2000, 3000)), settings)
    assert len(guesser._history) <= 300
    for token in range(5000):
        guesser.extend([token])
        assert len(guesser._history) <= 300
    buffered = LookupGuesser(request([7], range(2000), range(2000, 3000)), settings)
    assert 90 <= len(buffered._history) <= 101


def test_confidence_grows_with_length_and_agreement() -> None:
    def of(*repeats: tuple[int, int]) -> float:
        return confidence([Repeat(following=following, length=length) for length, following in repeats])

    by_length = [of((length, 1)) for length in range(1, 40)]
    assert by_length == sorted(by_length)
    assert by_length[0] < by_length[-1]
    assert of((3, 1), (3, 1), (3, 1)) > of((3, 1), (3, 2), (3, 2))
    assert all(0.0 <= value <= 1.0 for value in by_length)
