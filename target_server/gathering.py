"""How long a step waits for sequences that are just drafting, so that they go together. Pure: time comes in.

Without it, sequences fall out of step: each one's block arrives a moment after the other's step has begun, and every
step carries one block. Who usually takes long to come back, over a slow line say, is not waited for.
"""

from __future__ import annotations

from collections.abc import Hashable

SMOOTHING = 0.3
PATIENCE = 2.0  # times the usual absence


class Gathering:
    """Who was answered and is expected back with the next block. Bounded by the open sequences.

    longest_s: seconds that a step waits at most; who usually stays away longer isn't waited for.
    """

    def __init__(self, *, longest_s: float) -> None:
        self._longest_s = longest_s
        self._away: dict[Hashable, float] = {}
        self._usual: dict[Hashable, float] = {}

    @property
    def decoding(self) -> bool:
        """Whether any sequence may soon come back."""
        return bool(self._usual) or bool(self._away)

    def answered(self, who: Hashable, now: float) -> None:
        self._away[who] = now

    def returned(self, who: Hashable, now: float) -> None:
        left = self._away.pop(who, None)
        if left is not None:
            absence = now - left
            usual = self._usual.get(who, absence)
            self._usual[who] = usual + SMOOTHING * (absence - usual)

    def forget(self, who: Hashable) -> None:
        """Its sequence is over."""
        self._away.pop(who, None)
        self._usual.pop(who, None)

    def until(self, now: float) -> float:
        """The clock reading to wait for, at most; `now` where nobody is worth waiting for."""
        latest = now
        for who, left in self._away.items():
            usual = self._usual.get(who, self._longest_s / PATIENCE)
            if usual <= self._longest_s:
                latest = max(latest, left + min(PATIENCE * usual, self._longest_s))
        return latest
