"""A source file and a place in it, as people name them: lines and columns from 1. Refuses what is no text."""

from __future__ import annotations

from pathlib import Path

from cli.errors import UnreadableFile, UsageProblem
from lsp_server.documents import private_pattern
from lsp_server.positions import split_lines, without_terminator


def read_source(path: Path, *, max_bytes: int, private: tuple[str, ...]) -> str:
    """The file's text, line breaks as they are.

    private: patterns of names that are never shown to a target. Raises UnreadableFile.
    """
    try:
        names = (path.name, path.resolve().name)  # what a link leads to is as private as the file itself
    except (OSError, RuntimeError, ValueError) as error:
        raise UnreadableFile(path, "can't be found") from error
    for name in names:
        if pattern := private_pattern(name, private):
            raise UnreadableFile(path, f"is private: its name matches {pattern!r} of lsp.private")
    try:
        if path.is_dir():
            raise UnreadableFile(path, "is a folder")
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
            size = path.stat().st_size
    except OSError as error:
        raise UnreadableFile(path, error.strerror or "can't be read") from error
    if len(data) > max_bytes:
        raise UnreadableFile(path, f"has {size} bytes; the limit is {max_bytes} (lsp.max_document_bytes)")
    if b"\0" in data:
        raise UnreadableFile(path, f"is a binary file: a zero byte at offset {data.index(0)}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableFile(path, f"is not UTF-8: byte 0x{data[error.start]:02x} in line {line}") from error


def split_at(text: str, line: int, column: int, *, path: Path) -> tuple[str, str]:
    """Text before and after a place. `line` and `column` count from 1; column n is before the line's nth character.

    Raises UsageProblem where the file has no such place, and says what it has.
    """
    lines = split_lines(text)
    if not 1 <= line <= len(lines):
        raise UsageProblem(f"--line {line}: {path} has {len(lines)} {'line' if len(lines) == 1 else 'lines'}")
    width = len(without_terminator(lines[line - 1]))
    if not 1 <= column <= width + 1:
        raise UsageProblem(f"--column {column}: line {line} of {path} has columns 1 to {width + 1}")
    start = sum(map(len, lines[: line - 1])) + column - 1
    return text[:start], text[start:]
