"""Whether a request drafts, and where: the gates and records of all languages and drafters at one target.

Also what the target has yet to hear of the gates. One book of each for all who share it. Knows nothing of prompts or
tokens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

import structlog

from decoding.draft_length import DraftLength
from decoding.gate import Decision, Gate, GateBook, GateEvent, GateState
from decoding.record_book import Known, RecordBook
from decoding.rules import GateRules
from decoding.session import Mode, Session
from slipstream.opening import MAX_TRANSITIONS, GateReport, GateTransition

log = structlog.get_logger()


_NEVER = Decision(speculate=False)
_MOST_ABSENT = 256  # languages of which it was said that the target has no drafter


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How one request begins. `drafter` is "", `gate` and `known` None, where nothing could draft for it.

    movable: measurements decide where its drafter drafts.
    """

    mode: Mode
    drafter: str = ""
    gate: Gate | None = None
    known: Known | None = None
    movable: bool = False
    decision: Decision = _NEVER

    def length(self) -> DraftLength | None:
        """What chooses how long the request's drafts are, by all that is known of the drafter."""
        return None if self.known is None else DraftLength(self.known.record, probing=self.decision.probe)

    @property
    def overtaken(self) -> bool:
        """Whether the gate has fallen back since, by other requests."""
        return self.gate is not None and not self.decision.probe and self.gate.state is not GateState.SPECULATING


class Gating:
    def __init__(self, rules: GateRules, records: RecordBook | None = None) -> None:
        self.book = GateBook(rules)
        self.records = records or RecordBook()
        self._absent: set[str] = set()
        self._unreported: dict[tuple[str, str], deque[GateTransition]] = {}

    def plan(self, language: str, drafter: str, *, placement: str, offered: Collection[tuple[str, str]]) -> Plan:
        """Ask the drafter's gate whether a request that would like to draft may, and find the place for it.

        placement: "edge"; "server", by a drafter of another name where the target lacks this one; or "auto", which goes
        by what was measured. offered: the (language, drafter) pairs that the target can draft by.
        """
        names = [name for of, name in offered if of == language]
        movable = placement == "auto" and drafter in names
        wanted = Mode.EDGE
        if placement == "server" and names:
            wanted = Mode.SERVER
            drafter = drafter if drafter in names else names[0]
        elif placement == "server":
            self._say_absent(language)
        gate = self.book.gate(language, drafter)
        known = self.records.of(language, drafter)
        decision = gate.decide()
        if decision.speculate and movable:
            wanted = known.placement.choose()
        mode = wanted if decision.speculate else Mode.PLAIN
        return Plan(mode=mode, drafter=drafter, gate=gate, known=known, movable=movable, decision=decision)

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
        """Take in what a request came to, finished or not; the changes of its gate that it caused, each logged."""
        if plan.gate is None or plan.known is None:
            return ()
        if plan.movable and session.mode is not Mode.PLAIN:
            self._place(plan.known, session)
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

    def _say_absent(self, language: str) -> None:
        """Once for each language that was to be drafted at the target, and which has no drafter there."""
        if language not in self._absent and len(self._absent) < _MOST_ABSENT:
            self._absent.add(language)
            log.warning("placement", language=language, problem="the target has no drafter; drafting here")

    def _place(self, known: Known, session: Session) -> None:
        """Let the placement learn of a request that drafted; log where that moves it, and by which figures."""
        move = known.placement.record(session.mode, session.pace)
        if move is not None:
            log.info(
                "placement",
                language=session.request.language,
                drafter=session.request.drafter,
                before=move.before.value,
                after=move.after.value,
                edge_ms_per_token=round(move.edge_us_per_token / 1000, 2),
                server_ms_per_token=round(move.server_us_per_token / 1000, 2),
                round_trip_ms=round(self.records.timings.round_trip_us / 1000, 2),
            )

    def _waiting(self, gate: Gate) -> deque[GateTransition]:
        return self._unreported.setdefault((gate.language, gate.drafter), deque(maxlen=MAX_TRANSITIONS))

    def _forget(self) -> None:
        """Drop what gates that are no longer in the book have to tell."""
        known = {(gate.language, gate.drafter) for gate in self.book.gates()}
        self._unreported = {key: changes for key, changes in self._unreported.items() if key in known}
