"""How a prompt is laid out for the model. Knows nothing of tokenizers or editors."""

from __future__ import annotations

from dataclasses import dataclass


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
