"""Stop rules on small cases that a reader can check by eye."""

from __future__ import annotations

import pytest

from decoding.errors import ContractViolation
from decoding.stopping import FinishReason, StopRules, StopScanner

END, ALSO_END, STOP = 900, 901, 902


def scan(pieces: list[str | bytes | int], **rules: object) -> tuple[list[str], FinishReason | None, int]:
    """Texts as they come, the finish, and the emitted count; ints are token ids without text."""
    table = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]

    def token_bytes(token: int) -> bytes:
        piece = table[token]
        assert isinstance(piece, bytes)
        return piece

    scanner = StopScanner(
        StopRules(**rules),  # type: ignore[arg-type]
        token_bytes=token_bytes,
        end_of_text={END, ALSO_END},
    )
    shown = []
    for index, piece in enumerate(table):
        scanned = scanner.push(piece if isinstance(piece, int) else index)
        shown.append(scanned.text)
        assert scanned.finish == scanner.finish
        assert scanned.emitted == (not isinstance(piece, int))
        if scanner.finish:
            break
    return shown, scanner.finish, scanner.emitted_tokens


def test_text_flows_when_nothing_can_match() -> None:
    assert scan(["ab", "c", "d"], strings=("xyz",)) == (["ab", "c", "d"], None, 3)


def test_only_what_may_still_match_is_held_back() -> None:
    assert scan(["ab", "ac", "xa", "d"], strings=("abad",)) == (["", "abac", "x", "ad"], None, 4)


def test_a_stop_string_may_straddle_tokens() -> None:
    assert scan(["x\n", "\nde", "f foo", "never"], strings=("\n\ndef",)) == (["x", "", ""], FinishReason.STOP_STRING, 3)


def test_overlapping_starts_of_a_stop_string_are_not_lost() -> None:
    assert scan(["a", "a", "b"], strings=("aab",)) == (["", "", ""], FinishReason.STOP_STRING, 3)
    assert scan(["aaa", "b"], strings=("aab",)) == (["a", ""], FinishReason.STOP_STRING, 2)


def test_the_match_that_starts_first_wins_within_a_token() -> None:
    assert scan(["abcX"], strings=("bc", "abcX")) == ([""], FinishReason.STOP_STRING, 1)
    assert scan(["xbcab"], strings=("ab", "bc")) == (["x"], FinishReason.STOP_STRING, 1)


def test_stop_string_and_line_limit_whichever_is_first_in_the_text() -> None:
    assert scan(["a;b\nc"], strings=(";",), max_lines=1) == (["a"], FinishReason.STOP_STRING, 1)
    assert scan(["a\nb;c"], strings=(";",), max_lines=1) == (["a"], FinishReason.LINE_LIMIT, 1)
    assert scan(["a\n"], strings=("\n",), max_lines=1) == (["a"], FinishReason.STOP_STRING, 1)


def test_a_finish_releases_what_was_held() -> None:
    assert scan(["a", "b"], strings=("abc",), max_tokens=2) == (["", "ab"], FinishReason.TOKEN_LIMIT, 2)
    assert scan(["a", END], strings=("abc",)) == (["", "a"], FinishReason.END_OF_TEXT, 1)
    assert scan(["a", STOP], strings=("abc",), token_ids=(STOP,)) == (["", "a"], FinishReason.STOP_TOKEN, 1)
    assert scan(["a", "\n"], strings=("a\nb",), max_lines=1) == (["", "a"], FinishReason.LINE_LIMIT, 2)


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r"])
def test_every_kind_of_line_break_counts_once(line_break: str) -> None:
    text = line_break.join(["a", "b", "c"])
    shown, finish, _ = scan(list(text), max_lines=2)
    assert ("".join(shown), finish) == (line_break.join(["a", "b"]), FinishReason.LINE_LIMIT)
    shown, finish, _ = scan([text], max_lines=3)
    assert ("".join(shown), finish) == (text, None)


def test_max_lines_of_one_stops_at_a_leading_break() -> None:
    assert scan(["\n", "a"], max_lines=1) == ([""], FinishReason.LINE_LIMIT, 1)


def test_a_stop_string_beats_the_token_limit_on_the_same_token() -> None:
    assert scan(["ab;"], strings=(";",), max_tokens=1) == (["ab"], FinishReason.STOP_STRING, 1)


def test_end_of_text_is_named_so_even_where_it_is_also_a_stop_id() -> None:
    assert scan([ALSO_END], token_ids=(ALSO_END,)) == ([""], FinishReason.END_OF_TEXT, 0)


def test_half_a_character_is_held_and_then_replaced() -> None:
    assert scan(["a", b"\xc3"], max_tokens=2) == (["a", "\ufffd"], FinishReason.TOKEN_LIMIT, 2)
    assert scan(["a", b"\xc3", b"\xa9"]) == (["a", "", "é"], None, 3)


def test_a_stop_string_of_replacement_characters_matches_at_the_flush() -> None:
    assert scan(["a", b"\xc3"], strings=("\ufffd",), max_tokens=2) == (["a", ""], FinishReason.STOP_STRING, 2)


def test_flush_ends_the_output_once() -> None:
    scanner = StopScanner(StopRules(strings=("abc",)), token_bytes=lambda _: b"ab", end_of_text=())
    assert scanner.push(0).text == ""
    assert scanner.flush(FinishReason.CONTEXT_FULL) == "ab"
    assert scanner.flush(FinishReason.CLOSED) == ""
    assert scanner.finish is FinishReason.CONTEXT_FULL
    with pytest.raises(ContractViolation):
        scanner.push(0)
