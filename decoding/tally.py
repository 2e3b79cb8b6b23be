"""A bounded, pooled ratio over the latest entries. Knows nothing of what is counted."""

from __future__ import annotations

from collections import deque


class Tally:
    """Sums `part` and `whole` over the latest `limit` entries; a ratio is of sums, never a mean of ratios."""

    __slots__ = ("_entries", "_limit", "part", "whole")

    def __init__(self, limit: int) -> None:
        self._entries: deque[tuple[int, int]] = deque()
        self._limit = limit
        self.part = 0
        self.whole = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def ratio(self) -> float | None:
        """The pooled ratio, part / whole; None where whole is 0."""
        return self.part / self.whole if self.whole else None

    def add(self, part: int, whole: int) -> None:
        if len(self._entries) == self._limit:
            old_part, old_whole = self._entries.popleft()
            self.part -= old_part
            self.whole -= old_whole
        self._entries.append((part, whole))
        self.part += part
        self.whole += whole

    def latest(self, evidence: int) -> tuple[int, int] | None:
        """(part, whole) of as few latest entries as together hold `evidence` whole; None where all hold less."""
        part = whole = 0
        for entry_part, entry_whole in reversed(self._entries):
            part += entry_part
            whole += entry_whole
            if whole >= evidence:
                return part, whole
        return None

    def clear(self) -> None:
        self._entries.clear()
        self.part = self.whole = 0
