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


def client_options(
    *,
    message_bytes: int,
    keepalive_s: float,
    connect_timeout_s: float,
    first_backoff_s: float,
    longest_backoff_s: float,
) -> Options:
    """For `grpc.aio.insecure_channel`. The channel reconnects by itself.

    keepalive_s: a peer that answers no ping for so long is taken for gone.
    connect_timeout_s: after which one attempt has failed.
    first_backoff_s, longest_backoff_s: between attempts; gRPC lengthens it by 1.6 each time, give or take a fifth.
    """
    keepalive_ms = int(keepalive_s * 1000)
    return (
        ("grpc.max_receive_message_length", message_bytes),
        ("grpc.max_send_message_length", message_bytes),
        ("grpc.keepalive_time_ms", keepalive_ms),
        ("grpc.keepalive_timeout_ms", keepalive_ms),
        ("grpc.http2.ping_timeout_ms", keepalive_ms),  # else a minute, whatever the keepalive's
        ("grpc.min_reconnect_backoff_ms", int(connect_timeout_s * 1000)),  # its name notwithstanding
        ("grpc.initial_reconnect_backoff_ms", int(first_backoff_s * 1000)),
        ("grpc.max_reconnect_backoff_ms", int(longest_backoff_s * 1000)),
        ("grpc.use_local_subchannel_pool", 1),  # a backoff of its own, not shared with other clients of the process
        ("grpc.enable_retries", 0),  # a sequence can't be replayed by the transport
        ("grpc.enable_http_proxy", 0),
    )
