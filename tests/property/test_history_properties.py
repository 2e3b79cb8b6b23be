from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from drafts.history import History

TOKENS = st.lists(st.integers(0, 3), max_size=40)
LONGEST = 12


def matching(before: list[int], end: list[int]) -> int:
    """How many last tokens of two lists are equal, at most LONGEST."""
    length = 0
    while length < min(len(before), len(end), LONGEST) and before[-1 - length] == end[-1 - length]:
        length += 1
    return length


def brute_force(texts: list[list[int]], ahead: list[int], least: int) -> list[tuple[int, int]]:
    """(length, following) of every place whose preceding tokens match the end: longest first, then latest first."""
    end = texts[-1] + ahead
    found = []
    for number, text in enumerate(texts):
        for place in range(len(text)):
            length = matching(text[:place], end)
            if length >= least:
                found.append((length, number, place, text[place]))
    return [(length, following) for length, _, _, following in sorted(found, reverse=True)]


@given(
    texts=st.lists(TOKENS, min_size=1, max_size=3),
    ahead=st.lists(st.integers(0, 3), max_size=4),
    least=st.integers(1, 4),
)
@settings(max_examples=400, deadline=None)
def test_the_longest_and_latest_repeat_is_found(texts: list[list[int]], ahead: list[int], least: int) -> None:
    history = History(least=least, longest=LONGEST, occurrences=1000, capacity=1000)
    for number, text in enumerate(texts):
        if number:
            history.separate()
        history.append(text)
    expected = brute_force(texts, ahead, least)
    found = [(repeat.length, repeat.following) for repeat in history.repeats(ahead)]
    assert found[:1] == expected[:1]
    assert found == expected[: len(found)]  # what is left out are the shortest ones


@given(
    tokens=st.lists(st.integers(0, 2), max_size=200), pieces=st.lists(st.integers(1, 20)), capacity=st.integers(8, 40)
)
@settings(max_examples=200, deadline=None)
def test_capacity_holds_and_the_recent_half_is_remembered(tokens: list[int], pieces: list[int], capacity: int) -> None:
    history = History(least=1, longest=4, occurrences=1000, capacity=capacity)
    left = list(tokens)
    for piece in [*pieces, len(tokens)]:
        history.append(left[:piece])
        left = left[piece:]
        assert len(history) <= capacity
    assert len(history) >= min(len(tokens), capacity // 2)
    fresh = History(least=1, longest=4, occurrences=1000, capacity=10_000)
    fresh.append(tokens[len(tokens) - len(history) :])
    assert history.repeats() == fresh.repeats()
