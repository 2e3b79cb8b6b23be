"""What a client sends on the Decode stream, beside drafts. Values only; knows nothing of messages."""

from __future__ import annotations

from dataclasses import dataclass

from decoding.gate import GateState
from decoding.verdict import DecodeRequest

MAX_TRANSITIONS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class GateTransition:
    """A change of a client's gate; `reason` is a decoding.gate.GateReason, or one of a newer client's."""

    before: GateState
    after: GateState
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReport:
    """A client's gate and its changes since the last report, for the target's metrics only.

    transitions: at most 16, oldest first.
    """

    state: GateState
    transitions: tuple[GateTransition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenMessage:
    """The first message of a stream.

    seed_given: False leaves the seed to the target; `request.sampling.seed` is then 0 and means nothing.
    gate: None where the client reports none.
    """

    request: DecodeRequest
    seed_given: bool = True
    gate: GateReport | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMessage:
    """Let the target loop by itself.

    limit: tokens to emit at most, 1 to 4096.
    drafter: one of the target's for the open language; "" decodes plainly.
    """

    limit: int
    drafter: str = ""
