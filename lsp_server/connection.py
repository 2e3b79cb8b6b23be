"""One multiplexed channel to a target: whether it is up, and how many times it has come up. Knows no method's work.

The channel's state lives in gRPC, which also reconnects; this module watches it, so that an outage is one line in the
log and not one for each attempt.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from grpc import ChannelConnectivity, aio

from decoding.errors import InvalidSetting, TargetUnavailable
from slipstream.channels import MIN_KEEPALIVE_S, client_options

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """Bounds of one client's connection.

    connect_timeout_s: seconds for one attempt to connect, and for the target to describe itself, 0.001 to 600.
    message_bytes: of one message either way, 64 KiB to 1 GiB.
    keepalive_s: seconds after which a silent peer is pinged, and again until it counts as gone, 10 to 86400.
    first_backoff_s, longest_backoff_s: seconds between attempts, growing from one to the other, 0.01 to 600.
    tokenizer_bytes: of all files of a tokenizer, 1 MiB to 1 GiB.
    tokenizer_timeout_s: seconds to fetch them, 1 to 3600.
    kept_tokenizers: tokenizers kept on disk, 1 to 1000; beyond them the one not used for longest goes.
    """

    connect_timeout_s: float = 2.0
    message_bytes: int = 16 * 2**20
    keepalive_s: float = 30.0
    first_backoff_s: float = 0.1
    longest_backoff_s: float = 5.0
    tokenizer_bytes: int = 128 * 2**20
    tokenizer_timeout_s: float = 60.0
    kept_tokenizers: int = 8

    def __post_init__(self) -> None:
        for field, low, high in (
            ("connect_timeout_s", 0.001, 600),
            ("message_bytes", 2**16, 2**30),
            ("keepalive_s", MIN_KEEPALIVE_S, 86_400),
            ("first_backoff_s", 0.01, 600),
            ("longest_backoff_s", self.first_backoff_s, 600),
            ("tokenizer_bytes", 2**20, 2**30),
            ("tokenizer_timeout_s", 1, 3600),
            ("kept_tokenizers", 1, 1000),
        ):
            value = getattr(self, field)
            if not low <= value <= high:
                raise InvalidSetting(f"connection.{field}", f"must be from {low} to {high}, got {value}")


class Connection:
    """Connects at the first use of `channel()`, within a running event loop; `clock` is in seconds, monotonic."""

    def __init__(
        self, address: str, settings: ConnectionSettings, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.address = address
        self._settings = settings
        self._clock = clock
        self._channel: aio.Channel | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._closed = False
        self._losses = 0

    @property
    def losses(self) -> int:
        """How many times a connection that stood has gone; what was learned over it holds while this stays the same."""
        return self._losses

    def channel(self) -> aio.Channel:
        """Raises TargetUnavailable once closed; whether the target is up, the calls themselves find out."""
        if self._closed:
            raise TargetUnavailable("this client is closed")
        if self._channel is None:
            settings = self._settings
            self._channel = aio.insecure_channel(
                self.address,
                client_options(
                    message_bytes=settings.message_bytes,
                    keepalive_s=settings.keepalive_s,
                    connect_timeout_s=settings.connect_timeout_s,
                    first_backoff_s=settings.first_backoff_s,
                    longest_backoff_s=settings.longest_backoff_s,
                ),
            )
            self._watcher = asyncio.create_task(self._watch(self._channel), name="target connection")
        return self._channel

    async def close(self) -> None:
        """End every call, then the connection. For good, and idempotent."""
        self._closed = True
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
        if self._channel is not None:
            await self._channel.close()

    async def _watch(self, channel: aio.Channel) -> None:
        lost_at: float | None = None
        while True:
            state = channel.get_state(try_to_connect=True)
            if state is ChannelConnectivity.TRANSIENT_FAILURE and lost_at is None:
                lost_at = self._clock()
                log.warning("target_unreachable", target=self.address)
            elif state is ChannelConnectivity.READY and lost_at is not None:
                log.info("target_back", target=self.address, seconds=round(self._clock() - lost_at, 3))
                lost_at = None
            await channel.wait_for_state_change(state)
            if state is ChannelConnectivity.READY:
                self._losses += 1
