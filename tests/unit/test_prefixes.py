"""Which slot a request gets, and what of its prompt stands there already."""

from __future__ import annotations

import pytest

from decoding.errors import ContractViolation
from target_server.prefixes import Claim, Prefixes

ROWS = 4


def prefixes(slots: int, *, retain: bool = True) -> Prefixes:
    return Prefixes(slots, chunk_rows=ROWS, retain=retain)


def fill(known: Prefixes, claim: Claim, prompt: tuple[int, ...]) -> None:
    """Note what a prefill of the whole prompt caches beyond what was there."""
    cached = prompt[:-1]
    for start in range(claim.tokens, len(cached), ROWS):
        known.filled(claim.slot, start, cached[start : start + ROWS])


def serve(known: Prefixes, prompt: tuple[int, ...], *, sound: bool = True) -> Claim:
    """A request from beginning to end."""
    claim = known.claim(prompt)
    fill(known, claim, prompt)
    known.release(claim.slot, sound=sound)
    return claim


def text(first: int, length: int = 4 * ROWS + 1) -> tuple[int, ...]:
    """A prompt that shares no token with one of another `first`."""
    return tuple(range(1000 * first, 1000 * first + length))


def test_same_prompt_finds_all_its_whole_chunks_in_place() -> None:
    known = prefixes(2)
    slot = serve(known, text(1)).slot
    assert known.claim(text(1)) == Claim(slot=slot, source=None, tokens=4 * ROWS)


def test_last_token_is_never_taken_over() -> None:
    known = prefixes(1)
    serve(known, text(1))
    assert serve(known, text(1, 4 * ROWS)).tokens == 3 * ROWS
    assert known.claim(text(1, 1)).tokens == 0


def test_chunk_that_is_not_whole_is_not_reused() -> None:
    known = prefixes(1)
    serve(known, text(1, 2 * ROWS + 3))
    assert known.claim(text(1)).tokens == 2 * ROWS


def test_prompt_that_was_edited_keeps_what_stands_before_the_edit() -> None:
    known = prefixes(1)
    serve(known, text(1))
    edited = (*text(1)[: 2 * ROWS + 1], 7, *text(1)[2 * ROWS + 2 :])
    assert serve(known, edited).tokens == 2 * ROWS
    assert known.claim(text(1)).tokens == 2 * ROWS  # of the first prompt no more is left


def test_open_slot_is_copied_from() -> None:
    known = prefixes(2)
    first = known.claim(text(1))
    fill(known, first, text(1))
    second = known.claim(text(1))
    assert second == Claim(slot=1 - first.slot, source=first.slot, tokens=4 * ROWS)


def test_only_what_has_been_filled_counts() -> None:
    known = prefixes(2)
    first = known.claim(text(1))
    known.filled(first.slot, 0, text(1)[:ROWS])
    assert known.claim(text(1)).tokens == ROWS


def test_chunk_out_of_order_is_not_noted() -> None:
    known = prefixes(1)
    claim = known.claim(text(1))
    known.filled(claim.slot, ROWS, text(1)[ROWS : 2 * ROWS])
    known.release(claim.slot, sound=True)
    assert known.claim(text(1)[ROWS:]).tokens == 0


def test_short_prompt_is_copied_rather_than_costing_a_long_one_its_slot() -> None:
    known = prefixes(2)
    long = text(1, 10 * ROWS + 1)
    home = serve(known, long).slot
    short = (*long[: 2 * ROWS], 7, 8)
    claim = serve(known, short)
    assert (claim.source, claim.tokens) == (home, 2 * ROWS)
    assert known.claim(long) == Claim(slot=home, source=None, tokens=10 * ROWS)


def test_prompt_that_holds_at_least_half_of_what_stands_takes_the_slot_over() -> None:
    known = prefixes(2)
    home = serve(known, text(1)).slot
    assert known.claim((*text(1)[: 2 * ROWS], 7, 8)) == Claim(slot=home, source=None, tokens=2 * ROWS)


def test_last_free_slot_is_taken_over_in_any_case() -> None:
    known = prefixes(2)
    long = text(1, 10 * ROWS + 1)
    home = serve(known, long).slot
    assert known.claim(text(2)).slot != home
    assert known.claim((*long[:ROWS], 7, 8)) == Claim(slot=home, source=None, tokens=ROWS)


def test_free_slot_is_better_than_an_open_one_that_holds_as_much() -> None:
    known = prefixes(3)
    first = known.claim(text(1))
    fill(known, first, text(1))
    second = known.claim(text(1))
    known.release(second.slot, sound=True)
    assert known.claim(text(1)) == Claim(slot=second.slot, source=None, tokens=4 * ROWS)


def test_least_recently_used_goes_first() -> None:
    known = prefixes(3)
    slots = [serve(known, text(number)).slot for number in (1, 2, 3)]
    serve(known, text(1))
    assert serve(known, text(4)).slot == slots[1]
    assert serve(known, text(5)).slot == slots[2]
    assert known.claim(text(1)).tokens == 4 * ROWS


def test_slot_that_holds_nothing_goes_before_any_that_does() -> None:
    known = prefixes(3)
    serve(known, text(1))
    empty = serve(known, text(2, ROWS)).slot  # too short to leave anything
    assert serve(known, text(3)).slot == empty


def test_slot_that_is_not_sound_is_forgotten() -> None:
    known = prefixes(2)
    serve(known, text(1), sound=False)
    assert known.claim(text(1)) == Claim(slot=0, source=None, tokens=0)


def test_without_retaining_a_prompt_ends_with_its_sequence() -> None:
    known = prefixes(2, retain=False)
    serve(known, text(1))
    first = known.claim(text(1))
    assert first.tokens == 0
    fill(known, first, text(1))
    assert known.claim(text(1)).source == first.slot  # it is open, and so it stands


def test_more_sequences_than_slots_is_a_breach() -> None:
    known = prefixes(1)
    known.claim(text(1))
    assert known.free == 0
    with pytest.raises(ContractViolation, match="slots"):
        known.claim(text(1))
