"""The prompts that every engine gets: cut from real source files that stand on every machine, as ids of one tokenizer.

Four languages are cut from `examples/`, at even distances; Python from its own standard library, once a file.
Knows nothing of engines.
"""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from drafts.vocabulary import Vocabulary
from evaluation.errors import EvaluationFailed

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = {
    "go": "logparser.go",
    "haskell": "Algebra.hs",
    "javascript": "validator.js",
    "rust": "expression.rs",
}
LIBRARY = ("argparse.py", "csv.py", "fractions.py", "shutil.py", "textwrap.py", "zipfile.py")
WARMING = ("calendar.py", "configparser.py", "difflib.py", "gettext.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """name: file and the token in it that the prompt ends before."""

    language: str
    name: str
    tokens: tuple[int, ...]


def prompts(vocabulary: Vocabulary, *, count: int, prompt_tokens: int, new_tokens: int) -> tuple[Prompt, ...]:
    """So many prompts, the languages by turns. Raises EvaluationFailed where the files are too short or missing."""
    each = -(-count // (len(FILES) + 1))
    room = {"prompt_tokens": prompt_tokens, "new_tokens": new_tokens}
    cut = [_cuts(vocabulary, EXAMPLES / file, language, count=each, **room) for language, file in FILES.items()]
    per_file = -(-each // len(LIBRARY))
    library = [_cuts(vocabulary, _library(file), "python", count=per_file, **room) for file in LIBRARY]
    cut.append([prompt for turn in zip(*library, strict=True) for prompt in turn][:each])
    return tuple(chain.from_iterable(zip(*cut, strict=True)))[:count]


def warming_prompts(vocabulary: Vocabulary, *, prompt_tokens: int, new_tokens: int) -> tuple[Prompt, ...]:
    """Prompts of other files, for what comes before the measurement."""
    room = {"prompt_tokens": prompt_tokens, "new_tokens": new_tokens}
    return tuple(_cuts(vocabulary, _library(file), "python", count=1, **room)[0] for file in WARMING)


def digest(given: Sequence[Prompt]) -> str:
    """What makes two runs' prompts the same: 16 hex digits over their ids, in order."""
    return hashlib.sha256(repr([prompt.tokens for prompt in given]).encode()).hexdigest()[:16]


def cut_positions(length: int, *, count: int, prompt_tokens: int, new_tokens: int) -> list[int]:
    """Where to cut a file of `length` tokens: `count` different places, evenly spread, with room on both sides.

    Raises ValueError where there is none.
    """
    room = length - new_tokens - prompt_tokens
    if room < count:
        raise ValueError(f"has {length} tokens; {count} prompts of {prompt_tokens} need {prompt_tokens + new_tokens}")
    return [prompt_tokens + room * (2 * number + 1) // (2 * count) for number in range(count)]


def _cuts(
    vocabulary: Vocabulary, path: Path, language: str, *, count: int, prompt_tokens: int, new_tokens: int
) -> list[Prompt]:
    try:
        ids = vocabulary.encode(path.read_text(encoding="utf-8"))
        ends = cut_positions(len(ids), count=count, prompt_tokens=prompt_tokens, new_tokens=new_tokens)
    except (OSError, ValueError) as error:
        raise EvaluationFailed(f"no prompts from {path.name}: {error}") from error
    return [Prompt(language=language, name=f"{path.name}:{end}", tokens=ids[end - prompt_tokens : end]) for end in ends]


def _library(file: str) -> Path:
    folder = Path(sysconfig.get_path("stdlib"))
    package = folder / file.removesuffix(".py") / "__init__.py"  # zipfile is a package since Python 3.12
    return package if package.exists() else folder / file
