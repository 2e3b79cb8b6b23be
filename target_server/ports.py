"""Where the server listens: sockets, and why one can't be had. Knows nothing of what is served there."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass

from decoding.errors import InvalidSetting


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where a server listens, ports resolved, as "host:port"."""

    grpc: str
    http: str


def listening(host: str, port: int, field: str) -> socket.socket:
    """A bound socket. Raises InvalidSetting that says why there is none, and what to do."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            problem = f"{host}:{port} is in use: stop what listens there, or set another one (0 takes a free one)"
        else:
            problem = f"can't listen on {host}:{port}: {error.strerror}"
        raise InvalidSetting(f"target.{field}", problem) from error
    return listening
