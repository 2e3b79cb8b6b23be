"""Whether a request drafts: the gates of all languages and drafters, and what the target has yet to hear of them.

One book of gates for all who share it. Knows nothing of prompts or tokens.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import structlog

from decoding.gate import Decision, Gate, GateBook, GateEvent, GateState
from decoding.rules import GateRules
from decoding.session import Mode, Session
from slipstream.opening import MAX_TRANSITIONS, GateReport, GateTransition

log = structlog.get_logger()


_NEVER = Decision(speculate=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How one request begins. `drafter` is "" and `gate` None where nothing could draft for it."""

    mode: Mode
    drafter: str = ""
    gate: Gate | None = None
    decision: Decision = _NEVER

    @property
    def overtaken(self) -> bool:
        """Whether the gate has fallen back since, by other requests."""
        return self.gate is not None and not self.decision.probe and self.gate.state is not GateState.SPECULATING


class Gating:
    def __init__(self, rules: GateRules) -> None:
        self.book = GateBook(rules)
        self._unreported: dict[tuple[str, str], deque[GateTransition]] = {}

    def plan(self, language: str, drafter: str, wanted: Mode) -> Plan:
        """Ask the drafter's gate whether a request that would like to draft may."""
        gate = self.book.gate(language, drafter)
        decision = gate.decide()
        mode = wanted if decision.speculate else Mode.PLAIN
        return Plan(mode=mode, drafter=drafter, gate=gate, decision=decision)

    def report(self, plan: Plan) -> GateReport | None:
        """What to tell the target of the plan's gate. Its changes are told once; `untold` takes them back."""
        if plan.gate is None:
            return None
        changes = self._unreported.pop((plan.gate.language, plan.gate.drafter), ())
        return GateReport(state=plan.gate.state, transitions=tuple(changes))

    def untold(self, plan: Plan, report: GateReport | None) -> None:
        """The report did not arrive, since no sequence was opened: its changes are told again, before newer ones."""
        if plan.gate is not None and report is not None and report.transitions:
            waiting = self._waiting(plan.gate)
            newer = tuple(waiting)
            waiting.clear()
            waiting.extend((*report.transitions, *newer))

    def record(self, plan: Plan, session: Session) -> tuple[GateEvent, ...]:
        """Take in what a request came to, finished or not; the changes that it caused, each logged."""
        if plan.gate is None:
            return ()
        events = plan.gate.record(session.outcome(probe=plan.decision.probe))
        if events:
            self._waiting(plan.gate).extend(
                GateTransition(before=event.before, after=event.after, reason=event.reason) for event in events
            )
            self._forget()
        for event in events:
            log.info(
                "gate",
                language=event.language,
                drafter=event.drafter,
                before=event.before.value,
                after=event.after.value,
                reason=event.reason.value,
                rate=None if event.rate is None else round(event.rate, 3),
                judged=event.judged,
            )
        return events

    def _waiting(self, gate: Gate) -> deque[GateTransition]:
        return self._unreported.setdefault((gate.language, gate.drafter), deque(maxlen=MAX_TRANSITIONS))

    def _forget(self) -> None:
        """Drop what gates that are no longer in the book have to tell."""
        known = {(gate.language, gate.drafter) for gate in self.book.gates()}
        self._unreported = {key: changes for key, changes in self._unreported.items() if key in known}
