"""Beginnings of real files, of so many tokens: Python's own library, which stands on every machine."""

from __future__ import annotations

import sysconfig
from dataclasses import dataclass
from pathlib import Path

from drafts.vocabulary import Vocabulary
from evaluation.errors import EvaluationFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceText:
    """A file's beginning, and what follows it there."""

    name: str
    text: str
    rest: str


def source_texts(vocabulary: Vocabulary, *, count: int, tokens: int, rest: int) -> list[SourceText]:
    """The first `count` files by name that are long enough, each cut where `tokens` tokens end, `rest` characters kept.

    Raises EvaluationFailed where there are too few.
    """
    found: list[SourceText] = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        if len(found) == count:
            break
        text = path.read_text(encoding="utf-8", errors="ignore")
        data = b"".join(map(vocabulary.token_bytes, vocabulary.encode(text[: 12 * tokens])[:tokens]))
        begun = data.decode("utf-8", "ignore")
        if len(vocabulary.encode(begun)) == tokens and len(text) >= len(begun) + rest and text.startswith(begun):
            found.append(SourceText(name=path.name, text=begun, rest=text[len(begun) : len(begun) + rest]))
    if len(found) < count:
        raise EvaluationFailed(f"found {len(found)} files of {tokens} tokens in Python's library, {count} are needed")
    return found
