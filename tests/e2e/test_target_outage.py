"""The client while its target is down, comes back, or was never there; and what it remembers across that."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from toy_server import DESCRIPTION, ToyService, serving

from decoding.errors import ContractViolation, InvalidSetting, TargetUnavailable
from lsp_server.connection import ConnectionSettings
from lsp_server.target_client import TargetClient
from slipstream.description import TargetDescription

QUICK = ConnectionSettings(connect_timeout_s=2, first_backoff_s=0.05, longest_backoff_s=0.1)


async def described(client: TargetClient) -> TargetDescription:
    """The description, once the target is back."""
    while True:
        try:
            return await client.describe()
        except TargetUnavailable:
            await asyncio.sleep(0)


async def missed(client: TargetClient) -> None:
    """Return once the client has noticed that its target is gone."""
    while True:
        try:
            await client.describe()
        except TargetUnavailable:
            return
        await asyncio.sleep(0)


async def logged(logs: list[Any], lines: int) -> None:
    while len(logs) < lines:  # noqa: ASYNC110 - a log has no event to wait for
        await asyncio.sleep(0)


async def test_an_outage_is_one_error_a_call_and_one_line_in_the_log(tmp_path: Path) -> None:
    service = ToyService()
    with capture_logs() as logs:
        async with serving(service) as address:
            client = TargetClient(address, cache_folder=tmp_path, settings=QUICK)
            assert await client.describe() == DESCRIPTION
        await asyncio.wait_for(missed(client), 20)
        for _ in range(3):
            with pytest.raises(TargetUnavailable):
                await client.describe()
        service.description = replace(DESCRIPTION, model_revision="1")
        async with serving(service, port=int(address.rpartition(":")[2])):
            back = await asyncio.wait_for(described(client), 20)
            await asyncio.wait_for(logged(logs, 2), 20)
            await client.close()
    assert back.model_revision == "1"
    assert [line["event"] for line in logs] == ["target_unreachable", "target_back"]
    assert all(line["target"] == address for line in logs)


async def test_a_target_that_was_never_there(tmp_path: Path) -> None:
    async with serving(ToyService()) as address:
        pass
    client = TargetClient(address, cache_folder=tmp_path, settings=QUICK)
    with pytest.raises(TargetUnavailable, match="can't be reached"):
        await client.describe()
    with pytest.raises(TargetUnavailable):
        await client.vocabulary()
    await client.close()
    await client.close()


async def test_an_address_that_accepts_and_says_nothing(tmp_path: Path) -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    settings = ConnectionSettings(connect_timeout_s=0.3)
    client = TargetClient(f"127.0.0.1:{port}", cache_folder=tmp_path, settings=settings)
    with pytest.raises(TargetUnavailable):
        await client.describe()
    await client.close()
    silent.close()


async def test_the_description_is_asked_for_once(tmp_path: Path) -> None:
    service = ToyService()
    async with serving(service) as address:
        client = TargetClient(address, cache_folder=tmp_path)
        for _ in range(3):
            await client.describe()
        await client.close()
    assert service.described == 1


async def test_a_fingerprint_that_could_leave_the_cache_is_refused(tmp_path: Path) -> None:
    service = ToyService(description=replace(DESCRIPTION, tokenizer_fingerprint="../" * 21 + "x"))
    async with serving(service) as address:
        client = TargetClient(address, cache_folder=tmp_path)
        with pytest.raises(ContractViolation, match="fingerprint"):
            await client.vocabulary()
        await client.close()


@pytest.mark.parametrize(
    ("field", "value"),
    [("connect_timeout_s", 0), ("message_bytes", 1), ("keepalive_s", 1), ("longest_backoff_s", 0.01)],
)
def test_settings_out_of_range_are_named(field: str, value: float) -> None:
    with pytest.raises(InvalidSetting) as caught:
        ConnectionSettings(**{field: value})
    assert caught.value.field == f"connection.{field}"
