"""Errors ↔ gRPC statuses: the tree of `decoding.errors` crosses the wire and is the same tree at the other side.

A status carries, beside its code and details, trailing metadata: "slipstream-error" names the class, as the table below
spells it, "slipstream-error-bin" holds its attributes as a JSON object, and "retry-after-ms" stands where waiting
helps. An error of a subclass crosses as the nearest class of the table. What is not a SlipstreamError crosses as
TargetFailed, without its text, which might hold source.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from grpc import StatusCode, aio

from decoding.errors import (
    ContractViolation,
    DeadlineExceeded,
    InvalidSetting,
    LimitExceeded,
    Mismatch,
    SlipstreamError,
    StalePosition,
    TargetFailed,
    TargetUnavailable,
)

KIND_KEY = "slipstream-error"
FIELDS_KEY = "slipstream-error-bin"
RETRY_KEY = "retry-after-ms"

# Peers refuse metadata past 8 KiB, so what goes into it is clipped; in bytes of UTF-8.
MAX_FIELD_BYTES = 256
MAX_DETAILS_BYTES = 512

# What gRPC itself says of a message over a channel's limit.
_OVERSIZE = re.compile(r"message larger than max \((\d+) vs\. (\d+)\)")


class Status(NamedTuple):
    """In the order of `context.abort(*status)`."""

    code: StatusCode
    details: str
    trailing_metadata: tuple[tuple[str, str | bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spelling:
    """How one class crosses: its name, its status, its attributes out and in."""

    kind: str
    code: StatusCode
    fields: Callable[[Any], dict[str, Any]]
    restore: Callable[[dict[str, Any]], SlipstreamError]


def _attributes(*names: str) -> Callable[[Any], dict[str, Any]]:
    return lambda error: {name: getattr(error, name) for name in names}


def _worded(kind: str, code: StatusCode, cls: Callable[[str], SlipstreamError]) -> _Spelling:
    """A class that has nothing but its message."""
    return _Spelling(
        kind=kind,
        code=code,
        fields=lambda error: {"message": str(error)},
        restore=lambda fields: cls(_text(fields["message"])),
    )


_SPELLINGS: Mapping[type[SlipstreamError], _Spelling] = {
    InvalidSetting: _Spelling(
        kind="invalid_setting",
        code=StatusCode.INVALID_ARGUMENT,
        fields=_attributes("field", "problem"),
        restore=lambda fields: InvalidSetting(_text(fields["field"]), _text(fields["problem"])),
    ),
    Mismatch: _Spelling(
        kind="mismatch",
        code=StatusCode.FAILED_PRECONDITION,
        fields=_attributes("what", "expected", "got", "remedy"),
        restore=lambda fields: Mismatch(
            _text(fields["what"]),
            expected=_text(fields["expected"]),
            got=_text(fields["got"]),
            remedy=_text(fields["remedy"]),
        ),
    ),
    StalePosition: _Spelling(
        kind="stale_position",
        code=StatusCode.FAILED_PRECONDITION,
        fields=_attributes("expected", "got"),
        restore=lambda fields: StalePosition(expected=int(fields["expected"]), got=int(fields["got"])),
    ),
    LimitExceeded: _Spelling(
        kind="limit_exceeded",
        code=StatusCode.RESOURCE_EXHAUSTED,
        fields=_attributes("what", "limit", "unit", "got", "retry_after_ms"),
        restore=lambda fields: LimitExceeded(
            _text(fields["what"]),
            limit=int(fields["limit"]),
            unit=_text(fields["unit"]),
            got=_number(fields["got"]),
            retry_after_ms=_number(fields["retry_after_ms"]),
        ),
    ),
    DeadlineExceeded: _worded("deadline_exceeded", StatusCode.DEADLINE_EXCEEDED, DeadlineExceeded),
    TargetUnavailable: _worded("target_unavailable", StatusCode.UNAVAILABLE, TargetUnavailable),
    TargetFailed: _worded("target_failed", StatusCode.INTERNAL, TargetFailed),
    ContractViolation: _worded("contract_violation", StatusCode.INTERNAL, ContractViolation),
}
_BY_KIND = {spelling.kind: spelling for spelling in _SPELLINGS.values()}


def to_status(error: Exception) -> Status:
    """What a server ends a call with: `await context.abort(*to_status(error))`."""
    spelling = next((_SPELLINGS[cls] for cls in type(error).__mro__ if cls in _SPELLINGS), None)
    if spelling is None:
        return to_status(TargetFailed("the target broke on this request; its log says how"))
    fields = {
        name: _clip(value, MAX_FIELD_BYTES) if isinstance(value, str) else value
        for name, value in spelling.fields(error).items()
    }
    metadata: list[tuple[str, str | bytes]] = [
        (KIND_KEY, spelling.kind),
        (FIELDS_KEY, json.dumps(fields, ensure_ascii=False).encode()),
    ]
    retry_after_ms = fields.get("retry_after_ms")
    if retry_after_ms is not None:
        metadata.append((RETRY_KEY, str(retry_after_ms)))
    return Status(spelling.code, _clip(str(error), MAX_DETAILS_BYTES), tuple(metadata))


def from_rpc_error(error: aio.AioRpcError) -> SlipstreamError:
    """The error that the server raised; where it wasn't Slipstream's, the nearest that its code allows."""
    code, details = error.code(), error.details() or ""
    return _restored(code, error.trailing_metadata() or ()) or _nearest(code, details)


@contextmanager
def translated() -> Iterator[None]:
    """Raise what a client's call raised as our errors. A cancelled task stays cancelled.

    gRPC raises CancelledError also where a closed channel ended the call: for a task that nobody cancelled, that is
    TargetUnavailable.
    """
    try:
        yield
    except aio.AioRpcError as error:
        raise from_rpc_error(error) from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise TargetUnavailable("the connection was closed") from error


def _restored(code: StatusCode, metadata: Iterable[tuple[str, str | bytes]]) -> SlipstreamError | None:
    found = dict(metadata)
    spelling = _BY_KIND.get(str(found.get(KIND_KEY)))
    if spelling is None or spelling.code is not code:
        return None
    try:
        fields = json.loads(found[FIELDS_KEY])
        return spelling.restore(fields)
    except (KeyError, TypeError, ValueError):
        return None


def _nearest(code: StatusCode, details: str) -> SlipstreamError:
    said = _clip(details, MAX_DETAILS_BYTES) or "it doesn't say why"
    oversize = _OVERSIZE.search(details)
    match code:
        case StatusCode.RESOURCE_EXHAUSTED if oversize is not None:
            return LimitExceeded("message", limit=int(oversize[2]), unit="bytes", got=int(oversize[1]))
        case StatusCode.RESOURCE_EXHAUSTED:  # gRPC's own bound on calls, which says neither number nor unit
            return TargetUnavailable(f"the target takes no more calls at present: {said}")
        case StatusCode.INVALID_ARGUMENT:
            return InvalidSetting("request", said)
        case StatusCode.DEADLINE_EXCEEDED:
            return DeadlineExceeded("the deadline passed before the target had answered")
        case StatusCode.UNAVAILABLE:
            return TargetUnavailable(f"the target can't be reached: {said}")
        case StatusCode.CANCELLED:
            return TargetUnavailable("the target cancelled the request")
        case StatusCode.UNIMPLEMENTED:
            return ContractViolation(f"the server doesn't speak this contract: {said}")
        case _:
            return TargetFailed(f"the target answered {code.name}: {said}")


def _clip(text: str, limit: int) -> str:
    """At most `limit` bytes of UTF-8, whole characters."""
    spelled = text.encode("utf-8", "replace")
    return spelled.decode() if len(spelled) <= limit else spelled[: limit - 3].decode("utf-8", "ignore") + "…"


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {type(value).__name__}")
    return value


def _number(value: object) -> int | None:
    if value is not None and not isinstance(value, int):
        raise TypeError(f"expected a number, got {type(value).__name__}")
    return value
