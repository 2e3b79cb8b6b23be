from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from drafts.errors import UnusableVocabulary
from drafts.fingerprint import PARTS
from drafts.vocabulary import Vocabulary

TEXT = "def f(x):\n\treturn x + 1  # naïve 日本語 🦀\r\n"
QWEN_FIM = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")


@pytest.fixture(scope="module")
def files(tiny_model_folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in tiny_model_folder.glob("*.json")}


def rebuilt(files: dict[str, bytes], tokenizer: dict[str, Any], **others: Any) -> Vocabulary:
    changed = {name: json.dumps(content).encode() for name, content in others.items()}
    return Vocabulary.from_files(files | {"tokenizer.json": json.dumps(tokenizer).encode()} | changed)


def with_tokens(files: dict[str, bytes], *texts: str, special: bool) -> dict[str, Any]:
    tokenizer = json.loads(files["tokenizer.json"])
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": special}
    start = 1 + max(tokenizer["model"]["vocab"].values())
    tokenizer["added_tokens"] += [{"id": start + n, "content": text, **flags} for n, text in enumerate(texts)]
    return tokenizer


def test_it_encodes_and_decodes_as_the_library_does(files: dict[str, bytes]) -> None:
    vocabulary = Vocabulary.from_files(files)
    library = Tokenizer.from_str(files["tokenizer.json"].decode())
    assert list(vocabulary.encode(TEXT)) == library.encode(TEXT, add_special_tokens=False).ids
    assert vocabulary.decode(vocabulary.encode(TEXT)) == TEXT
    assert vocabulary.size == library.get_vocab_size()


def test_ids_without_text_have_no_bytes(files: dict[str, bytes]) -> None:
    vocabulary = Vocabulary.from_files(files)
    end = vocabulary.end_of_text_ids[0]
    assert vocabulary.token_bytes(end) == b""
    assert vocabulary.token_bytes(vocabulary.size) == b""  # a row of padding
    assert vocabulary.token_bytes(-1) == b""
    assert all(vocabulary.token_bytes(token) for token in range(vocabulary.size) if token not in vocabulary.control_ids)


@pytest.mark.parametrize("special", [True, False], ids=["flagged", "not flagged"])
def test_text_that_reads_like_a_marker_is_text(files: dict[str, bytes], special: bool) -> None:
    vocabulary = rebuilt(files, with_tokens(files, *QWEN_FIM, special=special))
    text = f"a <|endoftext|>{QWEN_FIM[0]} b"
    ids = vocabulary.encode(text)
    assert not vocabulary.control_ids.intersection(ids)
    assert vocabulary.decode(ids) == text


def test_an_added_token_that_is_text_stays_one_token(files: dict[str, bytes]) -> None:
    vocabulary = rebuilt(files, with_tokens(files, "<think>", "  éé", special=False))
    for text in ("<think>", "  éé"):
        (token,) = vocabulary.encode(text)
        assert vocabulary.token_bytes(token) == text.encode()


def test_a_lone_surrogate_is_replaced(files: dict[str, bytes]) -> None:
    vocabulary = Vocabulary.from_files(files)
    assert "a" in vocabulary.decode(vocabulary.encode("a\ud800b"))


@pytest.mark.parametrize(
    "spellings",
    [
        QWEN_FIM,
        ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
        ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
        ("▁<PRE>", "▁<SUF>", "▁<MID>"),
    ],
)
def test_fim_markers_are_found(files: dict[str, bytes], spellings: tuple[str, str, str]) -> None:
    tokenizer = with_tokens(files, *spellings, special=True)
    ids = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    fim = rebuilt(files, tokenizer).fim
    assert fim is not None
    assert (fim.prefix_id, fim.suffix_id, fim.middle_id) == tuple(ids[text] for text in spellings)


def test_no_fim_without_all_three_markers(files: dict[str, bytes]) -> None:
    assert Vocabulary.from_files(files).fim is None
    assert rebuilt(files, with_tokens(files, *QWEN_FIM[:2], special=True)).fim is None


def test_every_stated_end_ends(files: dict[str, bytes]) -> None:
    tokenizer = with_tokens(files, "<|im_end|>", "<|file_sep|>", "<eos>", special=True)
    ids = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    others = {
        "generation_config.json": {"eos_token_id": [7, ids["<|im_end|>"]]},
        "config.json": {"eos_token_id": 8, "vocab_size": 999},
        "tokenizer_config.json": {"eos_token": {"content": "<eos>"}},
    }
    vocabulary = rebuilt(files, tokenizer, **others)
    assert vocabulary.end_of_text_ids == tuple(sorted({7, 8, *ids.values()}))
    assert all(vocabulary.token_bytes(end) == b"" for end in vocabulary.end_of_text_ids)


def test_a_beginning_only_where_the_tokenizer_adds_one(files: dict[str, bytes]) -> None:
    tokenizer = with_tokens(files, "<s>", special=True)
    begin = tokenizer["added_tokens"][-1]["id"]
    named = {"bos_token": "<s>"}
    assert rebuilt(files, tokenizer, **{"tokenizer_config.json": named}).begin_of_text_id is None
    added = {"tokenizer_config.json": named | {"add_bos_token": True}}
    assert rebuilt(files, tokenizer, **added).begin_of_text_id == begin
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}]}
    tokenizer["post_processor"] = {"type": "Sequence", "processors": [template]}
    assert rebuilt(files, tokenizer, **{"tokenizer_config.json": named}).begin_of_text_id == begin
    refused = {"tokenizer_config.json": named | {"add_bos_token": False}}
    assert rebuilt(files, tokenizer, **refused).begin_of_text_id is None


