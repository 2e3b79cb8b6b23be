"""What makes two tokenizers the same, as named digests. Knows nothing of encoding.

Everything that decides which ids a text gets, or which text an id gets, counts. What doesn't: the order of JSON keys,
the padded size of an embedding, and whether an added token is also listed in the model's own vocabulary.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

PARTS = ("vocabulary", "merges", "added tokens", "special ids", "normaliser", "pre-tokenizer", "model options")
_FREE_OPTIONS = frozenset({"vocab", "merges", "dropout"})  # dropout is never applied: encoding is deterministic


def parts_of(tokenizer: Mapping[str, object], special_ids: Mapping[str, object]) -> dict[str, str]:
    """A digest (16 hex digits) for each of PARTS, from a parsed tokenizer.json and the special ids read beside it."""
    model = tokenizer["model"]
    added = tokenizer.get("added_tokens") or []
    if not isinstance(model, Mapping) or not isinstance(added, list):
        raise TypeError("not a parsed tokenizer.json")
    added_texts = {token["content"] for token in added}
    own = sorted((index, text) for text, index in model["vocab"].items() if text not in added_texts)
    options = {key: value or None for key, value in model.items() if key not in _FREE_OPTIONS}
    contents: dict[str, object] = {
        "vocabulary": own,
        "merges": [merge.split(" ", 1) if isinstance(merge, str) else merge for merge in model.get("merges", ())],
        "added tokens": sorted(added, key=lambda token: int(token["id"])),
        "special ids": special_ids,
        "normaliser": tokenizer.get("normalizer"),
        "pre-tokenizer": _without_offsets(tokenizer.get("pre_tokenizer")),
        "model options": {key: value for key, value in options.items() if value is not None},
    }
    return {part: _digest(contents[part])[:16] for part in PARTS}


def combined(parts: Mapping[str, str]) -> str:
    """One fingerprint, 64 hex digits, of all parts."""
    return _digest([[part, parts[part]] for part in PARTS])


def difference(expected: Mapping[str, str], got: Mapping[str, str]) -> str:
    """The parts that differ, in words for an error message; "" where none does."""
    return ", ".join(part for part in sorted({*expected, *got}) if expected.get(part) != got.get(part))


def _without_offsets(component: object) -> object:
    """Without the options that concern character offsets alone, which releases of the libraries write differently."""
    if isinstance(component, Mapping):
        return {key: _without_offsets(value) for key, value in component.items() if key != "trim_offsets"}
    return [_without_offsets(each) for each in component] if isinstance(component, list) else component


def _digest(content: object) -> str:
    canonical = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
