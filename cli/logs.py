"""Sets up structlog, and with it the standard library's logging: one line an event, to stderr, for people or machines.

Standard output stays clean, since LSP over stdio speaks there. An exception is logged by its type and frames, never by
its message or its variables, which may hold source text.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any, TextIO

import structlog

from decoding.errors import InvalidSetting
from decoding.traces import trace

FORMATS = ("auto", "console", "json")
LEVELS = ("debug", "info", "warning", "error")

# Libraries that narrate: only their warnings are ours to show.
QUIET = ("asyncio", "grpc", "httpcore2", "httpx2", "pygls", "transformers", "uvicorn", "urllib3")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """How to log.

    format: "console" for people, "json" for machines, "auto" is console on a terminal and json elsewhere.
    level: the least level shown: "debug", "info", "warning" or "error".
    """

    format: str = "auto"
    level: str = "info"

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise InvalidSetting("log.format", f"must be one of {', '.join(FORMATS)}, got {self.format!r}")
        if self.level not in LEVELS:
            raise InvalidSetting("log.level", f"must be one of {', '.join(LEVELS)}, got {self.level!r}")


def configure(settings: LogSettings, stream: TextIO | None = None) -> None:
    """Make structlog and logging write to `stream` (standard error) as `settings` say; may be called again."""
    stream = sys.stderr if stream is None else stream
    as_json = settings.format == "json" or (settings.format == "auto" and not stream.isatty())
    level = getattr(logging, settings.level.upper())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        _trace_only,
    ]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(
            colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback, timestamp_key="time"
        )
    )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


def _trace_only(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Put types and frames where an exception's full text would go."""
    found = event.pop("exc_info", None)
    if found is True:
        found = sys.exc_info()
    error = found[1] if isinstance(found, tuple) else found
    if isinstance(error, BaseException):
        event["trace"] = trace(error)
    return event
