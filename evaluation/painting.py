"""Completions on a terminal: each token in the colour of who proposed it. Knows nothing of where they come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from lsp_server.suggestion import Piece

TARGET = "target"
_STYLES = {TARGET: "white", "lookup": "green", "ngram": "cyan", "noise": "red"}
_OTHER = "magenta"


def style_of(source: str) -> str:
    return _STYLES.get(source, _OTHER)


def painted(pieces: Iterable[Piece], *, limit: int | None = None) -> Text:
    """The pieces' text, its first `limit` characters."""
    text = Text(no_wrap=False)
    left = limit
    for piece in pieces:
        shown = piece.text if left is None else piece.text[:left]
        text.append(shown, style=style_of(piece.source))
        if left is not None:
            left -= len(shown)
    return text


def legend(sources: Sequence[str]) -> Text:
    """Which colour stands for whom; each source once, in order of appearance."""
    text = Text()
    for source in dict.fromkeys(sources):
        text.append("■ ", style=style_of(source))
        text.append(f"{source}  ", style="dim")
    text.rstrip()
    return text
