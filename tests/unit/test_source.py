"""Reading a source file for completion, and places in it as people name them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.errors import UnreadableFile, UsageProblem
from cli.source import read_source, split_at

LIMIT = 1000
TEXT = "ab\r\ncd🙂e\n\nlast"


def read(path: Path) -> str:
    return read_source(path, max_bytes=LIMIT, private=(".env",))


def test_line_breaks_stay_and_a_byte_order_mark_goes(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"\xef\xbb\xbfa\r\nb\n")
    assert read(path) == "a\r\nb\n"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"a\0b", "is a binary file: a zero byte at offset 1"),
        (b"a\nb\xffc", "is not UTF-8: byte 0xff in line 2"),
        ("é".encode("latin-1"), "is not UTF-8: byte 0xe9 in line 1"),
        (b"a" * (LIMIT + 1), "has 1001 bytes; the limit is 1000"),
    ],
)
def test_what_is_no_source_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(content)
    with pytest.raises(UnreadableFile, match=problem):
        read(path)


def test_a_missing_file_a_folder_and_a_private_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="No such file"):
        read(tmp_path / "none.py")
    with pytest.raises(UnreadableFile, match="is a folder"):
        read(tmp_path)
    (tmp_path / ".env").write_text("KEY=1")
    with pytest.raises(UnreadableFile, match="is private"):
        read(tmp_path / ".env")
    (tmp_path / "link.py").symlink_to(".env")
    with pytest.raises(UnreadableFile, match="is private"):
        read(tmp_path / "link.py")


@pytest.mark.parametrize(
    ("line", "column", "prefix"),
    [(1, 1, ""), (1, 3, "ab"), (2, 1, "ab\r\n"), (2, 4, "ab\r\ncd🙂"), (3, 1, "ab\r\ncd🙂e\n"), (4, 5, TEXT)],
)
def test_a_place_parts_the_text(line: int, column: int, prefix: str) -> None:
    assert split_at(TEXT, line, column, path=Path("f")) == (prefix, TEXT[len(prefix) :])


@pytest.mark.parametrize(
    ("line", "column", "problem"),
    [
        (0, 1, "--line 0: f has 4 lines"),
        (5, 1, "--line 5: f has 4 lines"),
        (1, 0, "--column 0: line 1 of f has columns 1 to 3"),
        (1, 4, "--column 4: line 1 of f has columns 1 to 3"),
        (3, 2, "--column 2: line 3 of f has columns 1 to 1"),
    ],
)
def test_a_place_outside_says_what_there_is(line: int, column: int, problem: str) -> None:
    with pytest.raises(UsageProblem) as raised:
        split_at(TEXT, line, column, path=Path("f"))
    assert str(raised.value) == problem
