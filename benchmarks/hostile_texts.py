"""Texts that drafters are bad at: random identifiers, prose, minified code. The same ones for the same seed.

Prose is the language reference that every Python carries; code is that of `examples/`, squeezed and renamed anew for
each text. Knows nothing of tokens or targets.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random

from evaluation.scenes import EXAMPLES

KINDS = ("identifiers", "prose", "minified")
CODE = {"javascript": "validator.js", "go": "logparser.go", "rust": "expression.rs"}
PIECES = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>"(?:\\.|[^"\\\n])*"|`[^`]*`|'(?:\\.|[^'\\\n])*')"""
    r"|(?P<name>[A-Za-z_$][\w$]*)|(?P<space>\s+)|(?P<other>.)",
    re.DOTALL,
)
WORD = re.compile(r"[\w$\"'`]")  # what a space may have to keep apart
KEPT = frozenset(
    (
        *("break", "case", "class", "const", "continue", "constructor", "default", "else", "enum", "export", "extends"),
        *("false", "fn", "for", "func", "function", "if", "impl", "import", "in", "instanceof", "let", "match", "mut"),
        *("new", "nil", "null", "of", "package", "pub", "range", "return", "self", "static", "struct", "super"),
        *("switch", "this", "throw", "true", "type", "typeof", "undefined", "use", "var", "while"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostileText:
    """kind: one of KINDS. language: as an editor would say it. The cursor is at the end of `text`."""

    kind: str
    language: str
    text: str


def hostile_texts(kind: str, *, requests: int, characters: int) -> list[HostileText]:
    """So many texts of a kind, of at most so many characters."""
    random = Random(f"hostile {kind}")  # noqa: S311 - reproducible, not secret
    make = {"identifiers": _identifiers, "prose": _prose, "minified": _minified}[kind]
    return [make(random, characters) for _ in range(requests)]


def minify(code: str, random: Random) -> str:
    """Code without comments and needless spaces, its longer names replaced by short ones. To be read, not to be run."""
    short = _short_names(random)
    renamed: dict[str, str] = {}
    squeezed = [""]
    apart = False
    for piece in PIECES.finditer(code):
        text = piece.group()
        if piece.lastgroup in ("comment", "space"):
            apart = True
            continue
        if piece.lastgroup == "name" and len(text) > 2 and text not in KEPT:
            text = renamed.setdefault(text, next(short))
        if apart and WORD.search(squeezed[-1][-1:]) and WORD.search(text[:1]):
            squeezed.append(" ")
        squeezed.append(text)
        apart = False
    return "".join(squeezed)


def _identifiers(random: Random, characters: int) -> HostileText:
    def name() -> str:
        return random.choice(string.ascii_letters) + "".join(
            random.choices(string.ascii_letters + string.digits + "_", k=random.randint(5, 11))
        )

    lines, length = [], 0
    while length < characters:
        lines.append(f"{name()} = {name()}({', '.join(name() for _ in range(random.randint(1, 3)))})")
        length += len(lines[-1]) + 1
    return HostileText(kind="identifiers", language="python", text="\n".join(lines)[-characters:] + "\n")


def _prose(random: Random, characters: int) -> HostileText:
    from pydoc_data.topics import topics  # 700 KB that only this needs

    text = " ".join(random.choice([text for text in topics.values() if len(text) > 2 * characters]).split())
    end = random.randint(min(characters, len(text)), len(text))
    return HostileText(kind="prose", language="plaintext", text=text[max(0, end - characters) : end])


def _minified(random: Random, characters: int) -> HostileText:
    language = random.choice(sorted(CODE))
    text = minify((Path(EXAMPLES) / CODE[language]).read_text(encoding="utf-8"), random)
    end = random.randint(min(characters, len(text)), len(text))
    return HostileText(kind="minified", language=language, text=text[max(0, end - characters) : end])


def _short_names(random: Random) -> Iterator[str]:
    """Names of one letter in a random order, then of two, and so on."""
    letters = random.sample(string.ascii_letters, k=len(string.ascii_letters))
    for number in count():
        name = ""
        while True:
            number, place = divmod(number, len(letters))
            name = letters[place] + name
            if not number:
                break
            number -= 1
        yield name
