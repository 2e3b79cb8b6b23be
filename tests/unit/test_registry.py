from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from structlog.testing import capture_logs

from cli.paths import cache_folder
from decoding.drafting import DraftingRequest
from decoding.errors import InvalidSetting
from decoding.sampling import SamplingConfig
from drafts import table_file
from drafts.corpora import SUFFIXES
from drafts.languages import KNOWN_LANGUAGES
from drafts.registry import DrafterRegistry
from drafts.settings import DraftSettings
from drafts.table import Order, Table, hash_of
from drafts.vocabulary import Vocabulary
from target_server.errors import ModelUnavailable
from target_server.store import locate

REQUEST = DraftingRequest(prompt=(9, 5, 6), language="python", sampling=SamplingConfig())


@pytest.fixture(scope="module")
def vocabulary(tiny_model_folder: Path) -> Vocabulary:
    return Vocabulary.load(tiny_model_folder)


@pytest.fixture
def folder(tmp_path: Path, vocabulary: Vocabulary) -> Path:
    """Tables of Python and Go that say 7 after 6, surely."""
    for language in ("python", "go"):
        order = Order(
            hashes=np.array([hash_of([6])], dtype=np.uint32),
            tokens=np.array([7], dtype=np.uint32),
            shares=np.array([15], dtype=np.uint8),
        )
        table_file.save(Table(language=language, tokenizer=vocabulary.fingerprint_parts(), orders={1: order}), tmp_path)
    return tmp_path


@pytest.fixture
def logs() -> Iterator[list[dict[str, object]]]:
    with capture_logs() as captured:
        yield captured  # type: ignore[misc]


def test_settings_choose_the_drafter(folder: Path, vocabulary: Vocabulary) -> None:
    settings = DraftSettings(tables=folder, kinds={"go": "ngram", "rust": "none", "haskell": "lookup"})
    registry = DrafterRegistry(settings, vocabulary)
    names = {language: registry.for_language(language).name for language in ("python", "go", "rust", "haskell")}
    assert names == {"python": "mix", "go": "ngram", "rust": "none", "haskell": "lookup"}


def test_a_table_drafts(folder: Path, vocabulary: Vocabulary) -> None:
    registry = DrafterRegistry(DraftSettings(tables=folder), vocabulary)
    draft = registry.for_language("python").open(REQUEST).propose(4)
    assert (draft.tokens, draft.sources, draft.position) == ((7,), ("ngram",), 3)
    session = registry.for_language("go").open(REQUEST)
    session.extend([1, 6])
    assert session.propose(4).tokens == (7,)


def test_unknown_languages_are_drafted_by_lookup(vocabulary: Vocabulary, logs: list[dict[str, object]]) -> None:
    registry = DrafterRegistry(DraftSettings(), vocabulary)
    for language in ("plaintext", "", "klingon", "../../etc/passwd", "ocaml"):
        assert registry.for_language(language).name == "lookup"
    assert logs == []


def test_names_that_a_language_has_not(folder: Path, vocabulary: Vocabulary) -> None:
    registry = DrafterRegistry(DraftSettings(tables=folder), vocabulary)
    assert registry.named("python", "mix").name == "mix"
    assert registry.named("python", "lookup").name == "lookup"
    assert registry.named("python", "medusa") is None
    assert registry.named("klingon", "mix") is None


def test_the_listing_is_what_can_be_named(folder: Path, vocabulary: Vocabulary) -> None:
    registry = DrafterRegistry(DraftSettings(tables=folder), vocabulary)
    listing = registry.listing()
    assert all(registry.named(language, name).name == name for language, name in listing)
    assert {language for language, name in listing if name == "mix"} == {"python", "go"}
    assert {language for language, name in listing if name == "lookup"} == {*KNOWN_LANGUAGES, "plaintext"}


def test_a_damaged_table_is_said_once_and_lookup_drafts(
    folder: Path, vocabulary: Vocabulary, logs: list[dict[str, object]]
) -> None:
    (folder / "python.ngrams").write_bytes(b"nonsense")
    registry = DrafterRegistry(DraftSettings(tables=folder), vocabulary)
    for _ in range(3):
        assert registry.for_language("python").name == "lookup"
    assert registry.for_language("go").name == "mix"
    (warning,) = logs
    assert warning["log_level"] == "warning"
    assert "build-table --language python" in str(warning["reason"])


def test_tables_of_another_tokenizer_are_said_once_with_what_differs(
    folder: Path, tiny_model_folder: Path, logs: list[dict[str, object]]
) -> None:
    tokenizer = json.loads((tiny_model_folder / "tokenizer.json").read_bytes())
    tokenizer["model"]["merges"].reverse()
    other = Vocabulary.from_files({"tokenizer.json": json.dumps(tokenizer).encode()})
    registry = DrafterRegistry(DraftSettings(tables=folder), other)
    assert {registry.for_language(language).name for language in ("python", "go", "python")} == {"lookup"}
    (warning,) = [line for line in logs if line["log_level"] == "warning"]
    assert "merges" in str(warning["reason"])
    assert "build-table" in str(warning["reason"])


def test_tables_in_memory_are_bounded(folder: Path, vocabulary: Vocabulary) -> None:
    registry = DrafterRegistry(DraftSettings(tables=folder, loaded_tables=1), vocabulary)
    for _ in range(2):
        for language in ("python", "go"):
            assert registry.for_language(language).open(REQUEST).propose(1).tokens == (7,)
            assert len(registry._tables) == 1


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("drafts.kind", {"kind": "medusa"}),
        ("drafts.kinds.go", {"kinds": {"go": "best"}}),
        ("drafts.kinds.markdwn: is not the id of a language; did you mean markdown?", {"kinds": {"markdwn": "none"}}),
        ("drafts.least_confidence", {"least_confidence": 1.5}),
        ("drafts.least_match", {"least_match": 0}),
        ("drafts.longest_match", {"least_match": 4, "longest_match": 3}),
        ("drafts.index_tokens", {"index_tokens": 1}),
        ("drafts.buffer_tokens", {"buffer_tokens": 2**19}),
        ("drafts.loaded_tables", {"loaded_tables": 0}),
    ],
)
def test_settings_have_ranges(field: str, values: dict[str, object]) -> None:
    with pytest.raises(InvalidSetting, match=field):
        DraftSettings(**values)


@pytest.mark.model
def test_the_shipped_tables_are_the_default_models(logs: list[dict[str, object]]) -> None:
    try:
        located = locate("default", cache_folder())
    except ModelUnavailable as missing:
        pytest.skip(str(missing))
    registry = DrafterRegistry(DraftSettings(), Vocabulary.load(located.folder))
    assert {language for language, name in registry.listing() if name == "mix"} == set(SUFFIXES)
    assert logs == []
