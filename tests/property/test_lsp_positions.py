"""Positions and edits against an oracle that knows only bytes: it walks the encoded text unit by unit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lsp_server.documents import Change, Document
from lsp_server.positions import PositionEncoding, paired, split_line, split_lines, units, without_terminator

ENCODINGS = st.sampled_from(list(PositionEncoding))
PIECES = st.sampled_from(
    ["a", "b ", "\t", "\n", "\r", "\r\n", "\f", "\x0b", "\x85", "\u2028", "\u2029", "\x1c", "é", "e\u0301", "漢", "字",
     "😀", "👩\u200d👩\u200d👧", "\u00a0", "\ufeff", "z"]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=14).map("".join)
NUMBERS = st.integers(0, 12)
CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


def oracle_offset(text: str, line: int, character: int, encoding: str) -> int:
    """The index in `text`, found by walking it once: break by break, then unit by unit."""
    index = 0
    for _ in range(line):
        while index < len(text) and text[index] not in "\r\n":
            index += 1
        if index == len(text):
            return index  # a line past the end is the end
        index += 2 if text[index : index + 2] == "\r\n" else 1
    codec, width = CODECS[encoding]
    left = character
    while index < len(text) and text[index] not in "\r\n":
        left -= len(text[index].encode(codec)) // width
        if left < 0:
            break
        index += 1
    return index


def on_boundary(text: str, line: int, character: int, encoding: str) -> bool:
    index = oracle_offset(text, line, character, encoding)
    start = oracle_offset(text, line, 0, encoding)
    codec, width = CODECS[encoding]
    at_end = index == len(text) or text[index] in "\r\n"
    return at_end or len(text[start:index].encode(codec)) // width == character


@given(TEXTS)
def test_lines_join_to_the_text_and_break_only_where_lsp_says(text: str) -> None:
    lines = split_lines(text)
    assert "".join(lines) == text

    assert [without_terminator(line) for line in lines] == text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


@given(TEXTS, NUMBERS, NUMBERS, ENCODINGS)
def test_a_position_is_where_the_oracle_says(text: str, line: int, character: int, encoding: PositionEncoding) -> None:
    lines = split_lines(text)
    if line >= len(lines) or not on_boundary(text, line, character, encoding):
        return
    before, after = split_line(lines[line], character, encoding)
    assert before + after == lines[line]
    assert len("".join(lines[:line]) + before) == oracle_offset(text, line, character, encoding)


@given(TEXTS, NUMBERS, ENCODINGS)
def test_a_column_and_its_length_agree(text: str, character: int, encoding: PositionEncoding) -> None:
    for line in split_lines(text):
        before, after = split_line(line, character, encoding)
        assert paired(before + after) == line
        length = units(without_terminator(line), encoding)
        codec, width = CODECS[encoding]
        assert length == len(without_terminator(line).encode(codec)) // width
        if encoding is not PositionEncoding.UTF8:
            assert units(before, encoding) == min(character, length)


EDITS = st.lists(
    st.tuples(st.tuples(NUMBERS, NUMBERS), st.tuples(NUMBERS, NUMBERS), TEXTS) | TEXTS,
    min_size=1,
    max_size=5,
)


@given(TEXTS, EDITS, ENCODINGS)
def test_edits_do_what_the_oracle_does(text: str, edits: list[object], encoding: PositionEncoding) -> None:
    document = Document(uri="file:///a.py", language_id="python", version=0, text=text, max_bytes=10_000)
    changes = []
    expected = text
    for edit in edits:
        if isinstance(edit, str):
            changes.append(Change(text=edit))
            expected = edit
            continue
        start, end, new = edit  # type: ignore[misc]
        start, end = sorted((start, end))
        if not all(on_boundary(expected, *place, encoding) for place in (start, end)):
            continue
        changes.append(Change(text=new, start=start, end=end))
        low, high = (oracle_offset(expected, *place, encoding) for place in (start, end))
        expected = expected[:low] + new + expected[high:]
    document.apply(changes, version=1, encoding=encoding)
    assert document.text() == expected
    assert document.lines() == split_lines(expected)
    assert document.size == len(expected.encode())
    assert document.version == 1


@given(TEXTS, st.data())
def test_edits_in_utf16_may_fall_between_surrogates(text: str, data: st.DataObject) -> None:
    """An editor that diffs by UTF-16 units may replace half a pair; the whole must come out as it has it."""
    line_texts = split_lines(text)
    line = data.draw(st.integers(0, len(line_texts) - 1))
    content = without_terminator(line_texts[line])
    length = units(content, PositionEncoding.UTF16)
    low = data.draw(st.integers(0, length))
    high = data.draw(st.integers(low, length))
    kept = content.encode("utf-16-le")
    document = Document(uri="file:///a.py", language_id="python", version=0, text=text, max_bytes=10_000)
    replaced = kept[2 * low : 2 * high].decode("utf-16-le", "surrogatepass")
    document.apply(
        [Change(text=replaced, start=(line, low), end=(line, high))], version=1, encoding=PositionEncoding.UTF16
    )
    assert document.text() == text


@given(TEXTS, NUMBERS, NUMBERS, st.integers(0, 20), st.integers(0, 20), ENCODINGS)
def test_windows_are_the_text_around_the_position(
    text: str, line: int, character: int, before: int, after: int, encoding: PositionEncoding
) -> None:
    document = Document(uri="file:///a.py", language_id="python", version=0, text=text, max_bytes=10_000)
    lines = split_lines(text)
    window = document.around((line, character), encoding=encoding, before=before, after=after)
    if line >= len(lines):
        assert window is None
        return
    assert window is not None
    if not on_boundary(text, line, character, encoding):
        return
    offset = oracle_offset(text, line, character, encoding)
    assert text[:offset].endswith(window.prefix)
    assert text[offset:].startswith(window.suffix)
    assert len(window.suffix) == min(after, len(text) - offset)
    assert len(window.prefix) == min(before, offset)
    assert window.position == (line, min(character, units(without_terminator(lines[line]), encoding)))
