"""gRPC options that both ends of a connection must agree on. Knows nothing of what is said over it."""

from __future__ import annotations

from collections.abc import Sequence

# A server drops clients that ping more often than it allows (gRPC's own default is once in 5 minutes), so the clients'
# least interval and the servers' permission are stated together.
MIN_KEEPALIVE_S = 10.0

Options = Sequence[tuple[str, int]]


def server_options(*, message_bytes: int) -> Options:
    """For `grpc.aio.server`. A port in use is an error, not a port shared with a stranger."""
    return (
        ("grpc.max_receive_message_length", message_bytes),
        ("grpc.max_send_message_length", message_bytes),
        ("grpc.http2.min_ping_interval_without_data_ms", int(MIN_KEEPALIVE_S * 1000)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.so_reuseport", 0),
    )


def client_options(*, message_bytes: int, keepalive_s: float) -> Options:
    """For `grpc.aio.insecure_channel`. A peer that answers no ping for `keepalive_s` is taken for gone.

    Each channel has its own connection and tries it when told to: pacing is its owner's.
    """
    keepalive_ms = int(keepalive_s * 1000)
    return (
        ("grpc.max_receive_message_length", message_bytes),
        ("grpc.max_send_message_length", message_bytes),
        ("grpc.keepalive_time_ms", keepalive_ms),
        ("grpc.keepalive_timeout_ms", keepalive_ms),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_retries", 0),
    )
