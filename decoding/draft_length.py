"""How many tokens to draft in a round, none included: as many as bring the most expected tokens a millisecond.

Twice a round. Before drafting, by how far this drafter's drafts usually reach and what they bring; the target running
alone for a while, which saves its round trips, stands against them. Then the draft that was made is cut where its
confidences, as experience corrects them, no longer earn the rows that they take.

Each length is weighed together with the rounds before it, by (earned tokens + expected) / (time taken + expected):
what maximizes one round's own rate would let a poor draft buy dear rows, in time that the next draft makes better use
of. All lengths are tried, since a step's cost may jump. Lengths change what is drafted and never what is emitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from decoding.drafter_record import DrafterRecord
from decoding.drafting import Draft
from decoding.verdict import Verdict

_TRUST_IN_USUAL = 8.0  # accepted tokens that a request must make up for before its drafts count as worse than usual


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """Tokens that a choice is expected to emit, and the microseconds that it takes."""

    tokens: float
    us: float


def best_choice(choices: Sequence[Expectation], earned: Expectation) -> int:
    """Index of the choice that, with what was earned before, has the highest rate; the first of equals."""
    return max(
        range(len(choices)),
        key=lambda index: (earned.tokens + choices[index].tokens) / (earned.us + choices[index].us),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """A draft under way: the limit it was made under, what was proposed, and the confidences of what was sent."""

    limit: int
    proposed: int
    confidences: tuple[float | None, ...]
    draft_us: int


class DraftLength:
    """One request's; `record` is shared with other requests, and learns of this one.

    probing: all that may be drafted is, so that the gate, and the record, see what the drafter is worth by now.
    """

    def __init__(self, record: DrafterRecord, *, probing: bool = False) -> None:
        self._record = record
        self._probing = probing
        self._round: _Round | None = None
        self._expected = self._accepted = 0.0

    @property
    def run_tokens(self) -> int:
        """Tokens that the target runs alone where `limit` is 0."""
        return self._record.rules.run_tokens

    def limit(self, most: int) -> int:
        """Tokens, `most` (1 or more) or fewer, worth drafting; 0 where the target had better run alone."""
        if self._probing:
            return most
        if not best_choice(self.prospects(most), self._earned()):
            self._record.fade()
            return 0
        # Rows are weighed again, and better, when the draft is there; here only the drafting can be saved.
        return 1 + best_choice(self.prospects(most, rows=False)[1:], self._earned())

    def cut(self, draft: Draft, *, limit: int, draft_us: int) -> Draft:
        """What of a draft, made under `limit`, is worth the target's rows: its beginning, or nothing of it."""
        self._record.add_draft(proposed=len(draft.tokens), us=draft_us)
        stated, proposed = _stated(draft), len(draft.tokens)
        length = proposed if self._probing else best_choice(self.returns(draft, draft_us=draft_us), self._earned())
        self._round = _Round(limit=limit, proposed=proposed, confidences=stated[:length], draft_us=draft_us)
        if length == proposed:
            return draft
        self._record.calibration.fade(length, stated[length])
        return replace(
            draft,
            tokens=draft.tokens[:length],
            confidences=draft.confidences[:length],
            sources=draft.sources[:length],
        )

    def judged(self, verdict: Verdict, *, wait_us: int, answered: bool, timed: bool) -> None:
        """Learn from a verdict. answered: it came upon a message of ours, so its wait holds a round trip.

        timed: False where the wait holds more than that, such as the prompt's prefill.
        """
        record, timings = self._record, self._record.timings
        rows = verdict.drafted + 1
        if timed:
            timings.add_step(rows, verdict.verify_us)
            if answered and verdict.verify_us:
                timings.add_round_trip(wait_us - verdict.queue_us - verdict.verify_us)
        trip = timings.round_trip_us if answered else 0.0
        draft_us = 0
        if self._round is not None:
            sent, self._round = self._round, None
            draft_us = sent.draft_us
            for index, confidence in enumerate(sent.confidences[: verdict.judged]):
                self._expected += record.calibration.chance(index, confidence)
            self._accepted += verdict.accepted
            record.add_judged(
                limit=sent.limit,
                proposed=sent.proposed,
                confidences=sent.confidences,
                judged=verdict.judged,
                accepted=verdict.accepted,
            )
        record.earned.add(len(verdict.tokens), round(timings.step_us(rows) + trip + draft_us))

    def prospects(self, most: int, *, rows: bool = True) -> list[Expectation]:
        """What to expect of each limit from 0 to `most`, before anything is drafted; `rows` False takes them for free.

        0 is one token of the target alone, which shares its round trip with the others of its run.
        """
        record, timings, trust = self._record, self._record.timings, self._trust()
        trip = timings.round_trip_us
        choices = [Expectation(tokens=1, us=trip / self.run_tokens + timings.step_us(1))]
        tokens, us = 1.0, trip + timings.step_us(1) + record.guess_us
        for index in range(most):
            place = record.place(index)
            tokens += place.accepted * trust
            us += place.proposed * record.guess_us
            if rows:
                us += place.sent * (timings.step_us(index + 2) - timings.step_us(index + 1))
            choices.append(Expectation(tokens=tokens, us=us))
        return choices

    def returns(self, draft: Draft, *, draft_us: int) -> list[Expectation]:
        """What to expect of each beginning of a draft that was made, none of it first."""
        timings, trust = self._record.timings, self._trust()
        spent = timings.round_trip_us + draft_us
        tokens, survives = 1.0, 1.0
        choices = [Expectation(tokens=tokens, us=spent + timings.step_us(1))]
        for index, confidence in enumerate(_stated(draft)):
            survives *= self._record.calibration.chance(index, confidence) * trust
            tokens += survives
            choices.append(Expectation(tokens=tokens, us=spent + timings.step_us(index + 2)))
        return choices

    def _earned(self) -> Expectation:
        earned = self._record.earned
        return Expectation(tokens=earned.part, us=earned.whole)

    def _trust(self) -> float:
        """How much of the usual chances to expect here, at most 1: this request's drafts may do worse than most."""
        return min(1.0, (self._accepted + _TRUST_IN_USUAL) / (self._expected + _TRUST_IN_USUAL))


def _stated(draft: Draft) -> tuple[float | None, ...]:
    return draft.confidences or (None,) * len(draft.tokens)
