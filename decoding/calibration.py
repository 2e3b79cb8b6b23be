"""How far a drafter's stated confidence can be trusted: running sums of what became of its tokens. Knows no target.

A chance starts at what the drafter says. It moves by as much as tokens that the drafter was about as sure of came out
better or worse than it said, and from there by how those at the same place in the draft did. State: a sum and a count
for each of a fixed number of places and bands of confidence.
"""

from __future__ import annotations

PLACES = 16  # in the draft; later ones count with the last
_BANDS = 10
_UNSTATED = _BANDS  # the band of tokens that come without a confidence
_UNSTATED_CHANCE = 0.7
_TRUST_IN_DRAFTER = 8.0  # observations that a stated confidence weighs as much as
_TRUST_IN_BAND = 16.0
_FADING = 0.98


class Calibration:
    """Of one drafter at one target. memory: observations of a kind at which all of that kind count half from then."""

    def __init__(self, *, memory: int) -> None:
        self._memory = memory
        self._bands = [[0.0, 0.0] for _ in range(_BANDS + 1)]
        self._cells = [[[0.0, 0.0] for _ in range(_BANDS + 1)] for _ in range(PLACES)]

    def chance(self, place: int, confidence: float | None) -> float:
        """That a token, 0 being the first of its draft, is accepted where all before it are."""
        band, stated = _band(confidence)
        surplus, judged = self._bands[band]
        of_band = surplus / (judged + _TRUST_IN_DRAFTER)
        surplus, judged = self._cells[min(place, PLACES - 1)][band]
        offset = (surplus + _TRUST_IN_BAND * of_band) / (judged + _TRUST_IN_BAND)
        return min(1.0, max(0.0, stated + offset))

    def add(self, place: int, confidence: float | None, *, accepted: bool) -> None:
        """Note a token that was judged."""
        band, stated = _band(confidence)
        for sums in (self._bands[band], self._cells[min(place, PLACES - 1)][band]):
            if sums[1] >= self._memory:
                sums[:] = (value / 2 for value in sums)
            sums[0] += accepted - stated
            sums[1] += 1

    def fade(self, place: int, confidence: float | None) -> None:
        """Believe a little less of what made a token be left out: nothing else would ever correct bad luck."""
        band, _ = _band(confidence)
        for sums in (self._bands[band], self._cells[min(place, PLACES - 1)][band]):
            sums[:] = (value * _FADING for value in sums)


def _band(confidence: float | None) -> tuple[int, float]:
    """Where a confidence belongs, and what it says; one that can't be a chance says nothing."""
    if confidence is None or not 0 <= confidence <= 1:
        return _UNSTATED, _UNSTATED_CHANCE
    return min(int(confidence * _BANDS), _BANDS - 1), confidence
