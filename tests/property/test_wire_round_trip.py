"""Every value of the contract, and every error, is the same at the other side of the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import wire_values as values
from grpc import aio
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_server import ToyService, serving

from decoding.drafting import Draft
from decoding.errors import SlipstreamError
from decoding.verdict import Finished, Opened, Verdict
from slipstream import services, wire
from slipstream.completion import CompletionDelta, CompletionRequest, CompletionStarted
from slipstream.description import TargetDescription
from slipstream.opening import OpenMessage, RunMessage
from slipstream.statuses import from_rpc_error


@given(values.openings() | values.drafts | values.runs)
def test_what_a_client_sends(value: OpenMessage | Draft | RunMessage) -> None:
    message = wire.request_message(value)
    assert wire.request_value(services.DecodeRequestMessage.FromString(message.SerializeToString())) == value


@given(values.openeds | values.verdicts() | values.finisheds())
def test_what_a_target_answers(value: Opened | Verdict | Finished) -> None:
    message = wire.answer_message(value)
    assert wire.answer_value(services.DecodeResponseMessage.FromString(message.SerializeToString())) == value


@given(values.descriptions)
def test_what_a_target_says_of_itself(value: TargetDescription) -> None:
    message = wire.description_message(value)
    assert wire.description_value(services.DescribeResponseMessage.FromString(message.SerializeToString())) == value


@given(values.completions())
def test_a_completion_request(value: CompletionRequest) -> None:
    message = wire.completion_request_message(value)
    again = services.CompleteRequestMessage.FromString(message.SerializeToString())
    assert wire.completion_request_value(again) == value


@given(values.starteds | values.deltas | values.finisheds())
def test_a_completion_answer(value: CompletionStarted | CompletionDelta | Finished) -> None:
    message = wire.completion_answer_message(value)
    again = services.CompleteResponseMessage.FromString(message.SerializeToString())
    assert wire.completion_answer_value(again) == value


@given(
    st.dictionaries(
        st.from_regex(r"[a-z0-9][a-z0-9._-]{0,20}", fullmatch=True),
        st.integers(0, 600_000).map(lambda size: bytes(range(256)) * (size // 256) + b"x" * (size % 256)),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=30)
def test_tokenizer_files(files: dict[str, bytes]) -> None:
    chunks = list(wire.tokenizer_chunks(files))
    assembly = wire.FileAssembly(sum(map(len, files.values())))
    for chunk in chunks:
        assert len(chunk.data) <= 256 * 1024
        assembly.push(services.TokenizerChunkMessage.FromString(chunk.SerializeToString()))
    assert assembly.files() == files


class ErrorServer:
    """A real server whose Decode raises what it is told to, and a channel to it, on an event loop of their own."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._service = ToyService(decode=self._refuse)
        self._serving = serving(self._service)
        self._channel = aio.insecure_channel(runner.run(self._serving.__aenter__()))
        self.error: SlipstreamError | None = None

    def raised(self, error: SlipstreamError) -> SlipstreamError:
        self.error = error
        return self._runner.run(self._call())

    def close(self) -> None:
        self._runner.run(self._channel.close())
        self._runner.run(self._serving.__aexit__(None, None, None))

    async def _refuse(self, _messages: Any, _context: Any) -> None:
        assert self.error is not None
        raise self.error

    async def _call(self) -> SlipstreamError:
        call = services.target_stub(self._channel).Decode()
        with pytest.raises(aio.AioRpcError) as caught:
            await call.read()
        return from_rpc_error(caught.value)


@pytest.fixture(scope="module")
def error_server() -> Iterator[ErrorServer]:
    with asyncio.Runner() as runner:
        server = ErrorServer(runner)
        yield server
        server.close()


@given(error=values.errors)
@settings(max_examples=150, deadline=None)
def test_errors_over_a_real_connection(error_server: ErrorServer, error: SlipstreamError) -> None:
    restored = error_server.raised(error)
    assert type(restored) is type(error)
    assert vars(restored) == vars(error)
    assert str(restored) == str(error)
