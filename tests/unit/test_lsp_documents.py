"""What is kept of open documents, and what isn't."""

from __future__ import annotations

import gc
import weakref

import pytest

from lsp_server.documents import Change, Document, Documents, Silence
from lsp_server.positions import PositionEncoding
from lsp_server.settings import LspSettings

UTF16 = PositionEncoding.UTF16


class Text(str):
    """Text that can be watched."""

    __slots__ = ("__weakref__",)


def documents(**changes: object) -> Documents:
    return Documents(**({"limit": 3, "max_bytes": 100, "private": (".env", "*.pem")} | changes))  # type: ignore[arg-type]


def opened(kept: Documents, name: str, text: str = "a = 1\n", language: str = "python") -> Document:
    return kept.open(uri=f"file:///project/{name}", language_id=language, version=1, text=text)


def test_a_closed_document_is_freed() -> None:
    kept = documents()
    text = Text("a = 1")  # one line: the document keeps this very object
    gone = weakref.ref(text)
    opened(kept, "a.py", text)
    del text
    kept.close("file:///project/a.py")
    gc.collect()
    assert gone() is None
    assert len(kept) == 0
    kept.close("file:///project/a.py")


def test_the_one_not_used_for_longest_makes_room() -> None:
    kept = documents()
    for name in ("a.py", "b.py", "c.py"):
        opened(kept, name)
    kept.get("file:///project/a.py")
    opened(kept, "d.py")
    assert len(kept) == 3
    assert kept.get("file:///project/b.py") is None


@pytest.mark.parametrize(
    ("name", "text", "silence"),
    [
        ("a.py", "x" * 100, None),
        ("a.py", "x" * 101, Silence.TOO_LARGE),
        ("a.py", "漢" * 34, Silence.TOO_LARGE),
        ("a.py", "a\0", Silence.BINARY),
        (".env", "A=1", Silence.PRIVATE),
        ("server.pem", "x", Silence.PRIVATE),
        ("with%20blank/.env", "A=1", Silence.PRIVATE),
    ],
)
def test_silent_documents(name: str, text: str, silence: Silence | None) -> None:
    document = opened(documents(), name, text)
    assert document.silence is silence
    assert bool(document.text()) == (silence in (None, Silence.BINARY))


def test_edits_may_silence_a_document_and_a_whole_new_text_gives_it_its_voice() -> None:
    document = opened(documents(), "a.py", "a\n")
    document.apply([Change(text="\0", start=(0, 1), end=(0, 1))], version=2, encoding=UTF16)
    assert document.silence is Silence.BINARY
    document.apply([Change(text="", start=(0, 1), end=(0, 2))], version=3, encoding=UTF16)
    assert document.silence is None
    document.apply([Change(text="x" * 100, start=(1, 0), end=(1, 0))], version=4, encoding=UTF16)
    assert document.silence is Silence.TOO_LARGE
    document.apply([Change(text="", start=(1, 0), end=(1, 100))], version=5, encoding=UTF16)
    assert (document.silence, document.text(), document.version) == (Silence.TOO_LARGE, "", 5)
    document.apply([Change(text="b\n")], version=6, encoding=UTF16)
    assert (document.silence, document.text()) == (None, "b\n")


def test_others_are_of_the_language_not_silent_and_latest_first() -> None:
    kept = documents(limit=10)
    for name in ("a.py", "b.py", ".env", "d.py"):
        opened(kept, name)
    opened(kept, "e.py", "\0")
    opened(kept, "f.rs", language="rust")
    mine = opened(kept, "g.py")
    kept.get("file:///project/a.py")
    assert [other.path for other in kept.others(mine)] == ["/project/a.py", "/project/d.py", "/project/b.py"]


@pytest.mark.timeout(60)
def test_a_long_line_without_breaks_is_no_trap() -> None:
    """Splitting that is quadratic in a line's length would not end within the limit."""
    text = "x" * 2_000_000
    document = Document(uri="file:///a.js", language_id="javascript", version=1, text=text, max_bytes=2**22)
    document.apply([Change(text="y", start=(0, 5), end=(0, 5))], version=2, encoding=UTF16)
    assert document.text()[5] == "y"


@pytest.mark.parametrize(
    "name", [".env", ".ENV", "prod.env", ".env.local", ".envrc", ".netrc", "server.PEM", "id_ecdsa", "untitled:.env"]
)
def test_what_is_private_by_default(name: str) -> None:
    kept = documents(private=LspSettings().private)
    uri = name if ":" in name else f"file:///project/{name}"
    assert kept.open(uri=uri, language_id="x", version=1, text="KEY=1\n").silence is Silence.PRIVATE


def test_a_uri_that_is_none_opens_a_document_like_others() -> None:
    document = documents().open(uri="http://[bad/a.py", language_id="python", version=1, text="a = 1\n")
    assert (document.silence, document.path) == (None, "http://[bad/a.py")
