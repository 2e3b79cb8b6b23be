"""What is known of the drafters at one target, kept from request to request: the records in use, by language and name.

Knows nothing of what is concluded from a record.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from decoding.drafter_record import DrafterRecord
from decoding.errors import InvalidSetting
from decoding.placement import Placement
from decoding.rules import LengthRules, PlacementRules
from decoding.timings import Timings


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Of one (language, drafter): what its drafts come to, and where they are best made."""

    record: DrafterRecord
    placement: Placement


class RecordBook:
    """At most `limit` drafters; the one unused for longest makes room and would start afresh. One timing for all."""

    def __init__(
        self, *, length: LengthRules | None = None, placement: PlacementRules | None = None, limit: int = 256
    ) -> None:
        if limit < 1:
            raise InvalidSetting("records.limit", f"must be 1 or more drafters, got {limit}")
        self._length = length or LengthRules()
        self._placement = placement or PlacementRules()
        self._limit = limit
        self._known: OrderedDict[tuple[str, str], Known] = OrderedDict()
        self.timings = Timings(samples=self._length.samples, step_us=self._length.step_us)

    def of(self, language: str, drafter: str) -> Known:
        key = (language, drafter)
        known = self._known.get(key)
        if known is None:
            if len(self._known) == self._limit:
                self._known.popitem(last=False)
            known = self._known[key] = Known(
                record=DrafterRecord(self.timings, self._length), placement=Placement(self._placement)
            )
        self._known.move_to_end(key)
        return known
