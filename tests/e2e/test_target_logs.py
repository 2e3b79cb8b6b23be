"""The target's logs, through real requests: a line for each, with its id and figures, and never a word of its text."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from grpc import aio
from serving import Serving, Stream, opening, refusal
from toy_serving import ToyDrafter, ToyTarget

from cli.logs import LogSettings, configure
from decoding.drafting import Draft
from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules
from drafts.vocabulary import Vocabulary
from slipstream import wire
from slipstream.completion import CompletionRequest
from slipstream.opening import RunMessage

CANARY = "zanzibar_canary_4711"


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """JSON logs at debug level, of structlog and of every library."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure(LogSettings(format="json", level="debug"), stream)
    for name in ("asyncio", "grpc", "uvicorn"):
        logging.getLogger(name).setLevel(logging.DEBUG)
    yield stream
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


def _lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def _asking(**fields: Any) -> CompletionRequest:
    return CompletionRequest(
        prefix=f"{CANARY} = 1\n{CANARY}",
        suffix=f"\nprint({CANARY})",
        path=f"/home/{CANARY}/a.py",
        sampling=SamplingConfig(),
        stop=StopRules(max_tokens=12, strings=(CANARY,)),
        request_id="r-77",
        **fields,
    )


async def test_no_text_of_a_request_is_ever_logged(
    logged: io.StringIO,
    running: Serving,
    target: ToyTarget,
    vocabulary: Vocabulary,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids = vocabulary.encode(CANARY)
    spelled = ", ".join(map(str, ids))

    def broken() -> None:
        source = f"{CANARY}: {spelled}"
        raise RuntimeError(source)

    await running.complete(_asking())
    await running.complete(_asking(language=CANARY))
    target.before_step = broken
    with pytest.raises(aio.AioRpcError):
        await running.complete(_asking())
    stream = Stream(running.target)
    await stream.send(opening(ids, vocabulary.fingerprint, language=CANARY, drafter=CANARY))
    await stream.send(RunMessage(limit=4))
    await refusal(stream)
    target.before_step = None
    stream = Stream(running.target)
    await stream.send(opening(ids, vocabulary.fingerprint))
    await stream.send(Draft(position=1, tokens=ids, sampling_fingerprint=""))
    await refusal(stream)
    monkeypatch.setattr(ToyDrafter, "open", lambda self, request: broken())
    await running.complete(_asking())
    # Where what breaks isn't a decoding call.
    monkeypatch.setattr("slipstream.wire.tokenizer_chunks", lambda files: broken())
    with pytest.raises(aio.AioRpcError, match="the target broke"):
        await running.target.Tokenizer(wire.tokenizer_request()).read()

    written = logged.getvalue()
    assert written.count('"RuntimeError"') >= 4  # the breaks were logged, by type and place
    assert CANARY not in written
    assert spelled not in written


async def test_a_line_a_request_with_its_id_and_its_figures(logged: io.StringIO, running: Serving) -> None:
    _, _, finished = await running.complete(_asking())
    (line,) = [line for line in _lines(logged) if line["event"] == "request"]
    assert line["request_id"] == "r-77"
    assert (line["method"], line["language"], line["drafter"]) == ("complete", "python", "mix")
    assert (line["status"], line["reason"], line["level"]) == ("OK", finished.reason, "info")
    for field in ("prompt_tokens", "drafted_tokens", "accepted_tokens", "emitted_tokens", "verify_steps"):
        assert line[field] == getattr(finished.statistics, field)
    assert line["total_ms"] == finished.total_us / 1e3
