from __future__ import annotations

import functools
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from drafts.vocabulary import Vocabulary

TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("🦀👩‍👩‍👧é日\r\n\t \u2028<|endoftext|>"))
FIXTURES = [HealthCheck.function_scoped_fixture]


@functools.cache
def loaded(folder: Path) -> tuple[Vocabulary, Tokenizer]:
    return Vocabulary.load(folder), Tokenizer.from_file(str(folder / "tokenizer.json"))


@given(text=TEXTS)
@settings(max_examples=300, suppress_health_check=FIXTURES)
def test_bytes_of_the_tokens_are_the_text(tiny_model_folder: Path, text: str) -> None:
    vocabulary, library = loaded(tiny_model_folder)
    ids = vocabulary.encode(text)
    assert b"".join(map(vocabulary.token_bytes, ids)) == text.encode()
    assert vocabulary.decode(ids) == text
    assert not vocabulary.control_ids.intersection(ids)
    if "<|endoftext|>" not in text:
        assert list(ids) == library.encode(text, add_special_tokens=False).ids


@given(data=st.data())
@settings(max_examples=200, suppress_health_check=FIXTURES)
def test_any_ids_decode_as_the_library_decodes_them(tiny_model_folder: Path, data: st.DataObject) -> None:
    vocabulary, library = loaded(tiny_model_folder)
    ids = data.draw(st.lists(st.integers(0, vocabulary.size - 1)))
    assert vocabulary.decode(ids) == library.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize("start", range(0, 512, 128))
def test_each_token_alone_has_the_librarys_bytes(tiny_model_folder: Path, start: int) -> None:
    vocabulary, library = loaded(tiny_model_folder)
    for token in range(start, min(start + 128, vocabulary.size)):
        assert vocabulary.token_bytes(token).decode("utf-8", "replace") == library.decode([token])
