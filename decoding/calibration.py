"""How far a drafter's stated confidence can be trusted: running counts of what became of its tokens. Knows no target.

A chance starts at what the drafter says, moves to what came of tokens that it was as sure of, and from there to what
came of those at the same place in the draft. State: two counts for each of a fixed number of places and confidences.
"""

from __future__ import annotations

PLACES = 16  # in the draft; later ones count with the last
_BANDS = 10
_UNSTATED = _BANDS  # the band of tokens that come without a confidence
_UNSTATED_CHANCE = 0.7
_TRUST_IN_DRAFTER = 8.0  # observations that a stated confidence weighs as much as
_TRUST_IN_BAND = 16.0


class Calibration:
    """Of one drafter at one target. memory: observations of a kind at which all of that kind count half from then."""

    def __init__(self, *, memory: int) -> None:
        self._memory = memory
        self._bands = [[0.0, 0.0] for _ in range(_BANDS + 1)]
        self._cells = [[[0.0, 0.0] for _ in range(_BANDS + 1)] for _ in range(PLACES)]

    def chance(self, place: int, confidence: float | None) -> float:
        """That a token, 0 being the first of its draft, is accepted where all before it are."""
        band, stated = _band(confidence)
        accepted, judged = self._bands[band]
        of_band = (accepted + _TRUST_IN_DRAFTER * stated) / (judged + _TRUST_IN_DRAFTER)
        accepted, judged = self._cells[min(place, PLACES - 1)][band]
        return (accepted + _TRUST_IN_BAND * of_band) / (judged + _TRUST_IN_BAND)

    def add(self, place: int, confidence: float | None, *, accepted: bool) -> None:
        """Note a token that was judged."""
        band, _ = _band(confidence)
        for counts in (self._bands[band], self._cells[min(place, PLACES - 1)][band]):
            if counts[1] >= self._memory:
                counts[:] = (count / 2 for count in counts)
            counts[0] += accepted
            counts[1] += 1


def _band(confidence: float | None) -> tuple[int, float]:
    """Where a confidence belongs, and what it says; one that can't be a chance says nothing."""
    if confidence is None or not 0 <= confidence <= 1:
        return _UNSTATED, _UNSTATED_CHANCE
    return min(int(confidence * _BANDS), _BANDS - 1), confidence
