"""The files that the audit cuts prompts from."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.audit_sources import LANGUAGES, LEAST_BYTES, choose_sources, counts, usual_places
from evaluation.errors import EvaluationFailed
from evaluation.scenes import EXAMPLES

ENDINGS = ("py", "js", "rs", "go", "hs")
BODY = "x = 1\n" * LEAST_BYTES


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "place"
    for number in range(6):
        inner = place / f"package{number}"
        inner.mkdir(parents=True)
        for ending in ENDINGS:
            (inner / f"file.{ending}").write_text(BODY + str(number))
    return place


def test_files_are_found_by_language_and_named_from_their_folder(folder: Path) -> None:
    found = choose_sources([folder], seed=0, most=100)
    assert counts(found) == dict.fromkeys(LANGUAGES, 6)
    assert {source.name for source in found["rust"]} == {f"place/package{number}/file.rs" for number in range(6)}


def test_a_seed_fixes_the_order_and_fewer_are_the_first_of_more(folder: Path) -> None:
    some, all_of_them = (choose_sources([folder], seed=3, most=most)["go"] for most in (2, 100))
    assert some == all_of_them[:2]
    assert all_of_them != choose_sources([folder], seed=4, most=100)["go"]


def test_what_cannot_be_cut_is_passed_over(folder: Path) -> None:
    for path in sorted(folder.rglob("*.py"))[1:]:
        path.unlink()
    (folder / "short.py").write_text("x")
    (folder / "long.py").write_text("x" * 300_000)
    (folder / "latin.py").write_bytes(b"\xe9" * 2000)
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "file.py").write_text(BODY)
    (folder / "unknown.zzz").write_text(BODY)
    assert len(choose_sources([folder], seed=0, most=100)["python"]) == 1


def test_a_file_named_twice_counts_once(folder: Path) -> None:
    one = folder / "package0" / "file.go"
    assert len(choose_sources([folder, one, folder], seed=0, most=100)["go"]) == 6


def test_a_language_without_files_is_an_error_that_names_it(folder: Path) -> None:
    for path in folder.rglob("*.hs"):
        path.unlink()
    with pytest.raises(EvaluationFailed, match="haskell"):
        choose_sources([folder], seed=0, most=1)


def test_every_language_is_in_the_examples() -> None:
    assert EXAMPLES in usual_places()
    assert set(counts(choose_sources([EXAMPLES], seed=0, most=9)).values()) == {1}
