"""The configuration loader: what files may say, and how it says what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cli import config
from cli.errors import ConfigProblem
from decoding.errors import InvalidSetting
from decoding.rules import GateRules
from lsp_server.settings import LspSettings
from target_server.settings import TargetSettings

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def writing(text: str) -> Path:
        path = tmp_path / "slipstream.toml"
        path.write_text(text)
        return path

    return writing


def test_every_section_becomes_its_settings(write: Write, tmp_path: Path) -> None:
    path = write(
        """
        [target]
        port = 0
        request_timeout_s = 5          # a whole number where a number is due
        [lsp]
        drafting = false
        private = ["*.secret"]
        [gate]
        threshold = 0.8
        [drafts]
        tables = "my/tables"
        kinds = { go = "lookup" }
        [log]
        level = "debug"
        """
    )
    loaded = config.load(path)
    assert loaded.path == path
    assert loaded.target == TargetSettings(port=0, request_timeout_s=5.0)
    assert loaded.lsp == LspSettings(drafting=False, private=("*.secret",))
    assert loaded.gate == GateRules(threshold=0.8)
    assert loaded.drafts.tables == tmp_path / "my/tables"
    assert loaded.drafts.kinds == {"go": "lookup"}
    assert loaded.log.level == "debug"


def test_an_empty_file_means_the_defaults(write: Write) -> None:
    assert config.load(write("")) == config.Configuration(path=config.load(write("")).path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[target]\nprot = 1", "target.prot: is not a setting; did you mean port?"),
        ("[target]\nzzz = 1", "target.zzz: is not a setting; known are block_rows, "),
        ("[targets]\nport = 1", "targets: is not a section; did you mean target?"),
        ("lsp = 3", "lsp: must be a section, as in [lsp], got 3"),
        ('[target]\nport = "1"', "target.port: must be a whole number, got the text '1'"),
        ("[target]\nport = 1.5", "target.port: must be a whole number, got 1.5"),
        ("[target]\nport = true", "target.port: must be a whole number, got true"),
        ("[target]\nmodel = 3", "target.model: must be text in quotes, got 3"),
        ("[lsp]\ndrafting = 1", "lsp.drafting: must be true or false, got 1"),
        ('[lsp]\nprivate = ".env"', "lsp.private: must be an array, got the text '.env'"),
        ("[lsp]\nprivate = [1]", "lsp.private[0]: must be text in quotes, got 1"),
        ("[drafts]\nkinds = 1", "drafts.kinds: must be a table, got 1"),
        ("[drafts.kinds]\ngo = 1", "drafts.kinds.go: must be text in quotes, got 1"),
        ("[lsp]\ntemperature = -1", "lsp.temperature: must be 0 (greedy) or from 0.001 to 100, got -1.0"),
        ("[gate]\nfloor = 0.9", "gate.floor: must be from 0 to threshold (0.7), got 0.9"),
        ("[target]\nport = 99999", "target.port: must be from 0 to 65535, got 99999"),
        ('[drafts]\ntables = "a\\u0000b"', "drafts.tables: must not hold a zero character"),
        ("a = " + "[" * 50_000, "is nested too deep"),
        ("[target]\nport = x", "is not TOML: Invalid value (at line 2, column 8)"),
    ],
)
def test_what_is_wrong_is_said_with_file_section_and_key(write: Write, text: str, problem: str) -> None:
    path = write(text)
    with pytest.raises(ConfigProblem) as raised:
        config.load(path)
    assert str(raised.value).startswith(f"{path}: {problem}")


def test_a_named_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigProblem, match="No such file"):
        config.load(tmp_path / "none.toml")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "slipstream.toml"
    path.write_bytes(b"[target]\n\xff")
    with pytest.raises(ConfigProblem, match="is not UTF-8, at byte 9"):
        config.load(path)


def test_the_working_directory_comes_before_the_users_folder(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = tmp_path / "users"
    (users / "slipstream").mkdir(parents=True)
    (users / "slipstream" / "slipstream.toml").write_text("[target]\nport = 2")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(users))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert config.load().target.port == 2
    write("[target]\nport = 1")
    monkeypatch.chdir(tmp_path)
    assert config.load().target.port == 1


def test_the_command_line_replaces_what_it_names_only() -> None:
    settings = TargetSettings(port=7, sessions=2)
    assert config.overridden(settings, port=None, sessions=3) == TargetSettings(port=7, sessions=3)
    assert config.overridden(settings, port=0).port == 0
    with pytest.raises(InvalidSetting, match=r"target\.port"):
        config.overridden(settings, port=-1)
