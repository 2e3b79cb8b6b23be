"""Errors as statuses, and what is made of statuses that Slipstream never sent."""

from __future__ import annotations

from typing import Any

import pytest
from grpc import StatusCode, aio

from decoding.errors import (
    ContractViolation,
    DeadlineExceeded,
    InvalidSetting,
    LimitExceeded,
    Mismatch,
    SlipstreamError,
    TargetFailed,
    TargetUnavailable,
)
from slipstream.statuses import MAX_DETAILS_BYTES, RETRY_KEY, from_rpc_error, to_status


class OurOwn(Mismatch):
    """A package's own error under the core's tree."""


def received(code: StatusCode, details: str = "", metadata: tuple[tuple[str, Any], ...] = ()) -> SlipstreamError:
    return from_rpc_error(aio.AioRpcError(code, aio.Metadata(), aio.Metadata(*metadata), details=details))


def test_a_packages_own_error_crosses_as_the_core_class_above_it() -> None:
    status = to_status(OurOwn("vocabulary", expected="a", got="b", remedy="rebuild"))
    assert status.code is StatusCode.FAILED_PRECONDITION
    restored = received(*status)
    assert type(restored) is Mismatch
    assert (restored.what, restored.expected, restored.got, restored.remedy) == ("vocabulary", "a", "b", "rebuild")


def test_an_exception_that_is_not_ours_tells_nothing() -> None:
    code, details, metadata = to_status(ValueError("def secret(): pass"))
    assert code is StatusCode.INTERNAL
    assert "secret" not in details + repr(metadata)


def test_waiting_is_only_advised_where_it_helps() -> None:
    def keys(error: SlipstreamError) -> set[str]:
        return {key for key, _ in to_status(error).trailing_metadata}

    assert RETRY_KEY in keys(LimitExceeded("sessions", limit=1, unit="sequences", retry_after_ms=0))
    assert RETRY_KEY not in keys(LimitExceeded("prompt", limit=1, unit="tokens"))


def test_long_errors_are_clipped_to_what_metadata_can_hold() -> None:
    status = to_status(Mismatch("é" * 9999, expected="\ud800" * 9999, got="🙂" * 9999, remedy='"' * 9999))
    assert len(status.details.encode()) <= MAX_DETAILS_BYTES
    assert sum(len(value) for _, value in status.trailing_metadata) < 4096
    assert type(received(*status)) is Mismatch


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (StatusCode.INVALID_ARGUMENT, InvalidSetting),
        (StatusCode.DEADLINE_EXCEEDED, DeadlineExceeded),
        (StatusCode.UNAVAILABLE, TargetUnavailable),
        (StatusCode.CANCELLED, TargetUnavailable),
        (StatusCode.UNIMPLEMENTED, ContractViolation),
        (StatusCode.FAILED_PRECONDITION, TargetFailed),
        (StatusCode.RESOURCE_EXHAUSTED, TargetUnavailable),
        (StatusCode.INTERNAL, TargetFailed),
        (StatusCode.UNKNOWN, TargetFailed),
        (StatusCode.DATA_LOSS, TargetFailed),
    ],
)
@pytest.mark.parametrize(
    "metadata",
    [
        (),
        (("slipstream-error", "of a newer contract"), ("slipstream-error-bin", b"{}")),
        (("slipstream-error", "mismatch"),),
        (("slipstream-error", "mismatch"), ("slipstream-error-bin", b"\xff")),
        (("slipstream-error", "mismatch"), ("slipstream-error-bin", b"[1]")),
        (("slipstream-error", "limit_exceeded"), ("slipstream-error-bin", b'{"what": 1}')),
    ],
)
def test_a_status_that_is_not_ours_becomes_the_nearest_error(
    code: StatusCode, expected: type[SlipstreamError], metadata: tuple[tuple[str, Any], ...]
) -> None:
    assert type(received(code, "said so", metadata)) is expected


def test_grpcs_own_limit_is_a_limit_exceeded() -> None:
    error = received(StatusCode.RESOURCE_EXHAUSTED, "CLIENT: Sent message larger than max (200 vs. 100)")
    assert isinstance(error, LimitExceeded)
    assert (error.limit, error.got, error.unit) == (100, 200, "bytes")
