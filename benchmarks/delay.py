"""A longer way to a server: a TCP proxy that lets every byte wait, each direction half of what a round trip gains.

Bytes wait beside each other, as on a line, so throughput stays what it was. Knows nothing of what passes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

_CHUNK_BYTES = 65_536
_UNDERWAY_CHUNKS = 1024


@asynccontextmanager
async def delayed(address: str, round_trip_s: float) -> AsyncIterator[str]:
    """Another address (HOST:PORT) for the server at `address`, whose round trips take so much longer."""
    host, _, port = address.rpartition(":")
    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            connections.add(task)
            task.add_done_callback(connections.discard)
        writers = [writer]
        try:
            there_reader, there_writer = await asyncio.open_connection(host, int(port))
            writers.append(there_writer)
            async with asyncio.TaskGroup() as both:
                both.create_task(_carry(reader, there_writer, round_trip_s / 2))
                both.create_task(_carry(there_reader, writer, round_trip_s / 2))
        except* (OSError, asyncio.CancelledError):
            pass  # either side has gone, or the proxy is to end: nobody is left to tell
        finally:
            for each in writers:
                each.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in tuple(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    """Bytes one way, each `delay_s` after it came, until the sender ends."""
    clock = asyncio.get_running_loop().time
    underway: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_UNDERWAY_CHUNKS)

    async def take() -> None:
        while True:
            chunk = await reader.read(_CHUNK_BYTES)
            await underway.put((clock() + delay_s, chunk))
            if not chunk:
                return

    taking = asyncio.create_task(take())
    try:
        while True:
            due, chunk = await underway.get()
            await asyncio.sleep(max(0.0, due - clock()))
            if not chunk:
                break
            writer.write(chunk)
            await writer.drain()
    finally:
        taking.cancel()
        with suppress(OSError):
            writer.write_eof()