def test_its_files_rebuild_it(files: dict[str, bytes], tiny_model_folder: Path) -> None:
    vocabulary = Vocabulary.load(tiny_model_folder)
    again = Vocabulary.from_files(vocabulary.files)
    assert again == vocabulary
    assert again.fingerprint == vocabulary.fingerprint
    assert len(vocabulary.fingerprint) == 64
    assert b"hidden_size" not in vocabulary.files["config.json"]  # only what a tokenizer needs travels


def _swap_ids(tokenizer: dict[str, Any]) -> None:
    vocab = tokenizer["model"]["vocab"]
    first, second = list(vocab)[-2:]
    vocab[first], vocab[second] = vocab[second], vocab[first]


def _swap_merges(tokenizer: dict[str, Any]) -> None:
    merges = tokenizer["model"]["merges"]
    merges[0], merges[1] = merges[1], merges[0]


CHANGES = {
    "vocabulary": _swap_ids,
    "merges": _swap_merges,
    "added tokens": lambda tokenizer: tokenizer["added_tokens"][0].update(lstrip=True),
    "normaliser": lambda tokenizer: tokenizer.update(normalizer={"type": "NFC"}),
    "pre-tokenizer": lambda tokenizer: tokenizer["pre_tokenizer"].update(add_prefix_space=True),
    "model options": lambda tokenizer: tokenizer["model"].update(ignore_merges=True),
}


@pytest.mark.parametrize("part", CHANGES)
def test_a_change_of_any_part_changes_the_fingerprint_and_is_named(files: dict[str, bytes], part: str) -> None:
    before = Vocabulary.from_files(files)
    tokenizer = json.loads(files["tokenizer.json"])
    CHANGES[part](tokenizer)
    after = rebuilt(files, tokenizer)
    assert after.fingerprint != before.fingerprint
    assert before.difference(after.fingerprint_parts()) == part


def test_special_ids_count_in_the_fingerprint(files: dict[str, bytes]) -> None:
    before = Vocabulary.from_files(files)
    after = rebuilt(files, json.loads(files["tokenizer.json"]), **{"generation_config.json": {"eos_token_id": 3}})
    assert before.difference(after.fingerprint_parts()) == "special ids"
    assert set(before.fingerprint_parts()) == set(PARTS) == {*CHANGES, "special ids"}


def _reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed_keys(value[key]) for key in reversed(value)}
    return [_reversed_keys(each) for each in value] if isinstance(value, list) else value


def test_what_means_nothing_leaves_the_fingerprint(files: dict[str, bytes]) -> None:
    before = Vocabulary.from_files(files)
    tokenizer = _reversed_keys(json.loads(files["tokenizer.json"]))
    tokenizer["added_tokens"].reverse()
    tokenizer["padding"] = {
        "strategy": {"Fixed": 8},
        "direction": "Right",
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "x",
    }
    tokenizer["model"]["merges"] = [" ".join(merge) for merge in tokenizer["model"]["merges"]]
    tokenizer["model"]["unk_token"] = None
    tokenizer["pre_tokenizer"]["trim_offsets"] = not tokenizer["pre_tokenizer"].get("trim_offsets")
    for token in tokenizer["added_tokens"]:  # listed in one place or in both
        tokenizer["model"]["vocab"].pop(token["content"], None)
    padded = {"config.json": json.loads(files["config.json"]) | {"vocab_size": 4096}}
    after = rebuilt(files, tokenizer, **padded)
    assert before.difference(after.fingerprint_parts()) == ""
    assert after.fingerprint == before.fingerprint
    assert after.encode(TEXT) == before.encode(TEXT)


def sentencepiece(files: dict[str, bytes]) -> dict[str, Any]:
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b", "▁a", "ab", "\n"]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": 0, "content": "<unk>", "special": True, **flags},
            {"id": len(pieces), "content": "▁▁▁▁", "special": False, **flags},
        ],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {
            "type": "BPE",
            "unk_token": "<unk>",
            "byte_fallback": True,
            "vocab": {piece: index for index, piece in enumerate(pieces)},
            "merges": ["▁ a", "a b"],
        },
    }


def test_sentencepiece_tokens_have_exact_bytes(files: dict[str, bytes]) -> None:
    vocabulary = Vocabulary.from_files({"tokenizer.json": json.dumps(sentencepiece(files)).encode()})
    for text in (" ab\n", "é🦀", "a <unk> b", "a    b"):
        ids = vocabulary.encode(text)
        assert b"".join(map(vocabulary.token_bytes, ids)) == text.encode()
        assert 0 not in ids
    assert vocabulary.token_bytes(1 + 0xE9) == b"\xe9"
    assert vocabulary.token_bytes(vocabulary.size - 1) == b"    "


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "tokenizer.json"),
        (b"{", "damaged"),
        (b"[]", "object"),
        (b"{}", "can be read"),
        (b'{"model": {"type": "WordPiece", "vocab": {}}}', "WordPiece"),
        (b'{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}', "no bytes"),
        (b'{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a"]]}, "decoder": {"type": "ByteLevel"}}', "read"),
        (b'{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "decoder": {"type": "ByteLevel"}}', "refused"),
    ],
)
def test_unusable_files_are_refused_with_a_reason(content: bytes, said: str) -> None:
    with pytest.raises(UnusableVocabulary, match=said):
        Vocabulary.from_files({"tokenizer.json": content})


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableVocabulary, match="missing"):
        Vocabulary.load(tmp_path)
