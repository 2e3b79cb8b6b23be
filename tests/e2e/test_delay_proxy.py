"""The proxy that stands for a long way: every byte, in order, later; and its end at either side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.delay import delayed


@asynccontextmanager
async def echoing() -> AsyncIterator[str]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(1000):
            writer.write(chunk)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def test_all_arrives_in_order_and_no_sooner_than_the_way_is_long() -> None:
    sent = bytes(range(256)) * 2000
    clock = asyncio.get_running_loop().time
    async with echoing() as server, delayed(server, 0.2) as far:
        reader, writer = await connect(far)
        start = clock()
        writer.write(sent)
        writer.write_eof()
        assert await reader.readexactly(1) == sent[:1]
        assert clock() - start >= 0.2
        assert await reader.read() == sent[1:]
        writer.close()


async def test_messages_wait_beside_each_other() -> None:
    """Twenty round trips at once take about as long as one."""
    clock = asyncio.get_running_loop().time
    async with echoing() as server, delayed(server, 0.4) as far:
        reader, writer = await connect(far)
        start = clock()
        for _ in range(20):
            writer.write(b"x" * 10)
            await asyncio.sleep(0.001)
        await reader.readexactly(200)
        assert clock() - start < 20 * 0.4 / 2
        writer.close()


async def test_an_end_reaches_the_other_side_and_the_proxy_ends_with_connections_open() -> None:
    async with echoing() as server:
        async with delayed(server, 0.01) as far:
            reader, writer = await connect(far)
            writer.write(b"one")
            assert await reader.readexactly(3) == b"one"
        assert await asyncio.wait_for(reader.read(), 20) == b""
        writer.close()


async def test_a_server_that_is_not_there_ends_the_connection() -> None:
    async with echoing() as server:
        pass
    async with delayed(server, 0.01) as far:
        reader, writer = await connect(far)
        assert await asyncio.wait_for(reader.read(), 20) == b""
        writer.close()
