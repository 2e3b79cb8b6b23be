"""How prompts are laid out, against a tokenizer of one id a character, and one of long tokens."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding.errors import InvalidSetting
from decoding.prompt import FimTemplate, Prompt, assemble

BOS, PREFIX, SUFFIX, MIDDLE = 1_000_001, 1_000_002, 1_000_003, 1_000_004
TEMPLATE = FimTemplate(prefix_id=PREFIX, suffix_id=SUFFIX, middle_id=MIDDLE)
SUFFIX_FIRST = FimTemplate(prefix_id=PREFIX, suffix_id=SUFFIX, middle_id=MIDDLE, suffix_first=True)


def encode(text: str) -> list[int]:
    return [ord(character) for character in text]


def ids(text: str) -> tuple[int, ...]:
    return tuple(encode(text))


def prompt(prefix: str, suffix: str = "", *neighbours: str) -> Prompt:
    return Prompt(prefix=prefix, suffix=suffix, language="python", path="a.py", neighbours=neighbours)


def test_prefix_alone_ends_at_the_cursor_and_is_cut_at_its_start() -> None:
    assert assemble(prompt("abcdef", "xyz"), encode, None, 4, None) == ids("cdef")
    assert assemble(prompt("abcdef", "xyz"), encode, None, 4, BOS) == (BOS, *ids("def"))
    assert assemble(prompt("ab"), encode, None, 4, BOS) == (BOS, *ids("ab"))


def test_an_empty_file_still_gives_a_prompt() -> None:
    assert assemble(prompt(""), encode, None, 8, None) == ids("\n")
    assert assemble(prompt(""), encode, None, 8, BOS) == (BOS,)
    assert assemble(prompt(""), encode, TEMPLATE, 8, None) == (PREFIX, SUFFIX, MIDDLE)
    with pytest.raises(InvalidSetting, match=r"prompt\.prefix"):
        assemble(prompt(""), lambda text: [], None, 8, None)


def test_markers_stand_where_the_template_says() -> None:
    assert assemble(prompt("ab", "yz"), encode, TEMPLATE, 64, BOS) == (
        *(BOS, PREFIX),
        *ids("ab"),
        SUFFIX,
        *ids("yz"),
        MIDDLE,
    )
    assert assemble(prompt("ab", "yz"), encode, SUFFIX_FIRST, 64, None) == (
        SUFFIX,
        *ids("yz"),
        PREFIX,
        *ids("ab"),
        MIDDLE,
    )


@pytest.mark.parametrize(
    ("prefix", "suffix", "kept"),
    [
        ("p" * 99, "s" * 100, (30, 10)),  # 3 to 1
        ("p" * 5, "s" * 100, (5, 35)),  # what the prefix leaves goes to the suffix
        ("p" * 100, "s" * 4, (36, 4)),  # and the other way round
        ("p" * 7, "s" * 7, (7, 7)),
    ],
)
def test_prefix_and_suffix_share_the_budget(prefix: str, suffix: str, kept: tuple[int, int]) -> None:
    got = assemble(prompt(prefix, suffix), encode, TEMPLATE, 43, None)
    assert (got.count(ord("p")), got.count(ord("s"))) == kept


def test_the_near_ends_survive_the_cut() -> None:
    got = assemble(prompt("0123456789" * 9, "abcdefghij" * 9), encode, TEMPLATE, 11, None)
    assert got == (PREFIX, *ids("456789"), SUFFIX, *ids("ab"), MIDDLE)


def test_neighbours_come_first_nearest_last_and_only_into_what_is_left() -> None:
    assert assemble(prompt("ab", "", "near", "far\n"), encode, None, 64, BOS) == (BOS, *ids("far\nnear\nab"))
    assert assemble(prompt("ab", "", "near", "far\n"), encode, None, 9, None) == ids("fanear\nab")
    assert assemble(prompt("ab", "", "near", "far\n"), encode, None, 2, None) == ids("ab")
    assert assemble(prompt("ab", "yz", "near"), encode, TEMPLATE, 64, None) == (
        PREFIX,
        *ids("near\nab"),
        SUFFIX,
        *ids("yz"),
        MIDDLE,
    )


def test_a_budget_that_holds_no_token_is_refused() -> None:
    with pytest.raises(InvalidSetting, match=r"prompt\.budget_tokens: must be 1 or more, got 0"):
        assemble(prompt("a"), encode, None, 0, None)
    with pytest.raises(InvalidSetting, match=r"prompt\.budget_tokens: must be 2 or more, got 1"):
        assemble(prompt("a"), encode, None, 1, BOS)
    assert assemble(prompt("ab", "yz"), encode, TEMPLATE, 2, None) == ids("ab")


@pytest.mark.parametrize("line", ["x = 1\n", "x" * 1000])
def test_a_huge_file_is_not_encoded_whole(line: str) -> None:
    text = line * (5_000_000 // len(line))
    seen = 0

    def counting(part: str) -> list[int]:
        nonlocal seen
        seen += len(part)
        return encode(part)

    got = assemble(prompt(text, text), counting, TEMPLATE, 1000, None)
    assert 875 <= len(got) <= 1000
    assert seen < 20_000


def test_a_cut_text_is_encoded_from_a_line_start() -> None:
    parts: list[str] = []

    def recording(part: str) -> list[int]:
        parts.append(part)
        return encode(part)

    assemble(prompt("first line\nsecond\n" * 50), recording, None, 10, None)
    assert parts
    assert all(part.startswith(("first line\n", "second\n")) for part in parts)


def test_long_tokens_still_fill_the_budget() -> None:
    def words(text: str) -> list[int]:
        return [len(word) for word in re.findall(r"\s*\S+|\s+$", text)]

    text = (" " * 16 + "a\n") * 1000
    assert 88 <= len(assemble(prompt(text), words, None, 100, None)) <= 100


@pytest.mark.parametrize("template", [None, TEMPLATE])
def test_a_cut_prompt_begins_the_same_over_many_keystrokes(template: FimTemplate | None) -> None:
    text = "".join(f"line {number}\n" for number in range(1000))
    typed = "y" * 300
    beginnings = [
        assemble(prompt(text + typed[:length], "suffix"), encode, template, 400, None)[:200] for length in range(300)
    ]
    assert sum(before != after for before, after in itertools.pairwise(beginnings)) <= 8


def test_neighbours_move_in_steps_too() -> None:
    prompts = [assemble(prompt("p" * length, "", "n" * 500), encode, None, 400, None) for length in range(300)]
    assert len({got.index(ord("p")) for got in prompts[1:]}) <= 8


@given(
    prefix=st.text("ab\n ", max_size=200),
    suffix=st.text("yz\n ", max_size=200),
    neighbours=st.lists(st.text("n\n", max_size=50), max_size=3),
    template=st.sampled_from([None, TEMPLATE, SUFFIX_FIRST]),
    budget=st.integers(2, 60),
    bos=st.sampled_from([None, BOS]),
)
def test_never_empty_never_over_budget_and_always_the_near_text(
    prefix: str, suffix: str, neighbours: list[str], template: FimTemplate | None, budget: int, bos: int | None
) -> None:
    got = assemble(prompt(prefix, suffix, *neighbours), encode, template, budget, bos)
    assert 1 <= len(got) <= budget
    assert (got[0] == BOS) == (bos is not None)
    if template is None:
        near = min(len(prefix), budget - (bos is not None))
        assert not near or got[-near:] == ids(prefix)[-near:]
    elif MIDDLE in got:
        assert got[-1] == MIDDLE
        assert got.count(PREFIX) == got.count(SUFFIX) == 1
        end = got.index(SUFFIX) if not template.suffix_first else len(got) - 1
        start = got.index(PREFIX) + 1
        assert bytes(got[start:end]).endswith(bytes(ids(prefix))[-(budget // 2 - 4) :] if budget > 12 else b"")
