"""The errors of Slipstream's core, in one tree; every other package raises these or subclasses of them.

    SlipstreamError
    ├── InvalidSetting        a field holds what it can't          INVALID_ARGUMENT
    ├── Mismatch              two sides that must agree don't      FAILED_PRECONDITION
    │   └── StalePosition     a draft for a place already passed   FAILED_PRECONDITION
    ├── LimitExceeded         a stated bound would be broken       RESOURCE_EXHAUSTED
    ├── DeadlineExceeded      the caller's time is over            DEADLINE_EXCEEDED
    ├── TargetUnavailable     the target can't be reached or loads UNAVAILABLE
    ├── TargetFailed          the target broke on this request     INTERNAL
    └── ContractViolation     the peer broke the protocol          INTERNAL

The right-hand column is the gRPC status that `slipstream.wire` gives each. A message says what was wrong,
where, and what to do; it never holds source text.
"""

from __future__ import annotations


class SlipstreamError(Exception):
    """Base of everything that Slipstream raises on purpose."""


class InvalidSetting(SlipstreamError):
    """A setting or field is out of its range: the caller's to mend."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class Mismatch(SlipstreamError):
    """Two sides that must agree (tokenizer, revision, sampling, position) don't."""

    def __init__(self, what: str, *, expected: str, got: str, remedy: str = "") -> None:
        tail = f"; {remedy}" if remedy else ""
        super().__init__(f"{what} differs: expected {expected}, got {got}{tail}")
        self.what = what
        self.expected = expected
        self.got = got
        self.remedy = remedy


class StalePosition(Mismatch):
    """A draft starts at a position that the sequence is not at."""

    def __init__(self, *, expected: int, got: int) -> None:
        super().__init__(
            "position",
            expected=str(expected),
            got=str(got),
            remedy="draft again from the expected position",
        )


class LimitExceeded(SlipstreamError):
    """A stated bound would be broken. `retry_after_ms` is None where a retry can't help."""

    def __init__(
        self, what: str, *, limit: int, unit: str, got: int | None = None, retry_after_ms: int | None = None
    ) -> None:
        found = "" if got is None else f", got {got}"
        super().__init__(f"{what}: the limit is {limit} {unit}{found}")
        self.what = what
        self.limit = limit
        self.unit = unit
        self.got = got
        self.retry_after_ms = retry_after_ms


class DeadlineExceeded(SlipstreamError):
    """The caller's deadline passed before the work was done."""


class TargetUnavailable(SlipstreamError):
    """The target can't be reached, or still loads its model."""


class TargetFailed(SlipstreamError):
    """The target's model broke on this request; other requests go on."""


class ContractViolation(SlipstreamError):
    """The other side sent what the protocol does not allow."""
