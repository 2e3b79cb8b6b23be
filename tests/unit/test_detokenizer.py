"""Incremental text: whole characters only, and the same as decoding everything at once."""

from __future__ import annotations

import pytest

from decoding.detokenizer import Detokenizer


def texts(pieces: list[bytes]) -> list[str]:
    detokenizer = Detokenizer(pieces.__getitem__)
    return [*(detokenizer.push(token) for token in range(len(pieces))), detokenizer.flush()]


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([b"ab", b"", b"c"], ["ab", "", "c", ""]),
        ([b"\xf0", b"\x9f", b"\x99", b"\x82!"], ["", "", "", "🙂!", ""]),
        ([b"x\xc3", b"\xa9y"], ["x", "éy", ""]),
        ([b"\xff", b"a"], ["\ufffd", "a", ""]),
        ([b"\xe2\x82", b"A"], ["", "\ufffdA", ""]),
        ([b"\xf0\x9f\x99"], ["", "\ufffd"]),
        ([b"\xed\xa0\x80"], ["\ufffd\ufffd\ufffd", ""]),
    ],
)
def test_characters_come_when_they_are_whole(pieces: list[bytes], expected: list[str]) -> None:
    assert texts(pieces) == expected
    assert "".join(expected) == b"".join(pieces).decode(errors="replace")
