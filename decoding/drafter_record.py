"""What is known of one drafter at one target: how far its drafts reach, what came of them, what they cost.

Shared by the requests that it drafts for, which overlap; kept as long as somebody keeps it. Bounded by `LengthRules`.
Decides nothing, and knows nothing of drafts that are under way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from decoding.calibration import PLACES, Calibration
from decoding.rules import LengthRules
from decoding.tally import Tally
from decoding.timings import Timings

# What a place is taken for until drafts were seen: good enough to be tried.
_FIRST_REACHED, _REACHED_AGAIN = 0.8, 0.9
_FIRST_ACCEPTED, _ACCEPTED_AGAIN = 0.6, 0.85
_TRUST = 8.0  # drafts that these weigh as much as
_FADING = 0.97


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Shares, 0 to 1, of the drafts that might have reached a place: proposed there, sent to it, accepted up to it."""

    proposed: float
    sent: float
    accepted: float


class DrafterRecord:
    """Of one (language, drafter); `timings` are the target's."""

    def __init__(self, timings: Timings, rules: LengthRules) -> None:
        self.timings = timings
        self.rules = rules
        self.calibration = Calibration(memory=rules.memory)
        self.earned = Tally(rules.recent_rounds)  # (tokens, microseconds) of rounds, by what a step usually takes
        self._drafting = Tally(rules.recent_rounds)  # (microseconds, guesses)
        self._places = [[0.0] * 4 for _ in range(PLACES)]  # could be reached, proposed, sent, accepted

    @property
    def guess_us(self) -> float:
        """Microseconds a guess; a draft takes one more than it has tokens, for its end. 0 until measured."""
        return self._drafting.ratio or 0.0

    def place(self, index: int) -> Place:
        """The first token of a draft stands at place 0."""
        index = min(index, PLACES - 1)
        could, proposed, sent, accepted = self._places[index]
        reached = _TRUST * _FIRST_REACHED * _REACHED_AGAIN**index
        likely = _TRUST * _FIRST_ACCEPTED * _ACCEPTED_AGAIN**index
        could += _TRUST
        return Place(
            proposed=(proposed + reached) / could, sent=(sent + reached) / could, accepted=(accepted + likely) / could
        )

    def add_draft(self, *, proposed: int, us: int) -> None:
        self._drafting.add(us, proposed + 1)

    def add_judged(
        self, *, limit: int, proposed: int, confidences: Sequence[float | None], judged: int, accepted: int
    ) -> None:
        """Note what came of a draft of at most `limit` tokens, of which those with `confidences` were sent."""
        for index in range(min(limit, PLACES)):
            counts = self._places[index]
            if counts[0] >= self.rules.memory:
                counts[:] = (count / 2 for count in counts)
            counts[0] += 1
            counts[1] += index < proposed
            counts[2] += index < len(confidences)
            counts[3] += index < accepted
        for index, confidence in enumerate(confidences[:judged]):
            self.calibration.add(index, confidence, accepted=index < accepted)

    def fade(self) -> None:
        """Believe a little less of what was seen, where nothing new is: what doesn't pay now is tried again."""
        for counts in self._places:
            counts[:] = (count * _FADING for count in counts)
