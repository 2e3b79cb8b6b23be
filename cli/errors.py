"""The command line's own errors, and the exit code that each error means.

SlipstreamError
├── UsageProblem         what was asked can't be: 2
├── UnreadableFile       a file that can't be completed in: 1
└── InvalidSetting
    └── ConfigProblem    a configuration file that can't be used: 2
"""

from __future__ import annotations

from pathlib import Path

from decoding.errors import InvalidSetting, SlipstreamError

FAILED = 1
BAD_USAGE = 2


class UsageProblem(SlipstreamError):
    """The arguments don't fit each other, or what they name."""


class UnreadableFile(SlipstreamError):
    """A file is missing, too large, or no text."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


class ConfigProblem(InvalidSetting):
    """A configuration file is missing, no TOML, or holds a setting that can't be; the message begins with its path."""

    def __init__(self, path: Path, field: str, problem: str) -> None:
        super().__init__(field, problem)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {super().__str__()}" if self.field else f"{self.path}: {self.problem}"


def exit_code(error: SlipstreamError) -> int:
    """2 where arguments or configuration are to be mended, else 1."""
    return BAD_USAGE if isinstance(error, UsageProblem | InvalidSetting) else FAILED
