"""Framing: what is a message, what is skipped, and what ends the stream."""

from __future__ import annotations

import asyncio

import pytest
import structlog

from lsp_server.transport import frames


async def read(data: bytes, *, max_bytes: int = 100) -> list[bytes | None]:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return [body async for body in frames(reader, max_bytes=max_bytes)]


async def test_bodies_come_one_by_one_and_the_too_long_as_none() -> None:
    data = b"Content-Length: 2\r\n\r\n{}content-length:3\r\nX: y\r\n\r\nabcContent-Length: 1\r\n\r\nz"
    assert await read(data, max_bytes=2) == [b"{}", None, b"z"]


@pytest.mark.parametrize(
    "data", [b"", b"Content-Len", b"Content-Length: 5\r\n\r\nabc", b"Content-Length: 999\r\n\r\nabc", b"x" * 2**17]
)
async def test_a_stream_that_breaks_off_ends_quietly(data: bytes) -> None:
    assert await read(b"Content-Length: 2\r\n\r\n{}" + data) == [b"{}"]


@pytest.mark.parametrize("length", [b"-5", b"", b"1e3", b"0x10", b"9" * 5000, "٣".encode()])
async def test_a_length_that_is_none_ends_the_stream_with_a_line_in_the_log(length: bytes) -> None:
    with structlog.testing.capture_logs() as log:
        assert await read(b"Content-Length: " + length + b"\r\n\r\nabc") == []
    assert [line["event"] for line in log] == ["stream out of step"]
