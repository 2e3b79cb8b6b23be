"""A real target server in this process, on free ports, and clients of it: what tests of the server stand on."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

import grpc
from grpc import aio

from decoding.drafting import Draft
from decoding.gate import GateRules
from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules
from decoding.verdict import DecodeRequest, Finished, Opened, Verdict
from slipstream import services, wire
from slipstream.completion import CompletionDelta, CompletionRequest, CompletionStarted
from slipstream.opening import GateReport, OpenMessage, RunMessage
from slipstream.statuses import from_rpc_error
from target_server.lifecycle import Served
from target_server.ports import Addresses
from target_server.server import TargetServer
from target_server.settings import TargetSettings

WAIT_S = 20
PROMPT = (40, 41, 42, 43)


@dataclass
class Serving:
    """A started server and a channel to it."""

    server: TargetServer
    addresses: Addresses
    channel: aio.Channel

    @property
    def target(self) -> services.TargetStub:
        return services.target_stub(self.channel)

    async def get(self, path: str) -> tuple[int, str]:
        """Status and body over HTTP."""

        def fetch() -> tuple[int, str]:
            try:
                with urllib.request.urlopen(f"http://{self.addresses.http}{path}", timeout=WAIT_S) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()

        return await asyncio.to_thread(fetch)

    def total(self, name: str, **labels: str) -> float:
        """The sum of a counter's samples that have these labels."""
        return sum(
            value
            for sample, found, value in self.server.metrics.samples()
            if sample == f"slipstream_{name}" and labels.items() <= found.items()
        )

    async def complete(
        self, request: CompletionRequest, *, timeout_s: float = WAIT_S
    ) -> tuple[CompletionStarted, list[CompletionDelta], Finished]:
        """A whole completion."""
        stub = services.completion_stub(self.channel)
        call = stub.Complete(wire.completion_request_message(request), timeout=timeout_s)
        answers = [wire.completion_answer_value(message) async for message in call]
        started, *deltas, finished = answers
        assert isinstance(started, CompletionStarted)
        assert isinstance(finished, Finished)
        return started, [delta for delta in deltas if isinstance(delta, CompletionDelta)], finished


class Stream:
    """One Decode call, message by message."""

    def __init__(
        self, stub: services.TargetStub, *, timeout_s: float | None = None, metadata: tuple[tuple[str, str], ...] = ()
    ) -> None:
        self.call: Any = stub.Decode(timeout=timeout_s, metadata=metadata)

    async def send(self, value: OpenMessage | Draft | RunMessage) -> None:
        await self.call.write(wire.request_message(value))

    async def close(self) -> None:
        await self.call.done_writing()

    async def answer(self) -> Opened | Verdict | Finished | None:
        """The next answer; None at the end. Raises AioRpcError."""
        message = await asyncio.wait_for(self.call.read(), WAIT_S)
        return None if message is aio.EOF else wire.answer_value(message)

    async def rest(self) -> list[Opened | Verdict | Finished]:
        answers = []
        while (answer := await self.answer()) is not None:
            answers.append(answer)
        return answers

    async def status(self) -> grpc.StatusCode:
        return await asyncio.wait_for(self.call.code(), WAIT_S)


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait for what only its effects tell of."""
    async with asyncio.timeout(WAIT_S):
        while not holds():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.005)


async def refusal(stream: Stream, *messages: OpenMessage | Draft | RunMessage) -> Exception:
    """The error that a stream ends with after `messages`, as a client's code would see it."""
    try:
        for message in messages:
            await stream.send(message)
        answers = await stream.rest()
    except aio.AioRpcError as error:
        return from_rpc_error(error)
    raise AssertionError(f"it ended well, after {len(answers)} answers")


def opening(
    prompt: tuple[int, ...],
    fingerprint: str,
    *,
    sampling: SamplingConfig | None = None,
    seed_given: bool = True,
    stop: StopRules | None = None,
    language: str = "python",
    drafter: str = "",
    request_id: str = "r-1",
    gate: GateReport | None = None,
) -> OpenMessage:
    request = DecodeRequest(
        prompt=prompt,
        sampling=sampling or SamplingConfig(),
        stop=stop or StopRules(max_tokens=24),
        language=language,
        drafter=drafter,
        tokenizer_fingerprint=fingerprint,
        request_id=request_id,
    )
    return OpenMessage(request=request, seed_given=seed_given, gate=gate)


def local(**settings: Any) -> TargetSettings:
    """Settings on free ports."""
    return TargetSettings(**{"port": 0, "http_port": 0, "drain_s": 5.0, "message_bytes": 2**20} | settings)


@asynccontextmanager
async def serving(
    served: Served | Any, *, settings: TargetSettings | None = None, rules: GateRules | None = None, load: bool = True
) -> AsyncIterator[Serving]:
    """Start, yield, drain. `served` is what to serve, or a function that loads it."""
    server = TargetServer(
        settings or local(), rules or GateRules(), load=served if callable(served) else lambda: served
    )
    addresses = await server.start()
    try:
        if load:
            await server.load()
        async with aio.insecure_channel(addresses.grpc) as channel:
            yield Serving(server=server, addresses=addresses, channel=channel)
    finally:
        await server.drain()


class Cable:
    """A TCP connection to `address` that carries nothing more once it is cut, and tells neither end."""

    def __init__(self, address: str) -> None:
        self._host, port = address.rsplit(":", 1)
        self._port = int(port)
        self.address = ""
        self.cut = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._proxy = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._proxy.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._proxy.close()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(self._host, self._port)
        pumps = [asyncio.create_task(self._pump(reader, back)), asyncio.create_task(self._pump(there, writer))]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        writer.close()
        back.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(2**16):
            if not self.cut.is_set():
                writer.write(data)
                await writer.drain()
