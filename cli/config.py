"""The configuration file: TOML sections into the packages' frozen settings, strictly.

The first of these that there is: the file named with `--config`, `slipstream.toml` in the working directory,
`slipstream.toml` in the user's configuration folder. Every section is checked, whichever the command needs. Ranges are
the settings' own to check; this module knows types and names only.
"""

from __future__ import annotations

import dataclasses
import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import platformdirs

from cli.errors import ConfigProblem
from cli.logs import LogSettings
from decoding.errors import InvalidSetting
from decoding.rules import GateRules, GuardRules
from drafts.settings import DraftSettings
from drafts.speculation import DraftBudget
from lsp_server.settings import LspSettings
from target_server.settings import TargetSettings

FILE_NAME = "slipstream.toml"
MAX_BYTES = 2**20

_Settings = TypeVar("_Settings")


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """All settings, defaults where the file says nothing; `path` is None where there is no file."""

    target: TargetSettings = field(default_factory=TargetSettings)
    lsp: LspSettings = field(default_factory=LspSettings)
    gate: GateRules = field(default_factory=GateRules)
    guard: GuardRules = field(default_factory=GuardRules)
    budget: DraftBudget = field(default_factory=DraftBudget)
    drafts: DraftSettings = field(default_factory=DraftSettings)
    log: LogSettings = field(default_factory=LogSettings)
    path: Path | None = None


SECTIONS: Mapping[str, type[Any]] = {
    "target": TargetSettings,
    "lsp": LspSettings,
    "gate": GateRules,
    "guard": GuardRules,
    "budget": DraftBudget,
    "drafts": DraftSettings,
    "log": LogSettings,
}


def load(named: Path | None = None) -> Configuration:
    """Read the file `named`, else the first found, else take the defaults. Raises ConfigProblem."""
    path = named or _found()
    if path is None:
        return Configuration()
    tables = _parsed(path)
    sections: dict[str, Any] = {}
    try:
        for name, table in tables.items():
            if name not in SECTIONS:
                raise InvalidSetting(name, f"is not a section{_hint(name, SECTIONS)}")
            if not isinstance(table, dict):
                raise InvalidSetting(name, f"must be a section, as in [{name}], got {_spelled(table)}")
            sections[name] = section(SECTIONS[name], name, table, folder=path.parent)
    except InvalidSetting as error:
        raise ConfigProblem(path, error.field, error.problem) from error
    return Configuration(path=path, **sections)


def section(kind: type[_Settings], name: str, table: Mapping[str, object], *, folder: Path) -> _Settings:
    """A settings dataclass from one table. Relative paths in it count from `folder`. Raises InvalidSetting."""
    hints = typing.get_type_hints(kind)
    values: dict[str, Any] = {}
    for key, value in table.items():
        place = f"{name}.{key}"
        if key not in hints:
            raise InvalidSetting(place, f"is not a setting{_hint(key, hints)}")
        values[key] = _fitted(hints[key], place, value, folder)
    return kind(**values)


def overridden(settings: _Settings, **given: object) -> _Settings:
    """Settings with what the command line gives in place of the file's; None gives nothing. Raises InvalidSetting."""
    changes = {name: value for name, value in given.items() if value is not None}
    return dataclasses.replace(typing.cast("Any", settings), **changes) if changes else settings


def _found() -> Path | None:
    candidates = (Path(FILE_NAME), platformdirs.user_config_path("slipstream") / FILE_NAME)
    return next((path for path in candidates if path.is_file()), None)


def _parsed(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigProblem(path, "", f"is over {MAX_BYTES} bytes")
        return tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise ConfigProblem(path, "", error.strerror or "can't be read") from error
    except UnicodeDecodeError as error:
        raise ConfigProblem(path, "", f"is not UTF-8, at byte {error.start}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigProblem(path, "", f"is not TOML: {error}") from error  # which says line and column
    except RecursionError as error:
        raise ConfigProblem(path, "", "is nested too deep") from error


def _fitted(kind: Any, place: str, value: object, folder: Path) -> Any:
    """The value as the field's type has it. Raises InvalidSetting."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):  # only `X | None`: TOML has no null, so leave the key out for None
        (kind,) = (argument for argument in arguments if argument is not types.NoneType)
        return _fitted(kind, place, value, folder)
    if origin is tuple:
        if not isinstance(value, list):
            raise _wrong("an array", place, value)
        return tuple(_fitted(arguments[0], f"{place}[{index}]", entry, folder) for index, entry in enumerate(value))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise _wrong("a table", place, value)
        return {key: _fitted(arguments[1], f"{place}.{key}", entry, folder) for key, entry in value.items()}
    if kind is float and type(value) is int:
        return float(value)
    wanted = str if kind is Path else kind
    if type(value) is not wanted:
        raise _wrong(_NAMES[wanted], place, value)
    if isinstance(value, str) and "\0" in value:
        raise InvalidSetting(place, "must not hold a zero character")
    return folder / Path(str(value)).expanduser() if kind is Path else value


_NAMES: Mapping[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "text in quotes"}


def _wrong(expected: str, place: str, value: object) -> InvalidSetting:
    return InvalidSetting(place, f"must be {expected}, got {_spelled(value)}")


def _spelled(value: object) -> str:
    """A value as TOML writes it; its kind alone where it is long."""
    if isinstance(value, list | dict):
        return "an array" if isinstance(value, list) else "a table"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    if isinstance(value, str):
        return f"the text {text}" if len(text) <= 40 else f"a text of {len(value)} characters"
    return text


def _hint(name: str, known: Mapping[str, object]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(sorted(known))}"
