"""The open documents: this module alone holds their text, and applies the editor's changes to it.

A document is kept as lines, so that a keystroke costs its line and not the file. One that completion has nothing to say
in (too large, binary, named as private) is silent: it keeps no text where it can do without. Knows nothing of pygls.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from urllib.parse import unquote, urlsplit

from lsp_server.positions import PositionEncoding, paired, split_line, split_lines, units


class Silence(StrEnum):
    """Why a document gets no suggestions."""

    TOO_LARGE = "too large"
    BINARY = "binary content"
    PRIVATE = "private by name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One edit: `text` in place of what lies between `start` and `end`, (line, column) pairs; of all, without them."""

    text: str
    start: tuple[int, int] | None = None
    end: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The text around a position. `position`: the same place with its column clamped to the line."""

    prefix: str
    suffix: str
    position: tuple[int, int]


class Document:
    """One open file. `size`: bytes of its text in UTF-8. `version`: the editor's number, which grows with changes."""

    __slots__ = ("_binary_marks", "_lines", "_max_bytes", "_private", "language_id", "path", "size", "uri", "version")

    def __init__(
        self, *, uri: str, language_id: str, version: int, text: str, max_bytes: int, private: bool = False
    ) -> None:
        self.uri = uri
        self.path = path_of(uri)
        self.language_id = language_id
        self.version = version
        self.size = 0
        self._binary_marks = 0
        self._lines: list[str] | None = None
        self._max_bytes = max_bytes
        self._private = private
        self._replace_all(text)

    @property
    def silence(self) -> Silence | None:
        if self._private:
            return Silence.PRIVATE
        if self._lines is None:
            return Silence.TOO_LARGE
        return Silence.BINARY if self._binary_marks else None

    def lines(self) -> list[str]:
        """A copy of the lines, terminators included; [] where no text is kept."""
        return list(self._lines or ())

    def text(self) -> str:
        return "".join(self._lines or ())

    def beginning(self, limit: int) -> str:
        """The first `limit` characters, or fewer."""
        return _joined(self._lines, 0, self._lines[0], limit) if self._lines else ""

    def apply(self, changes: Iterable[Change], *, version: int, encoding: PositionEncoding) -> None:
        """Apply edits in order. Places past the end are the end; where no text is kept only a whole new one counts."""
        for change in changes:
            if change.start is None or change.end is None:
                self._replace_all(change.text)
            elif self._lines is not None:
                self._replace(min(change.start, change.end), max(change.start, change.end), change.text, encoding)
        self.version = version

    def around(
        self, position: tuple[int, int], *, encoding: PositionEncoding, before: int, after: int
    ) -> Window | None:
        """At most `before` characters up to the position and `after` from it; None if the file has no such line."""
        number, character = position
        if self._lines is None or number >= len(self._lines):
            return None
        line = self._lines[number]
        head, tail = split_line(line, character, encoding)
        return Window(
            prefix=_joined_back(self._lines, number, head, before),
            suffix=_joined(self._lines, number, tail, after),
            position=(number, units(head, encoding)),
        )

    def _replace_all(self, text: str) -> None:
        self.size = _bytes(text)
        self._lines = None if self._private or self.size > self._max_bytes else split_lines(paired(text))
        self._binary_marks = 0 if self._lines is None else text.count("\0")

    def _replace(self, start: tuple[int, int], end: tuple[int, int], text: str, encoding: PositionEncoding) -> None:
        """Splice lines. A neighbour on each side is split anew with them: CR and LF may come together or part."""
        lines = self._lines
        if lines is None:
            return
        start, end = (place if place[0] < len(lines) else (len(lines) - 1, _PAST_ANY_LINE) for place in (start, end))
        head, _ = split_line(lines[start[0]], start[1], encoding)
        _, tail = split_line(lines[end[0]], end[1], encoding)
        first, last = max(start[0] - 1, 0), min(end[0] + 1, len(lines) - 1)
        gone = "".join(lines[first : last + 1])
        leading = "".join(lines[first : start[0]])
        trailing = "".join(lines[end[0] + 1 : last + 1])
        come = paired(leading + head + text + tail + trailing)
        pieces = split_lines(come)
        if last < len(lines) - 1:
            pieces.pop()  # what follows the last break is the next line, which stands already
        lines[first : last + 1] = pieces
        self.size += _bytes(come) - _bytes(gone)
        self._binary_marks += come.count("\0") - gone.count("\0")
        if self.size > self._max_bytes:
            self._lines, self._binary_marks = None, 0


class Documents:
    """What is open, at most `limit` of them: the one not used for longest is forgotten when another is opened."""

    def __init__(self, *, limit: int, max_bytes: int, private: tuple[str, ...]) -> None:
        self._limit = limit
        self._max_bytes = max_bytes
        self._private = private
        self._open: OrderedDict[str, Document] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, *, uri: str, language_id: str, version: int, text: str) -> Document:
        document = Document(
            uri=uri,
            language_id=language_id,
            version=version,
            text=text,
            max_bytes=self._max_bytes,
            private=private_pattern(path_of(uri).rsplit("/", 1)[-1], self._private) is not None,
        )
        self._open[uri] = document
        self._open.move_to_end(uri)
        while len(self._open) > self._limit:
            self._open.popitem(last=False)
        return document

    def get(self, uri: str) -> Document | None:
        """The document, marked as used; None if it isn't open or was forgotten."""
        if uri in self._open:
            self._open.move_to_end(uri)
        return self._open.get(uri)

    def close(self, uri: str) -> None:
        self._open.pop(uri, None)

    def others(self, document: Document) -> Iterator[Document]:
        """Open documents of the same language that aren't silent, the one used last first."""
        for other in reversed(self._open.values()):
            same_language = other.language_id == document.language_id
            if other is not document and same_language and other.silence is None:
                yield other


def path_of(uri: str) -> str:
    """The path that a URI names; all of it where it isn't one."""
    try:
        return unquote(urlsplit(uri).path)
    except ValueError:
        return uri


def private_pattern(name: str, patterns: Iterable[str]) -> str | None:
    """The first pattern that makes a file of this name private, in whatever case either is written."""
    return next((pattern for pattern in patterns if fnmatchcase(name.lower(), pattern.lower())), None)


_PAST_ANY_LINE = 2**31


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _joined_back(lines: list[str], number: int, head: str, limit: int) -> str:
    """The last `limit` characters of the lines before `number` and `head`."""
    pieces, length = [head], len(head)
    while length < limit and number > 0:
        number -= 1
        pieces.append(lines[number])
        length += len(lines[number])
    text = "".join(reversed(pieces))
    return text[max(len(text) - limit, 0) :]


def _joined(lines: list[str], number: int, tail: str, limit: int) -> str:
    """The first `limit` characters of `tail` and the lines after `number`."""
    pieces, length = [tail], len(tail)
    while length < limit and number < len(lines) - 1:
        number += 1
        pieces.append(lines[number])
        length += len(lines[number])
    return "".join(pieces)[:limit]
