"""The target's tokenizer as both sides see it: text to ids, ids to exact bytes, and what binds drafts to it.

It is built from the bytes of a model folder's tokenizer files alone, so that a client that was sent the files has the
very same vocabulary. It must not know of models, hubs or sockets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tokenizers import Tokenizer

from decoding.prompt import FimTemplate
from drafts import fingerprint
from drafts.errors import UnusableVocabulary
from drafts.token_bytes import Spelling, bytes_of, spelling_of

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json")
MAX_FILE_BYTES = 128 * 2**20
_CONFIG_KEYS = ("eos_token_id", "bos_token_id")  # all that is kept of config.json

# Prefix, suffix and middle marker, in the spellings of Qwen2.5-Coder and CodeGemma, StarCoder2, DeepSeek, CodeLlama.
_FIM_SPELLINGS = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
    ("▁<PRE>", "▁<SUF>", "▁<MID>"),
)
# What ends a text whatever the configuration says. A file separator starts another file, so it ends this one.
_KNOWN_ENDS = frozenset(
    {"<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>", "</s>", "<eos>", "<EOT>", "▁<EOT>", "<|EOT|>"}
    | {"<file_sep>", "<|file_sep|>", "<|file_separator|>"}
)
# Some tokenizers (Qwen) don't flag their markers as special; nobody means these shapes as text to be emitted.
_MARKER_SHAPE = re.compile(r"<[|｜][^<>]+[|｜]>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """One tokenizer, immutable. Build it with `load` or `from_files`.

    size: one more than the highest token id; a model's logits may have more rows (padding), whose ids have no text.
    end_of_text_ids: ascending ids that end a text.
    begin_of_text_id: only where the tokenizer itself starts every text with it.
    control_ids: tokens that are no text: `token_bytes` gives b"" and `encode` never yields them.
    files: what `from_files` needs to build the same again, by file name.
    """

    size: int
    end_of_text_ids: tuple[int, ...]
    begin_of_text_id: int | None
    fim: FimTemplate | None
    control_ids: frozenset[int]
    files: Mapping[str, bytes] = field(repr=False)
    _parts: Mapping[str, str] = field(repr=False)
    _token_bytes: tuple[bytes, ...] = field(repr=False)
    _encoder: Tokenizer = field(repr=False, compare=False)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a model folder. Raises UnusableVocabulary."""
        files = {}
        for name in (*TOKENIZER_FILES, "config.json"):
            path = folder / name
            try:
                if path.stat().st_size > MAX_FILE_BYTES:
                    raise UnusableVocabulary(name, f"is over {MAX_FILE_BYTES} bytes")
                files[name] = path.read_bytes()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise UnusableVocabulary(name, f"can't be read: {error.strerror}") from error
        return cls.from_files(files)

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Self:
        """Build from file contents by name; only tokenizer.json is required. Raises UnusableVocabulary."""
        known = {name: files[name] for name in TOKENIZER_FILES if name in files}
        if "tokenizer.json" not in known:
            raise UnusableVocabulary("tokenizer.json", "is missing: the model needs a tokenizer of the fast kind")
        config = _parse("config.json", files.get("config.json", b"{}"))
        kept = {key: config[key] for key in _CONFIG_KEYS if config.get(key) is not None}
        known["config.json"] = json.dumps(kept, sort_keys=True).encode()
        try:
            return cls(files=known, **_read(known))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise UnusableVocabulary("tokenizer.json", f"is not one that can be read ({error})") from error

    @property
    def fingerprint(self) -> str:
        """64 hex digits; equal for two tokenizers exactly when ids and text mean the same to both."""
        return fingerprint.combined(self._parts)

    def fingerprint_parts(self) -> Mapping[str, str]:
        """A digest for each part that the fingerprint covers, by the part's name."""
        return dict(self._parts)

    def difference(self, other_parts: Mapping[str, str]) -> str:
        """Which parts differ from another tokenizer's `fingerprint_parts()`, in words; "" where none does."""
        return fingerprint.difference(self._parts, other_parts)

    def encode(self, text: str) -> tuple[int, ...]:
        """Ids of a text, nothing added; text that reads like a special token is encoded as the text it is.

        A lone surrogate, which no encoding can carry, becomes U+FFFD.
        """
        clean = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace") if not text.isascii() else text
        return tuple(self._encoder.encode(clean, add_special_tokens=False).ids)

    def decode(self, ids: Iterable[int]) -> str:
        """The tokens' bytes as text; what isn't UTF-8 becomes U+FFFD. Unlike others', it strips no leading blank."""
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", "replace")

    def token_bytes(self, token: int) -> bytes:
        """The exact bytes of one token; b"" for special tokens and for ids that are padding."""
        return self._token_bytes[token] if 0 <= token < self.size else b""


