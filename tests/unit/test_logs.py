"""Logs: clean standard output, one line an event, and no text from exceptions."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from cli.logs import LogSettings, configure
from decoding.errors import InvalidSetting
from decoding.traces import trace

CANARY = "canary_in_a_coal_mine"


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


def _raise_with_text() -> None:
    source = CANARY  # a local that a rich traceback would show
    try:
        int(source)
    except ValueError as error:
        raise KeyError(source) from error


def test_an_exception_is_traced_by_types_and_places_without_its_message() -> None:
    try:
        _raise_with_text()
    except KeyError as error:
        lines = trace(error)
    assert lines[0] == "KeyError"
    assert "ValueError" in lines  # the cause is there
    assert sum(line.endswith(" _raise_with_text") for line in lines) == 2
    assert CANARY not in "\n".join(lines)


def test_a_cause_that_leads_back_to_itself_ends() -> None:
    first, second = ValueError("a"), KeyError("b")
    first.__cause__, second.__cause__ = second, first
    assert 2 <= len(trace(first)) <= 8


@pytest.mark.parametrize("format_", ["json", "console"])
@pytest.mark.parametrize("source", ["structlog", "logging"])
def test_no_format_and_no_source_of_logs_shows_an_exceptions_text(
    format_: str, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = io.StringIO()
    configure(LogSettings(format=format_, level="debug"), stream)
    try:
        _raise_with_text()
    except KeyError:
        if source == "structlog":
            structlog.get_logger().exception("broke", request_id="r-1")
        else:
            logging.getLogger("somebody").exception("broke")
    written = stream.getvalue()
    assert "broke" in written
    assert "_raise_with_text" in written
    assert CANARY not in written
    assert capsys.readouterr().out == ""


def test_json_lines_hold_the_fields_and_the_level_is_kept() -> None:
    stream = io.StringIO()
    configure(LogSettings(format="auto", level="info"), stream)  # no terminal: json
    log = structlog.get_logger()
    log.debug("unseen")
    log.info("request", request_id="r-1", emitted_tokens=3)
    logging.getLogger("uvicorn").info("unseen")
    logging.getLogger("uvicorn").warning("seen")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert first["event"] == "request"
    assert (first["request_id"], first["emitted_tokens"], first["level"]) == ("r-1", 3, "info")
    assert first["time"].endswith("Z")
    assert (second["event"], second["level"]) == ("seen", "warning")


@pytest.mark.parametrize(("field", "value"), [("format", "xml"), ("level", "loud")])
def test_unknown_settings_are_refused_by_name(field: str, value: str) -> None:
    with pytest.raises(InvalidSetting, match=f"log.{field}: must be one of .* got '{value}'"):
        LogSettings(**{field: value})
