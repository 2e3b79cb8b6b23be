"""What a storm came to: outcomes, what the server counted of them, what stayed behind, and whether all is well.

The keys are a contract: more may come, none may go. `complaints` is empty where nothing leaked and nothing differed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from evaluation.storm_cases import Ending, Moment
from evaluation.storm_client import EXPECTED, FINISHED
from evaluation.storm_remains import Remains

_MEANT = ("OK", "CANCELLED", "DEADLINE_EXCEEDED")

Outcomes = Mapping[tuple[Moment, Ending, str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What the server's metrics say: requests, those of them with a sequence, and how many ended in which status."""

    requests: int
    opened: int
    statuses: Mapping[str, int]
    tokens: Mapping[str, int]


def counted(samples: Iterable[tuple[str, Mapping[str, str], float]]) -> Counted:
    """Read the metrics' samples."""
    totals: Counter[str] = Counter()
    statuses: Counter[str] = Counter()
    for name, labels, value in samples:
        totals[name.removeprefix("slipstream_")] += round(value)
        if name == "slipstream_errors_total":
            statuses[labels["status"]] += round(value)
    requests = totals["requests_total"]
    statuses["OK"] = requests - sum(statuses.values())
    kinds = ("drafted", "judged", "accepted", "emitted")
    return Counted(
        requests=requests,
        opened=totals["request_seconds_count"],
        statuses=dict(statuses),
        tokens={kind: totals[f"{kind}_tokens_total"] for kind in kinds},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """requests, at_once, seed: as asked. outcomes: of the storm's requests, by moment, ending and how they ended.
    others: requests beside the storm's, each decoded to its end. opened: sequences, as the target was asked for them.
    before, after: the storm. grown_bytes: of the process's resident memory, over the storm.
    controls, controls_after: outputs compared, beside the storm and after it, and how many differed.
    """

    requests: int
    at_once: int
    seed: int
    seconds: float
    outcomes: Outcomes
    others: int
    counted: Counted
    opened: int
    before: Remains
    after: Remains
    grown_bytes: int
    controls: int
    controls_differing: int
    controls_after: int
    controls_after_differing: int

    def outcome(self, moment: Moment, ending: Ending) -> dict[str, int]:
        """How so many requests of one kind ended."""
        return {name: count for (at, how, name), count in self.outcomes.items() if (at, how) == (moment, ending)}

    def complaints(self) -> list[str]:
        """What is wrong."""
        found = [f"leaked: {count} {name}" for name, count in self.after.beyond(self.before).items()]
        wrong = self.controls_differing + self.controls_after_differing
        if wrong:
            found.append(f"{wrong} of {self.controls + self.controls_after} controls differ from what they are alone")
        if not self.controls:
            found.append("no control was decoded beside the storm")
        found += [f"{count} ended in {name}" for name, count in self._by_outcome().items() if name not in EXPECTED]
        return found + self._miscounted()

    def as_values(self) -> dict[str, Any]:
        return {
            "complaints": self.complaints(),
            "requests": self.requests,
            "at_once": self.at_once,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "outcomes": self._by_outcome(),
            "by": [
                {"moment": moment, "ending": ending, "outcomes": self.outcome(moment, ending)}
                for moment in Moment
                for ending in Ending
            ],
            "others": self.others,
            "server": asdict(self.counted) | {"sequences_opened": self.opened},
            "before": asdict(self.before),
            "after": asdict(self.after),
            "leaked": self.after.beyond(self.before),
            "grown_bytes": self.grown_bytes,
            "controls": self.controls,
            "controls_differing": self.controls_differing,
            "controls_after": self.controls_after,
            "controls_after_differing": self.controls_after_differing,
        }

    def _by_outcome(self) -> dict[str, int]:
        sums: Counter[str] = Counter()
        for (_, _, name), count in self.outcomes.items():
            sums[name] += count
        return dict(sums)

    def _miscounted(self) -> list[str]:
        """Where the metrics can't be true."""
        server, found = self.counted, []
        if server.opened != self.opened:
            found.append(f"{self.opened} sequences were opened, the metrics say {server.opened}")
        if server.requests > self.requests + self.others:
            found.append(f"{server.requests} requests counted, of {self.requests + self.others} that were sent")
        finished = self.others + self._by_outcome().get(FINISHED, 0)
        # A server may have finished while the client left, but only where it was about to, or a deadline says when.
        perhaps = sum(
            count
            for (moment, ending, name), count in self.outcomes.items()
            if name != FINISHED and (moment is Moment.FINISH or ending is Ending.DEADLINE)
        )
        if not finished <= server.statuses["OK"] <= finished + perhaps:
            found.append(f"{server.statuses['OK']} requests counted as OK, of {finished} that finished")
        found += [
            f"{count} requests counted as {status}"
            for status, count in server.statuses.items()
            if count and status not in _MEANT
        ]
        if not server.tokens["accepted"] <= server.tokens["judged"] <= server.tokens["drafted"]:
            found.append("more tokens accepted than judged, or judged than drafted")
        return found
