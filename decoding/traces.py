"""Where an exception came from, fit for a log: types and places, never messages or values.

An exception that isn't ours may quote what it choked on, which may be source text; so its message stays out.
"""

from __future__ import annotations

import traceback

MAX_FRAMES = 40  # of one exception, innermost kept
MAX_CAUSES = 8


def trace(error: BaseException) -> tuple[str, ...]:
    """One line an exception ("ValueError") and a frame ("  file:line name"), causes after what they led to."""
    lines: list[str] = []
    cause: BaseException | None = error
    for _ in range(MAX_CAUSES):
        if cause is None:
            break
        kind = type(cause)
        lines.append(kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}")
        frames = traceback.extract_tb(cause.__traceback__)[-MAX_FRAMES:]
        lines.extend(f"  {frame.filename}:{frame.lineno} {frame.name}" for frame in frames)
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return tuple(lines)
