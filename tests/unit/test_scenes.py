"""The examples that ship, and what is wrong with cursors that name no place."""

from __future__ import annotations

from pathlib import Path

import pytest

from drafts.detection import detect
from evaluation.errors import UnusableScene
from evaluation.scenes import load_scenes

ENTRY = '[[cursor]]\nfile = "a.py"\nlanguage = "python"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("one = '🙂'; two\nthree\nfour\n", encoding="utf-8")
    return tmp_path


def test_the_shipped_scenes_are_of_five_languages_and_stand_inside_their_files() -> None:
    scenes = load_scenes()
    assert len({scene.language for scene in scenes}) == 5
    for scene in scenes:
        assert detect("", str(scene.path), "") == scene.language
        whole = scene.path.read_text(encoding="utf-8")
        assert whole.startswith(scene.prefix)
        assert whole.endswith(scene.suffix)
        assert len(scene.text) < len(whole)
        assert len(scene.prefix) > 600


def test_a_scene_lacks_what_is_not_typed_yet(folder: Path) -> None:
    (folder / "cursors.toml").write_text(ENTRY + "after = \"one = '🙂';\"\nremoved_lines = 1")
    (scene,) = load_scenes(folder)
    assert scene.text == "one = '🙂';\nfour\n"
    assert scene.position == (0, len("one = '🙂';") + 1)  # a pair of UTF-16 units
    assert scene.name == "a.py:1"


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ('after = "zero"\nremoved_lines = 0', r"cursor\[0\]\.after: must be found once in a\.py, was found 0 times"),
        ('after = "o"\nremoved_lines = 0', "was found 3 times"),
        ('after = "one"\nremoved_lines = 9', r"cursor\[0\]\.removed_lines: must be from 0 to 3, got 9"),
        ('after = "one"', "needs file, language, after and removed_lines"),
    ],
)
def test_a_cursor_that_names_no_place_is_refused(folder: Path, entry: str, problem: str) -> None:
    (folder / "cursors.toml").write_text(ENTRY + entry)
    with pytest.raises(UnusableScene, match=problem):
        load_scenes(folder)


def test_a_folder_without_examples_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnusableScene, match="examples are part of a source checkout"):
        load_scenes(tmp_path)
