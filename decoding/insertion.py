"""What of a finished completion is worth inserting, given the text that follows. Pure text, no model.

The result is always a beginning of the completion, since that may be on the screen already: clean-up only shortens.
In doubt it keeps; a few characters too many are seen before they are accepted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_OPENER = {")": "(", "]": "[", "}": "{"}
_OPENERS = frozenset(_OPENER.values())
_SUFFIX_READ = 4096  # characters of the suffix that are looked at
_SURE = 3  # characters of an overlap that are no coincidence


def tidy(completion: str, prefix: str, suffix: str) -> str:
    """The beginning of `completion` to insert between `prefix` and `suffix`; "" if nothing but blanks is left.

    It ends before the suffix's next line is repeated, before a closing bracket that the rest of the cursor's line
    supplies, before what the suffix begins with, and before trailing blanks.
    """
    line = prefix[prefix.rfind("\n") + 1 :]
    suffix = suffix[:_SUFFIX_READ]
    rest, _, below = suffix.partition("\n")
    rest = rest.rstrip()
    text = _before_repeated_line(completion, line, rest, below)
    text = _before_supplied_closer(text, line, rest)
    text = _before_overlap(text, line, rest, suffix)
    if not rest or rest[0].isspace() or rest[0] in _OPENER:
        text = text.rstrip()
    return text if text.strip() else ""


def _before_repeated_line(text: str, line: str, rest: str, below: str) -> str:
    """Cut where a line of the text is the suffix's next one that isn't blank, indentation included."""
    following = next((entry.rstrip() for entry in below.split("\n") if entry.strip()), None)
    start = 0
    while following is not None and start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        # The first line stands behind what is on the cursor's line, and before the rest of it.
        whole = text[start:end].rstrip() if start else (line + text[:end]).rstrip() if not rest else ""
        # Brackets that close the text's own block may well look like those that follow.
        if whole == following and not (_closes(whole) and _Brackets.of(text[:start]).unclosed):
            return text[:start] if start or not line.strip() else text
        start = end
    return text


def _before_supplied_closer(text: str, line: str, rest: str) -> str:
    """Cut before a closing bracket, unopened in the text, for which the cursor's line has one already."""
    closers = rest.lstrip()
    supplied = len(closers) - len(closers.lstrip("".join(_OPENER)))
    if not supplied:
        return text
    before = _Brackets.of(line)
    wanted = max(0, len(before.unclosed) - supplied)
    unopened = _Brackets.of(text, in_string=before.in_string).unopened
    if len(unopened) > wanted and text[unopened[wanted]] == closers[0]:
        return text[: unopened[wanted]]
    return text


def _before_overlap(text: str, line: str, rest: str, suffix: str) -> str:
    """Cut what the text ends with and the suffix begins with, or where the first line ends with the cursor line's."""
    first, more, _ = text.partition("\n")
    first = first.rstrip()
    if more and rest and _overlap(first, line, rest) == len(rest):
        return first[: -len(rest)]
    return text[: len(text) - _overlap(text, line, suffix)]


def _overlap(text: str, line: str, following: str) -> int:
    """Length of the longest end of `text` that begins `following`, is no coincidence, and isn't needed to close."""
    rest = following.partition("\n")[0].rstrip()
    whole = _Brackets.of(line + text + rest)
    for length in range(min(len(text), len(following)), 0, -1):
        piece = following[:length]
        if not text.endswith(piece) or not piece.strip():
            continue
        sure = length >= len(rest) > 0 or len(piece.strip()) >= _SURE or not any(map(str.isalnum, piece))
        without = _Brackets.of(line + text[:-length] + rest)
        if sure and len(without.unclosed) <= len(whole.unclosed) and without.in_string <= whole.in_string:
            return length
    return 0


def _closes(line: str) -> bool:
    """Whether a line holds closing brackets alone, and what may follow them."""
    return not line.strip().strip("".join(_OPENER) + ";,")


@dataclass(slots=True)
class _Brackets:
    """What a text leaves open, and indices of what it closes without having opened it; double-quoted ones apart."""

    unclosed: list[str] = field(default_factory=list)
    unopened: list[int] = field(default_factory=list)
    in_string: bool = False

    @classmethod
    def of(cls, text: str, *, in_string: bool = False) -> _Brackets:
        found = cls(in_string=in_string)
        escaped = False
        for index, character in enumerate(text):
            if character == "\n":
                found.in_string = False
            elif character == '"' and not escaped:
                found.in_string = not found.in_string
            elif character in _OPENERS and not found.in_string:
                found.unclosed.append(character)
            elif character in _OPENER and not found.in_string:
                if found.unclosed and found.unclosed[-1] == _OPENER[character]:
                    found.unclosed.pop()
                else:
                    found.unopened.append(index)
            escaped = character == "\\" and not escaped
        return found
