"""Moments of typing to complete at: example files, each with a gap where the cursor stands. Reads files, no more.

`cursors.toml` beside the examples says where; see the comment at its top.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from evaluation.errors import UnusableScene
from lsp_server.positions import PositionEncoding, split_lines, units, without_terminator

CURSORS = "cursors.toml"
EXAMPLES = Path(__file__).parent.parent / "examples"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A file as it is while somebody types in it. `prefix` and `suffix`: its text before and after the cursor."""

    language: str
    path: Path
    prefix: str
    suffix: str

    @property
    def text(self) -> str:
        return self.prefix + self.suffix

    @property
    def position(self) -> tuple[int, int]:
        """Line and column as LSP counts them: from 0, in UTF-16 units."""
        lines = split_lines(self.prefix)
        return len(lines) - 1, units(lines[-1], PositionEncoding.UTF16)

    @property
    def name(self) -> str:
        """File and line, for people: "inventory.py:101"."""
        return f"{self.path.name}:{self.position[0] + 1}"


def load_scenes(folder: Path = EXAMPLES) -> tuple[Scene, ...]:
    """All scenes in the order of the file. Raises UnusableScene."""
    path = folder / CURSORS
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))["cursor"]
    except (OSError, ValueError, KeyError) as error:
        raise UnusableScene(
            str(path), f"can't be read ({type(error).__name__}); the examples are part of a source checkout"
        ) from error
    return tuple(_scene(folder, number, entry) for number, entry in enumerate(entries))


def _scene(folder: Path, number: int, entry: dict[str, object]) -> Scene:
    place = f"cursor[{number}]"
    match entry:
        case {"file": str(file), "language": str(language), "after": str(after), "removed_lines": int(removed)}:
            path = folder / file
        case _:
            raise UnusableScene(place, "needs file, language, after and removed_lines")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UnusableScene(f"{place}.file", f"{file} can't be read ({type(error).__name__})") from error
    if text.count(after) != 1:
        raise UnusableScene(f"{place}.after", f"must be found once in {file}, was found {text.count(after)} times")
    end = text.index(after) + len(after)
    rest, *below = split_lines(text[end:])
    if not 0 <= removed <= len(below):
        raise UnusableScene(f"{place}.removed_lines", f"must be from 0 to {len(below)}, got {removed}")
    line_break = rest[len(without_terminator(rest)) :]
    return Scene(language=language, path=path, prefix=text[:end], suffix=line_break + "".join(below[removed:]))
