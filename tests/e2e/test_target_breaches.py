"""What the client makes of a target that breaks the contract, and of messages that break a limit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from toy_server import ToyService, serving
from toy_stream import FINISHED, OPENED, draft, request, verdict

from decoding.errors import ContractViolation, InvalidSetting, LimitExceeded
from decoding.stopping import StopRules
from decoding.verdict import Opened, Verifier
from lsp_server.connection import ConnectionSettings
from lsp_server.target_client import TargetClient
from slipstream import wire


@pytest.fixture
async def service() -> ToyService:
    return ToyService()


@pytest.fixture
async def client(service: ToyService, tmp_path: Path) -> AsyncIterator[TargetClient]:
    async with serving(service) as address:
        client = TargetClient(address, cache_folder=tmp_path)
        yield client
        await client.close()


Script = Callable[[Verifier], Any]


async def drafting(verifier: Verifier) -> None:
    await verifier.verify(draft(2))


async def running(verifier: Verifier) -> None:
    async for _ in verifier.run(2):
        pass


async def finishing(verifier: Verifier) -> None:
    await verifier.finish()


@pytest.mark.parametrize(
    ("answers", "script"),
    [
        ([], drafting),
        ([verdict(2, 1)], drafting),
        ([FINISHED], drafting),
        ([Opened(prompt_tokens=3, cached_tokens=0, seed=0, noise_version="n")], drafting),
        ([OPENED], drafting),
        ([OPENED, OPENED], drafting),
        ([OPENED, FINISHED], drafting),
        ([OPENED, verdict(3, 1)], drafting),
        ([OPENED, verdict(2)], drafting),
        ([OPENED, verdict(2, 1, 1, 1)], running),
        ([OPENED, verdict(2, 1), verdict(2, 1)], running),
        ([OPENED], finishing),
        ([OPENED, verdict(2, 1)], finishing),
        ([OPENED, FINISHED, FINISHED], finishing),
    ],
)
async def test_a_target_that_breaks_the_order_is_found_out(
    client: TargetClient, service: ToyService, answers: list[Any], script: Script
) -> None:
    async def misbehave(messages: AsyncIterator[Any], context: Any) -> None:
        for answer in answers:
            await context.write(wire.answer_message(answer))

    service.decode = misbehave
    with pytest.raises(ContractViolation):
        async with client.open(request()) as verifier:
            await script(verifier)


@pytest.mark.parametrize(("client_bytes", "server_bytes"), [(1 << 16, 1 << 20), (1 << 20, 1 << 16)])
async def test_a_message_over_either_sides_limit(tmp_path: Path, client_bytes: int, server_bytes: int) -> None:
    async with serving(ToyService(), message_bytes=server_bytes) as address:
        client = TargetClient(address, cache_folder=tmp_path, settings=ConnectionSettings(message_bytes=client_bytes))
        with pytest.raises(LimitExceeded) as caught:
            async with client.open(request(prompt=(1,) * 100_000)):
                pass
        await client.close()
    assert caught.value.what == "message"
    assert caught.value.limit == 1 << 16
    assert caught.value.unit == "bytes"


@pytest.mark.parametrize(
    "changes", [{"request_id": "café"}, {"prompt": (2**32,)}, {"stop": StopRules(strings=("\ud800",))}]
)
async def test_what_no_message_can_hold_is_the_callers_to_mend(client: TargetClient, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting):
        async with client.open(request(**changes)):
            pass
