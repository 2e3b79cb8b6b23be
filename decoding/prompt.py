"""How a prompt is laid out for the model. Knows nothing of tokenizers or editors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from decoding.errors import InvalidSetting

Encode = Callable[[str], Sequence[int]]

SUFFIX_SHARE = 4  # the suffix is sure of one token in so many, and gets more where the prefix is short
FIRST_WINDOW = 6  # characters encoded for a token of the budget; code has three to four
LAST_WINDOW = 48  # and at most, where tokens turn out long
STEPS = 8  # a prompt that is cut begins at the same token until an eighth of the budget has been typed


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

    Where the prefix is too long, it is cut at a place that moves in steps, not with every keystroke; so a target that
    keeps what it computed for a prompt's beginning can use it again.

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
        prefix = _fitted(_tail(prompt.prefix, encode, room), prompt.neighbours, encode, room)
        if head or prefix:
            return head + prefix
        # The model needs something to continue; at the start of a file that is a line's start.
        line_break = tuple(encode("\n"))[-room:]
        if not line_break:
            raise InvalidSetting("prompt.prefix", "is empty, and the tokenizer makes no token of a line break")
        return line_break
    room -= 3
    prefix = _tail(prompt.prefix, encode, room)
    suffix = _head(prompt.suffix, encode, max(room - len(prefix), room // SUFFIX_SHARE))
    before = (template.prefix_id, *_fitted(prefix, prompt.neighbours, encode, room - len(suffix)))
    after = (template.suffix_id, *suffix)
    return head + (after + before if template.suffix_first else before + after) + (template.middle_id,)


def _fitted(ids: tuple[int, ...], neighbours: tuple[str, ...], encode: Encode, room: int) -> tuple[int, ...]:
    """The prefix cut to its last `room` tokens or a few less; or all of it, after what fits of the neighbours."""
    step = max(1, room // STEPS)
    excess = len(ids) - room
    if excess > 0:
        return ids[-(-excess // step) * step :]
    left = -excess // step * step
    placed: tuple[int, ...] = ()
    for text in neighbours:
        if len(placed) < left:
            placed = _head(text if text.endswith("\n") else text + "\n", encode, left - len(placed)) + placed
    return placed + ids


def _tail(text: str, encode: Encode, limit: int) -> tuple[int, ...]:
    """The last tokens of a text, `limit` and some more where it has them, encoded from the start of a line."""
    window = limit * FIRST_WINDOW
    while True:
        step = max(1, window // 2)
        start = max(0, len(text) - window) // step * step
        if start and text[start - 1] != "\n":
            # A line's start encodes as it would in the whole text; a window of long lines has to do without.
            start = text.find("\n", start, start + step) + 1 or start
        ids = tuple(encode(text[start:]))
        if not start or len(ids) >= limit or window >= limit * LAST_WINDOW:
            return ids
        window *= 2


def _head(text: str, encode: Encode, limit: int) -> tuple[int, ...]:
    """The first `limit` tokens of a text, of which only as much is encoded as that takes."""
    window = limit * FIRST_WINDOW
    while True:
        whole = len(text) <= window
        end = len(text) if whole else text.rfind("\n", window // 2, window) + 1 or window
        ids = tuple(encode(text[:end]))
        if whole or len(ids) >= limit or window >= limit * LAST_WINDOW:
            return ids[:limit]
        window *= 2
