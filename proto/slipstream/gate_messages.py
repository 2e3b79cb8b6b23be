"""Gate reports ↔ messages. Imported through `slipstream.wire`."""

from __future__ import annotations

from typing import Any

from decoding.gate import GateState
from slipstream.fields import check, check_label, encoding
from slipstream.opening import MAX_TRANSITIONS, GateReport, GateTransition
from slipstream.v1 import target_pb2 as target

_STATES = {
    GateState.SPECULATING: target.GATE_STATE_SPECULATING,
    GateState.FALLEN_BACK: target.GATE_STATE_FALLEN_BACK,
    GateState.PROBING: target.GATE_STATE_PROBING,
}
_STATE_VALUES = {message: state for state, message in _STATES.items()}


def gate_message(report: GateReport) -> target.GateReport:
    """Raises InvalidSetting."""
    check(len(report.transitions) <= MAX_TRANSITIONS, "gate.transitions", f"at most {MAX_TRANSITIONS} fit")
    with encoding("gate"):
        return target.GateReport(
            state=_STATES[report.state], transitions=[_transition_message(change) for change in report.transitions]
        )


def gate_value(message: target.GateReport) -> GateReport:
    """Raises InvalidSetting."""
    check(len(message.transitions) <= MAX_TRANSITIONS, "gate.transitions", f"at most {MAX_TRANSITIONS} fit")
    return GateReport(
        state=_state_value(message.state, "gate.state"),
        transitions=tuple(_transition_value(change) for change in message.transitions),
    )


def _transition_message(change: GateTransition) -> target.GateTransition:
    # `from` is a keyword of Python, so it goes by name.
    fields: dict[str, Any] = {"from": _STATES[change.before], "to": _STATES[change.after], "reason": change.reason}
    return target.GateTransition(**fields)


def _transition_value(message: target.GateTransition) -> GateTransition:
    check_label(message.reason, "gate.transitions.reason")
    return GateTransition(
        before=_state_value(getattr(message, "from"), "gate.transitions.from"),
        after=_state_value(message.to, "gate.transitions.to"),
        reason=message.reason,
    )


def _state_value(message: target.GateState, field: str) -> GateState:
    check(message in _STATE_VALUES, field, "is not a state of this contract")
    return _STATE_VALUES[message]
