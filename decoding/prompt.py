"""How a prompt is laid out for the model. Knows nothing of tokenizers or editors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from decoding.errors import InvalidSetting

Encode = Callable[[str], Sequence[int]]

SUFFIX_SHARE = 4  # the suffix is sure of one token in so many, and gets more where the prefix is short
FIRST_WINDOW = 6  # characters encoded for a token of the budget; code has three to four
LAST_WINDOW = 48  # and at most, where tokens turn out long


@dataclass(frozen=True, slots=True, kw_only=True)
class FimTemplate:
    """A model's fill-in-the-middle markers, each a single token id.

    The prompt is prefix_id, prefix, suffix_id, suffix, middle_id; with `suffix_first` it is suffix_id, suffix,
    prefix_id, prefix, middle_id.
    """

    prefix_id: int
    suffix_id: int
    middle_id: int
    suffix_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What the model may know of a place in a file.

    prefix, suffix: the text before and after the cursor.
    language: language id as LSP spells it.
    path: for whoever chooses by it; not shown to the model.
    neighbours: texts from elsewhere that may help, nearest first; used where budget is left over.
    """

    prefix: str
    suffix: str
    language: str
    path: str
    neighbours: tuple[str, ...] = ()


def assemble(
    prompt: Prompt, encode: Encode, template: FimTemplate | None, budget_tokens: int, bos: int | None
) -> tuple[int, ...]:
    """The prompt's token ids: 1 to `budget_tokens` of them, cut at their far ends, between tokens.

    encode: text to ids, without any special ids of its own.
    template: None lays out the prefix alone, neighbours before it; so does a budget that can't hold the markers.
    bos: the id that the model wants first, None for none.

    Raises InvalidSetting for a budget that can't hold one token beside `bos`.
    """
    head = () if bos is None else (bos,)
    room = budget_tokens - len(head)
    if room < 1:
        raise InvalidSetting("prompt.budget_tokens", f"must be {len(head) + 1} or more, got {budget_tokens}")
    if template is None or room < 4:
        prefix = _last(prompt.prefix, encode, room)
        if not head and not prefix:
            # The model needs something to continue; at the start of a file that is a line's start.
            prefix = tuple(encode("\n"))[-room:]
            if not prefix:
                raise InvalidSetting("prompt.prefix", "is empty, and the tokenizer makes no token of a line break")
        return head + _before(prompt.neighbours, encode, room - len(prefix)) + prefix
    room -= 3
    prefix = _last(prompt.prefix, encode, room)
    suffix = _first(prompt.suffix, encode, room)
    suffix = suffix[: max(room - len(prefix), room // SUFFIX_SHARE)]
    prefix = prefix[max(0, len(prefix) + len(suffix) - room) :]
    prefix = _before(prompt.neighbours, encode, room - len(prefix) - len(suffix)) + prefix
    before = (template.prefix_id, *prefix)
    after = (template.suffix_id, *suffix)
    return head + (after + before if template.suffix_first else before + after) + (template.middle_id,)


def _last(text: str, encode: Encode, limit: int) -> tuple[int, ...]:
    """The last `limit` tokens of a text, of which only as much is encoded as that takes."""
    window = limit * FIRST_WINDOW
    while True:
        whole = len(text) <= window
        start = 0 if whole else len(text) - window
        if start and text[start - 1] != "\n":
            # A line's start encodes as it would in the whole text; a window of long lines has to do without.
            start = text.find("\n", start, start + window // 2) + 1 or start
        ids = tuple(encode(text[start:]))
        if whole or len(ids) >= limit or window >= limit * LAST_WINDOW:
            return ids[-limit:] if limit else ()
        window *= 2


def _first(text: str, encode: Encode, limit: int) -> tuple[int, ...]:
    """The first `limit` tokens of a text, likewise."""
    window = limit * FIRST_WINDOW
    while True:
        whole = len(text) <= window
        end = len(text) if whole else text.rfind("\n", window // 2, window) + 1 or window
        ids = tuple(encode(text[:end]))
        if whole or len(ids) >= limit or window >= limit * LAST_WINDOW:
            return ids[:limit]
        window *= 2


def _before(neighbours: tuple[str, ...], encode: Encode, room: int) -> tuple[int, ...]:
    """The heads of neighbours in what room is left, the nearest next to the prefix."""
    placed: tuple[int, ...] = ()
    for text in neighbours:
        left = room - len(placed)
        if left < 1:
            break
        placed = _first(text if text.endswith("\n") else text + "\n", encode, left) + placed
    return placed
