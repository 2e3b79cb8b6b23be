"""The exact bytes of each token, from its spelling in a tokenizer.json. Knows nothing of encoding or special tokens.

Two families of spelling are known. Byte-level BPE writes each byte as one printable character (the map that GPT-2
introduced). SentencePiece-style BPE writes text, with `▁` for a blank and `<0xNN>` for a byte that it has no token for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

BLANK = "▁"  # SentencePiece's mark for a blank
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class Spelling(StrEnum):
    """How a vocabulary writes bytes as text."""

    BYTE_LEVEL = "byte-level"
    SENTENCEPIECE = "sentencepiece"


def spelling_of(tokenizer: Mapping[str, object]) -> Spelling | None:
    """The spelling that a parsed tokenizer.json uses; None for one whose tokens have no exact bytes."""
    kinds = _component_types(tokenizer.get("decoder")) | _component_types(tokenizer.get("pre_tokenizer"))
    if "ByteLevel" in kinds:
        return Spelling.BYTE_LEVEL
    model = tokenizer.get("model")
    byte_fallback = isinstance(model, Mapping) and bool(model.get("byte_fallback"))
    if byte_fallback or "Metaspace" in kinds or "ByteFallback" in kinds:
        return Spelling.SENTENCEPIECE
    return None


def bytes_of(token: str, spelling: Spelling) -> bytes:
    """The bytes that a token of the model's own vocabulary stands for."""
    if spelling is Spelling.BYTE_LEVEL:
        if all(character in _BYTE_OF_CHARACTER for character in token):
            return bytes(_BYTE_OF_CHARACTER[character] for character in token)
        return token.encode()  # outside of the map: spelled as it reads
    if byte := _BYTE_TOKEN.fullmatch(token):
        return bytes([int(byte[1], 16)])
    return token.replace(BLANK, " ").encode()


def _component_types(component: object) -> set[str]:
    """Types of a tokenizer component and of everything nested in it."""
    if isinstance(component, Mapping):
        own = {component["type"]} if isinstance(component.get("type"), str) else set()
        return own.union(*(_component_types(value) for value in component.values()))
    if isinstance(component, list):
        return set().union(*(_component_types(value) for value in component))
    return set()


def _byte_of_character() -> dict[str, int]:
    """Printable Latin-1 stands for itself; the other bytes, in order, for the characters from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(256) if byte not in printable)
    return {chr(byte): byte for byte in printable} | {chr(0x100 + n): byte for n, byte in enumerate(others)}


_BYTE_OF_CHARACTER = _byte_of_character()
