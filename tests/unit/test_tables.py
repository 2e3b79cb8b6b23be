from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from decoding.errors import InvalidSetting
from drafts import table_file
from drafts.corpora import SUFFIXES, read_manifest
from drafts.errors import UnusableTable
from drafts.licences import is_permissive
from drafts.registry import SHIPPED_TABLES
from drafts.table import Table
from drafts.table_build import BuildLimits, build_table
from drafts.vocabulary import Vocabulary

BODY = "for index in range(len(values)):\n    total += values[index]\n"


@pytest.fixture(scope="module")
def vocabulary(tiny_model_folder: Path) -> Vocabulary:
    return Vocabulary.load(tiny_model_folder)


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    paths = []
    for number in range(6):
        path = tmp_path / "sources" / f"{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"name_{number} = {number}\n{BODY}{'other' * number}\n")
        paths.append(path)
    return paths


def build(sources: list[Path], vocabulary: Vocabulary, **limits: int) -> Table:
    return build_table("python", sources, vocabulary, lambda line: None, BuildLimits(**limits))


def columns(table: Table) -> dict[int, tuple[bytes, bytes, bytes]]:
    return {
        length: (order.hashes.tobytes(), order.tokens.tobytes(), order.shares.tobytes())
        for length, order in table.orders.items()
    }


def test_a_table_knows_what_its_sources_agree_on(sources: list[Path], vocabulary: Vocabulary) -> None:
    table = build(sources, vocabulary)
    body = vocabulary.encode(BODY)
    known = [found for end in range(5, len(body)) if (found := table.next(body[end - 5 : end]))]
    right = [found for end in range(5, len(body)) if (found := table.next(body[:end])) and found[0] == body[end]]
    assert len(right) > 0.8 * (len(body) - 5)
    assert all(1 <= length <= 5 and 0 <= share <= 15 for _, share, length in known)
    assert table.tokenizer == vocabulary.fingerprint_parts()


def test_what_one_file_repeats_counts_once(tmp_path: Path, vocabulary: Vocabulary) -> None:
    (tmp_path / "a.py").write_text("zebra = zebra\n" * 500)
    (tmp_path / "b.py").write_text("pass\n")
    assert len(build([tmp_path / "a.py", tmp_path / "b.py"], vocabulary, least_files=2)) == 0


def test_names_and_order_of_files_mean_nothing(sources: list[Path], vocabulary: Vocabulary) -> None:
    before = build(sources, vocabulary)
    copies = [path.rename(path.with_name(f"renamed-{path.name}")) for path in reversed(sources)]
    doubled = copies[0].with_name("double.py")
    doubled.write_bytes(copies[0].read_bytes())  # counts once
    assert columns(build([doubled, *copies], vocabulary)) == columns(before)


def test_unreadable_and_long_files_are_passed_over(sources: list[Path], vocabulary: Vocabulary, tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes(b"caf\xe9 = 1\n" * 10)
    (tmp_path / "long.py").write_bytes(b"x = 1\n" * 100_000)
    odd = [tmp_path / "latin.py", tmp_path / "long.py", tmp_path / "absent.py", tmp_path]
    assert columns(build([*odd, *sources], vocabulary)) == columns(build(sources, vocabulary))
    with pytest.raises(InvalidSetting, match="no readable source"):
        build(odd, vocabulary)


def test_entries_are_limited(sources: list[Path], vocabulary: Vocabulary) -> None:
    assert len(build(sources, vocabulary)) > 20
    assert len(build(sources, vocabulary, entries=20)) <= 20


@pytest.mark.parametrize(
    "limits", [{"longest_context": 0}, {"longest_context": 17}, {"least_files": 1}, {"entries": 0}]
)
def test_limits_have_ranges(limits: dict[str, int]) -> None:
    with pytest.raises(InvalidSetting, match=next(iter(limits))):
        BuildLimits(**limits)


def test_a_file_gives_back_its_table(sources: list[Path], vocabulary: Vocabulary, tmp_path: Path) -> None:
    table = build(sources, vocabulary)
    path = table_file.save(table, tmp_path)
    again = table_file.load(path)
    assert (again.language, again.tokenizer) == (table.language, table.tokenizer)
    assert columns(again) == columns(table)
    before = path.read_bytes()
    assert table_file.save(again, tmp_path).read_bytes() == before
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["python.ngrams"]


def test_any_damage_is_noticed_and_the_remedy_named(
    sources: list[Path], vocabulary: Vocabulary, tmp_path: Path
) -> None:
    path = table_file.save(build(sources, vocabulary), tmp_path)
    whole = path.read_bytes()
    cuts = [whole[:end] for end in (0, 4, 8, 10, 40, len(whole) // 2, len(whole) - 1)]
    places = np.random.default_rng(0).integers(0, len(whole), 60)
    flips = [whole[:place] + bytes([whole[place] ^ 0x40]) + whole[place + 1 :] for place in places]
    for damaged in (*cuts, *flips, whole + b"x"):
        path.write_bytes(damaged)
        try:
            table = table_file.load(path)
        except UnusableTable as error:
            assert "slipstream drafts build-table --language python" in str(error)  # noqa: PT017 - header flips may pass
        else:  # a flip in the header's names is what binding to a tokenizer is there to notice
            assert columns(table) == columns(build(sources, vocabulary))


def test_a_missing_table_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(UnusableTable, match=r"cobol\.ngrams: No such file"):
        table_file.load(tmp_path / "cobol.ngrams")


@pytest.mark.parametrize("language", SUFFIXES)
def test_shipped_tables_are_small_and_whole(language: str) -> None:
    path = SHIPPED_TABLES / f"{language}.ngrams"
    assert path.stat().st_size <= 2 * 2**20
    table = table_file.load(path)
    assert table.language == language
    assert len(table) > 50_000
    for order in table.orders.values():
        assert (np.diff(order.hashes.astype(np.int64)) > 0).all()
        assert order.tokens.max() < 49_152


def test_shipped_tables_are_of_one_tokenizer() -> None:
    tables = [table_file.load(SHIPPED_TABLES / f"{language}.ngrams") for language in SUFFIXES]
    assert all(table.tokenizer == tables[0].tokenizer for table in tables)


def test_every_source_is_pinned_and_permissive() -> None:
    packages = read_manifest()
    for package in packages:
        assert package.version
        assert len(package.sha256) == 64
        assert all(is_permissive(licence) for licence in package.licence.split(" and "))
    for language in SUFFIXES:
        roles = [package.held_out for package in packages if package.language == language]
        assert roles.count(True) >= 3
        assert roles.count(False) >= 20
