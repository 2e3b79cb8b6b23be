"""Detokenizer and stop scanner against naive oracles that see the whole text at once, under random chunkings."""

from __future__ import annotations

import itertools
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from decoding.detokenizer import Detokenizer
from decoding.stopping import FinishReason, StopRules, StopScanner

END, STOP = 1000, 1001


@given(pieces=st.lists(st.binary(max_size=5), max_size=12))
@settings(max_examples=300, deadline=None)
def test_any_bytes_in_any_pieces_decode_as_the_whole(pieces: list[bytes]) -> None:
    detokenizer = Detokenizer(pieces.__getitem__)
    joined = "".join(detokenizer.push(token) for token in range(len(pieces))) + detokenizer.flush()
    assert joined == b"".join(pieces).decode(errors="replace")


@given(text=st.text(max_size=20), data=st.data())
@settings(max_examples=200, deadline=None)
def test_valid_text_cut_anywhere_never_shows_a_replacement(text: str, data: st.DataObject) -> None:
    whole = text.encode()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=8)) | {0, len(whole)})
    pieces = [whole[start:end] for start, end in itertools.pairwise(cuts)] or [b""]
    detokenizer = Detokenizer(pieces.__getitem__)
    shown = ""
    for token in range(len(pieces)):
        shown += detokenizer.push(token)
        assert text.startswith(shown)
    assert shown + detokenizer.flush() == text


def whole_text_oracle(pieces: list[bytes | int], rules: StopRules) -> tuple[str, FinishReason | None, int]:
    """After each token look at the whole text so far from its beginning; the leftmost event ends it."""

    def events(text: str) -> list[tuple[int, int, FinishReason]]:
        found = [(text.find(string), 0, FinishReason.STOP_STRING) for string in rules.strings if string in text]
        breaks = [match.start() for match in re.finditer("\r\n|\r|\n", text)]
        if rules.max_lines and len(breaks) >= rules.max_lines:
            found.append((breaks[rules.max_lines - 1], 1, FinishReason.LINE_LIMIT))
        return found

    raw = b""
    emitted = 0
    for piece in pieces:
        limit = None
        if isinstance(piece, int):
            limit = FinishReason.END_OF_TEXT if piece == END else FinishReason.STOP_TOKEN
        else:
            raw += piece
            emitted += 1
            # Without its unfinished last character, which the scanner can't show yet.
            decoder_view = raw.decode(errors="replace")
            for missing in (1, 2, 3):
                tail = raw[len(raw) - missing :]
                if len(tail) == missing and unfinished(tail):
                    decoder_view = raw[: len(raw) - missing].decode(errors="replace")
            if found := events(decoder_view):
                place, _, reason = min(found)
                return decoder_view[:place], reason, emitted
            if emitted == rules.max_tokens:
                limit = FinishReason.TOKEN_LIMIT
        if limit is not None:
            text = raw.decode(errors="replace")
            if found := events(text):
                place, _, reason = min(found)
                return text[:place], reason, emitted
            return text, limit, emitted
    return raw.decode(errors="replace"), None, emitted


def unfinished(tail: bytes) -> bool:
    """Whether these bytes are a proper beginning of some character's UTF-8: more bytes make one character of them."""
    nexts = (0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF)  # the borders of what may follow a first byte
    endings = [bytes([first, *(0x80,) * more]) for first in nexts for more in range(3)]
    return bool(tail) and not is_whole(tail) and any(is_character(tail + ending) for ending in endings)


def is_character(spelled: bytes) -> bool:
    return is_whole(spelled) and len(spelled.decode()) == 1


def is_whole(tail: bytes) -> bool:
    try:
        tail.decode()
    except UnicodeDecodeError:
        return False
    return True


ALPHABET = ["a", "b", "c", "\n", "\r", "é", "🙂"]
PIECES = st.one_of(
    st.text(ALPHABET, max_size=4).map(str.encode),
    st.sampled_from(["é".encode()[:1], "é".encode()[1:], "🙂".encode()[:2], "🙂".encode()[2:], b"\xff", b""]),
)
RULES = st.builds(
    StopRules,
    max_tokens=st.integers(1, 12),
    max_lines=st.integers(0, 3),
    token_ids=st.just((STOP,)),
    strings=st.lists(st.text([*ALPHABET, "\ufffd"], min_size=1, max_size=4), max_size=3).map(tuple),
)


@given(pieces=st.lists(PIECES, max_size=12), ending=st.sampled_from([(), (END,), (STOP,)]), rules=RULES)
@settings(max_examples=1500, deadline=None)
def test_the_scanner_agrees_with_the_whole_text(pieces: list[bytes], ending: tuple[int, ...], rules: StopRules) -> None:
    stream: list[bytes | int] = [*pieces, *ending]
    scanner = StopScanner(rules, token_bytes=pieces.__getitem__, end_of_text={END})
    shown = ""
    for token, piece in enumerate(stream):
        scanned = scanner.push(piece if isinstance(piece, int) else token)
        shown += scanned.text
        if scanned.finish:
            break
    finish, emitted = scanner.finish, scanner.emitted_tokens
    oracle_text, oracle_finish, oracle_emitted = whole_text_oracle(stream, rules)
    assert (finish, emitted) == (oracle_finish, oracle_emitted)
    if finish is None:
        shown += scanner.flush(FinishReason.CLOSED)
        if scanner.finish is FinishReason.STOP_STRING:  # completed by the replacement of a half character
            assert oracle_text.startswith(shown)
            return
    assert shown == oracle_text


@given(pieces=st.lists(PIECES, max_size=10), rules=RULES)
@settings(max_examples=300, deadline=None)
def test_nothing_is_held_that_could_be_shown(pieces: list[bytes], rules: StopRules) -> None:
    """What is held back is always the beginning of a stop string, or half a character."""
    scanner = StopScanner(rules, token_bytes=pieces.__getitem__, end_of_text=())
    detokenizer = Detokenizer(pieces.__getitem__)
    known = shown = ""
    for token in range(len(pieces)):
        known += detokenizer.push(token)
        scanned = scanner.push(token)
        shown += scanned.text
        if scanned.finish:
            return
        held = known[len(shown) :]
        assert known.startswith(shown)
        assert not held or any(string.startswith(held) and string != held for string in rules.strings)
