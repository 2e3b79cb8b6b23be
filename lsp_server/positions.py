r"""Where an LSP position lies in a text: lines, and columns in the units that client and server agreed on.

A line ends at \n, \r\n or \r and nowhere else, as LSP says; form feeds and Unicode's separators are ordinary
characters. It knows nothing of documents, versions or pygls.
"""

from __future__ import annotations

import re
from enum import StrEnum

_BREAK = re.compile(r"\r\n|\r|\n")


class PositionEncoding(StrEnum):
    """What `Position.character` counts, by the name LSP gives it."""

    UTF8 = "utf-8"
    UTF16 = "utf-16"
    UTF32 = "utf-32"


_CODEC = {
    PositionEncoding.UTF8: ("utf-8", 1),
    PositionEncoding.UTF16: ("utf-16-le", 2),
    PositionEncoding.UTF32: ("utf-32-le", 4),
}


def split_lines(text: str) -> list[str]:
    """Lines with their terminators; the last one has none and may be empty, so there is always at least one."""
    starts = [0, *(found.end() for found in _BREAK.finditer(text))]
    return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]


def without_terminator(line: str) -> str:
    return line.rstrip("\r\n")


def units(text: str, encoding: PositionEncoding) -> int:
    """The length of a text in the encoding's units."""
    if encoding is PositionEncoding.UTF32 or text.isascii():
        return len(text)
    codec, width = _CODEC[encoding]
    return len(text.encode(codec, "surrogatepass")) // width


def split_line(line: str, character: int, encoding: PositionEncoding) -> tuple[str, str]:
    """A line, cut at a column; a column past the line's end is the end, before the terminator.

    Inside a character of UTF-8 the cut falls before it. Between the halves of a UTF-16 pair the halves are parted,
    as they are in an editor that counts so; `paired` joins what comes together again.
    """
    content = without_terminator(line)
    if encoding is PositionEncoding.UTF32 or content.isascii():
        cut = min(character, len(content))
        return line[:cut], line[cut:]
    codec, width = _CODEC[encoding]
    encoded = content.encode(codec, "surrogatepass")
    cut = min(character * width, len(encoded))
    while encoding is PositionEncoding.UTF8 and cut < len(encoded) and encoded[cut] & 0xC0 == 0x80:
        cut -= 1
    before, after = (part.decode(codec, "surrogatepass") for part in (encoded[:cut], encoded[cut:]))
    return before, after + line[len(content) :]


def paired(text: str) -> str:
    """The same text with UTF-16 halves that stand together made one character."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