def _read(files: Mapping[str, bytes]) -> dict[str, Any]:
    """The fields of a Vocabulary, from its files."""
    tokenizer = _parse("tokenizer.json", files["tokenizer.json"])
    configs = {name: _parse(name, data) for name, data in files.items() if name != "tokenizer.json"}
    model = tokenizer["model"]
    if model.get("type", "BPE") != "BPE":
        raise UnusableVocabulary("tokenizer.json", f"holds a {model['type']} model; only BPE is byte-exact")
    spelling = spelling_of(tokenizer)
    if spelling is None:
        raise UnusableVocabulary(
            "tokenizer.json", "is neither byte-level nor SentencePiece-style: tokens have no bytes"
        )

    added = {token["content"]: token for token in tokenizer.get("added_tokens") or ()}
    ids: dict[str, int] = model["vocab"] | {text: token["id"] for text, token in added.items()}
    fim = next((found for spellings in _FIM_SPELLINGS if (found := _fim(ids, spellings))), None)
    control = {text for text, token in added.items() if token["special"] or _MARKER_SHAPE.fullmatch(text)}
    control |= {text for spellings in _FIM_SPELLINGS for text in spellings if text in ids}
    ends = _end_of_text_ids(ids, control, configs)

    texts = [b""] * (max(ids.values()) + 1)
    for text, token_id in ids.items():
        if text not in control and token_id not in ends:
            as_read = text in added and spelling is Spelling.BYTE_LEVEL  # matched before text becomes bytes
            texts[token_id] = text.encode() if as_read else bytes_of(text, spelling)
    special = {"end": ends, "begin": _begin_of_text_id(ids, tokenizer, configs), "unknown": model.get("unk_token")}
    special["fim"] = None if fim is None else [fim.prefix_id, fim.suffix_id, fim.middle_id, fim.suffix_first]
    return {
        "size": len(texts),
        "end_of_text_ids": ends,
        "begin_of_text_id": special["begin"],
        "fim": fim,
        "control_ids": frozenset({ids[text] for text in control}.union(ends)),
        "_parts": fingerprint.parts_of(tokenizer, special),
        "_token_bytes": tuple(texts),
        "_encoder": _encoder(tokenizer, control | {text for text, token_id in ids.items() if token_id in ends}),
    }


def _encoder(tokenizer: Mapping[str, Any], control: set[str]) -> Tokenizer:
    """A tokenizer that can't yield control tokens, since it doesn't have them."""
    model = tokenizer["model"]
    gone = control - {model.get("unk_token")}  # BPE needs its unknown token; only an unknown character yields it
    pairs = (merge.split(" ", 1) if isinstance(merge, str) else merge for merge in model["merges"])
    kept_added = [token for token in tokenizer.get("added_tokens") or () if token["content"] not in control]
    # The library numbers added tokens anew, from the model's size on, unless the model's vocabulary has them.
    numbered = {token["content"]: token["id"] for token in kept_added}
    kept_model = model | {
        "vocab": {text: token_id for text, token_id in model["vocab"].items() if text not in gone} | numbered,
        "merges": [(a, b) for a, b in pairs if not (a in gone or b in gone or a + b in gone)],
        "dropout": None,
    }
    changes = {"model": kept_model, "added_tokens": kept_added}
    silenced = {"post_processor": None, "padding": None, "truncation": None}
    try:
        return Tokenizer.from_str(json.dumps({**tokenizer, **changes, **silenced}))
    except Exception as error:  # the library raises bare Exception
        raise UnusableVocabulary("tokenizer.json", f"is refused by the tokenizers library: {error}") from error


def _fim(ids: Mapping[str, int], spellings: tuple[str, str, str]) -> FimTemplate | None:
    if any(text not in ids for text in spellings):
        return None
    prefix, suffix, middle = (ids[text] for text in spellings)
    return FimTemplate(prefix_id=prefix, suffix_id=suffix, middle_id=middle)


def _end_of_text_ids(
    ids: Mapping[str, int], control: set[str], configs: Mapping[str, Mapping[str, Any]]
) -> tuple[int, ...]:
    ends = {ids[text] for text in control & _KNOWN_ENDS}
    for name in ("config.json", "generation_config.json"):
        stated = configs.get(name, {}).get("eos_token_id")
        ends.update(stated if isinstance(stated, list) else () if stated is None else (stated,))
    ends.add(ids.get(_special_text("eos_token", configs), -1))
    return tuple(sorted(end for end in ends if 0 <= end <= max(ids.values())))


def _begin_of_text_id(
    ids: Mapping[str, int], tokenizer: Mapping[str, Any], configs: Mapping[str, Mapping[str, Any]]
) -> int | None:
    """The id that the tokenizer puts before every text: by its own setting, else by its post-processor's template."""
    setting = configs.get("tokenizer_config.json", {}).get("add_bos_token")
    if setting is not None:
        return ids.get(_special_text("bos_token", configs)) if setting else None
    processor = tokenizer.get("post_processor") or {}
    for step in processor.get("processors", [processor]):
        first = (step.get("single") or [{}])[0] if step.get("type") == "TemplateProcessing" else {}
        if "SpecialToken" in first:
            return ids.get(first["SpecialToken"]["id"])
    return None


def _special_text(name: str, configs: Mapping[str, Mapping[str, Any]]) -> str:
    """The spelling of a named special token; "" where no file names it."""
    for file in ("tokenizer_config.json", "special_tokens_map.json"):
        stated = configs.get(file, {}).get(name)
        if stated:
            return str(stated["content"]) if isinstance(stated, dict) else str(stated)
    return ""


def _parse(name: str, data: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(data)
    except ValueError as error:
        raise UnusableVocabulary(name, "is not valid JSON: the file is damaged, fetch the model again") from error
    if not isinstance(parsed, dict):
        raise UnusableVocabulary(name, "must hold a JSON object")
    return parsed
