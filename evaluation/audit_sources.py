"""Real files for the audit to cut prompts from: which there are, and their texts. Knows nothing of cases or models.

Without a network these are the examples, Python's own library and the installed packages, and whatever the user names.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from drafts.languages import BY_EXTENSION
from evaluation.errors import EvaluationFailed
from evaluation.scenes import EXAMPLES

LANGUAGES = ("python", "javascript", "rust", "go", "haskell")
LEAST_BYTES = 1024  # too little to cut anywhere in
MOST_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One file's text. name: its path from the folder that it was found under, that folder's own name included."""

    language: str
    name: str
    text: str


def usual_places() -> tuple[Path, ...]:
    """Where this machine is sure to hold sources."""
    return EXAMPLES, Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib"))


def choose_sources(places: Iterable[Path], *, seed: int, most: int) -> Mapping[str, tuple[Source, ...]]:
    """At most `most` files of each language, in an order that is the seed's: a smaller `most` gives the first of them.

    Files that are no text, too short or too long are passed over. Raises EvaluationFailed where a language has none.
    """
    found: dict[str, dict[Path, str]] = {language: {} for language in LANGUAGES}
    for place in places:
        for path, name in _files(place):
            language = BY_EXTENSION.get(path.suffix[1:].lower())
            if language in found:
                found[language].setdefault(path.resolve(), name)
    chosen = {language: _readable(language, files, seed, most) for language, files in found.items()}
    lacking = [language for language, sources in chosen.items() if not sources]
    if lacking:
        raise EvaluationFailed(f"no source files were found in {', '.join(lacking)}; name files or folders with some")
    return chosen


def _readable(language: str, files: Mapping[Path, str], seed: int, most: int) -> tuple[Source, ...]:
    ordered = sorted(files.items(), key=lambda entry: entry[1])
    Random(f"{seed}/{language}").shuffle(ordered)  # noqa: S311 - reproducible, not secret
    sources: list[Source] = []
    for path, name in ordered:
        if len(sources) == most:
            break
        text = _text(path)
        if text is not None:
            sources.append(Source(language=language, name=name, text=text))
    return tuple(sources)


def _text(path: Path) -> str | None:
    try:
        if not LEAST_BYTES <= path.stat().st_size <= MOST_BYTES:
            return None
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _files(place: Path) -> Iterator[tuple[Path, str]]:
    """Every file under a place, or the place itself, with its name."""
    if place.is_file():
        yield place, place.name
        return
    for folder, inner, files in os.walk(place):
        inner[:] = [name for name in inner if not _hidden(name)]
        for name in files:
            path = Path(folder, name)
            yield path, str(Path(place.resolve().name) / path.relative_to(place))


def _hidden(folder: str) -> bool:
    return folder.startswith(".") or folder == "__pycache__"


def counts(sources: Mapping[str, Sequence[Source]]) -> dict[str, int]:
    """How many files each language has."""
    return {language: len(files) for language, files in sources.items()}
