"""Evaluation's own errors, under those of `decoding`.

SlipstreamError
├── EvaluationFailed      a part of the running system didn't do what is to be shown or measured
└── InvalidSetting
    └── UnusableScene     an example that can't be completed at, as its cursor is stated
"""

from __future__ import annotations

from decoding.errors import InvalidSetting, SlipstreamError


class EvaluationFailed(SlipstreamError):
    """A process ended, or a completion didn't come; says where to look."""


class UnusableScene(InvalidSetting):
    """A cursor names no place, or more than one."""
