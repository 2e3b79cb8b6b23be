"""Which language a document is in: by what the editor says, else by its path, else by its first lines.

Opens no files and looks at a bounded beginning of the text, so it may run on every keystroke.
"""

from __future__ import annotations

import re

from drafts.languages import BY_EXTENSION, BY_ID, BY_INTERPRETER, BY_NAME, CASELESS, PLAINTEXT, SIGNS

CONTENT_CHARACTERS = 4096  # of the text, looked at
_LEAST_SIGNS = 2  # lines that must speak for a language, and more than for any other

_MATCHERS = {
    language: re.compile("|".join(signs), re.IGNORECASE if language in CASELESS else 0)
    for language, signs in SIGNS.items()
}
_SHEBANG = re.compile(r"#!\s*(?:\S*/)?env\s+(?:-\S+\s+|\w+=\S*\s+)*(?:\S*/)?([A-Za-z-]+)|#!\s*(?:\S*/)?([A-Za-z-]+)")
_JSON_START = re.compile(r"\s*(\{\s*(\"|\})|\[\s*(\{|\[|\"|\d|\]))")


def detect(language_id: str, path: str, text: str) -> str:
    """The canonical language id, one of KNOWN_LANGUAGES or "plaintext".

    language_id: as the editor gives it, or ""; believed where known. path: a path or URI, or ""; never opened.
    """
    if known := BY_ID.get(language_id.strip().lower()):
        return known
    return _by_path(path) or _by_shebang(text) or _by_content(text[:CONTENT_CHARACTERS]) or PLAINTEXT


def _by_path(path: str) -> str | None:
    name = re.split(r"[/\\]", path)[-1]
    if known := BY_NAME.get(name):
        return known
    stem, _, extension = name.rpartition(".")
    return BY_EXTENSION.get(extension.lower()) if stem else None


def _by_shebang(text: str) -> str | None:
    start = text[:256].lstrip("\ufeff")
    program = _SHEBANG.match(start)
    return BY_INTERPRETER.get((program[1] or program[2]).lower()) if program else None


def _by_content(text: str) -> str | None:
    if _JSON_START.match(text):
        return "json"
    counts = dict.fromkeys(_MATCHERS, 0)
    for line in text.splitlines():
        for language, matcher in _MATCHERS.items():
            counts[language] += matcher.match(line.rstrip()[:200]) is not None
    first, second = sorted(counts.items(), key=lambda item: -item[1])[:2]
    return first[0] if first[1] >= _LEAST_SIGNS and first[1] > second[1] else None
