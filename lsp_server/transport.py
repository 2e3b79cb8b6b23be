"""Messages off a byte stream: LSP's framing, with a bound, and standard input read as a stream.

It knows nothing of what messages mean. pygls' own loop would raise on a stream that ends inside a message, and would
read a message of any size.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import AsyncIterator

import structlog

log = structlog.get_logger()

MAX_UNSENT_BYTES = 16 * 2**20
_READ_BYTES = 2**16
_LONGEST_LENGTH = 18  # digits of a Content-Length that are taken for a number


async def frames(reader: asyncio.StreamReader, *, max_bytes: int) -> AsyncIterator[bytes | None]:
    """The bodies of messages until the stream ends; None in place of one that was too long and was skipped.

    A stream that doesn't keep to the framing is at its end: there is no way back into step.
    """
    try:
        while True:
            length = _length(await reader.readuntil(b"\r\n\r\n"))
            if length is None:
                log.warning("stream out of step", problem="a header without a Content-Length that can be")
                return
            if length <= max_bytes:
                yield await reader.readexactly(length)
                continue
            while length > 0:
                length -= len(await reader.readexactly(min(length, _READ_BYTES)))
            yield None
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
        return


def _length(header: bytes) -> int | None:
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        digits = value.strip()
        if name.strip().lower() == b"content-length" and digits.isdigit() and len(digits) <= _LONGEST_LENGTH:
            return int(digits)
    return None


async def standard_input(descriptor: int = 0) -> asyncio.StreamReader:
    """A file descriptor as a stream, whatever kind of file it is.

    A thread copies it into a socket pair, whose buffer bounds how far it reads ahead. The thread is a daemon that holds
    no lock, so that a process whose input stays open can still end.
    """
    ours, theirs = socket.socketpair()

    def copy() -> None:
        with theirs, contextlib.suppress(OSError):  # closed on either side: nobody reads any more
            while data := os.read(descriptor, _READ_BYTES):
                theirs.sendall(data)

    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().create_connection(lambda: asyncio.StreamReaderProtocol(reader), sock=ours)
    threading.Thread(target=copy, name="standard input", daemon=True).start()
    return reader


class DescriptorWriter:
    """Messages to a file descriptor, written at once. An editor that is gone is no error: its input ends too."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        while self._descriptor is not None and left:
            try:
                left = left[os.write(self._descriptor, left) :]
            except OSError:
                self.close()

    def close(self) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None


class SocketWriter:
    """Messages to a socket; one who doesn't read them is cut off after `MAX_UNSENT_BYTES`."""

    def __init__(self, stream: asyncio.StreamWriter) -> None:
        self._stream = stream

    def write(self, data: bytes) -> None:
        transport = self._stream.transport
        if transport.is_closing():
            return
        if transport.get_write_buffer_size() + len(data) > MAX_UNSENT_BYTES:
            transport.abort()
            return
        transport.write(data)

    def close(self) -> None:
        self._stream.close()
