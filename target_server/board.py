"""The page's figures, by language and drafter: read from the metrics, so that page and metrics can't disagree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import median
from typing import Any

from target_server.metrics import Latency, Metrics

COUNTS = ("drafted_tokens", "judged_tokens", "accepted_tokens", "emitted_tokens", "verify_steps", "requests", "errors")


def board(metrics: Metrics) -> dict[str, Any]:
    """{"languages": one row for each (language, drafter) seen, "transitions": the last ones, newest first}, for JSON.

    Counts are since the start; medians, in milliseconds, are of the last requests; None where there is nothing to say.
    """
    counts: defaultdict[tuple[str, str], defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    gates: defaultdict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    open_sessions = 0
    for name, labels, value in metrics.samples():
        if name == "slipstream_open_sessions":
            open_sessions = int(value)
        if "language" not in labels:
            continue
        key = (labels["language"], labels["drafter"])
        field = name.removeprefix("slipstream_").removesuffix("_total")
        if field in COUNTS and name.endswith("_total"):
            counts[key][field] += int(value)
        elif field == "gate_state" and value == 1:
            gates[key][labels["side"]] = labels["state"]
    recent = metrics.recent()
    rows = [
        {
            "language": key[0],
            "drafter": key[1],
            **{field: counts[key][field] for field in COUNTS},
            "acceptance": _ratio(counts[key]["accepted_tokens"], counts[key]["judged_tokens"]),
            "tokens_per_step": _ratio(counts[key]["emitted_tokens"], counts[key]["verify_steps"]),
            **_medians(recent.get(key, ())),
            "gates": gates.get(key, {}),
        }
        for key in sorted({*counts, *gates})
    ]
    transitions = [
        {
            "at": moved.at,
            "side": moved.side,
            "language": moved.language,
            "drafter": moved.drafter,
            "before": moved.before,
            "after": moved.after,
            "reason": moved.reason,
        }
        for moved in metrics.transitions()
    ]
    return {"open_sessions": open_sessions, "languages": rows, "transitions": transitions}


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _medians(latencies: Iterable[Latency]) -> dict[str, float | None]:
    first = [latency.first_token_us for latency in latencies if latency.first_token_us is not None]
    each = [latency.token_us for latency in latencies if latency.token_us is not None]
    return {
        "first_token_ms": median(first) / 1e3 if first else None,
        "token_ms": median(each) / 1e3 if each else None,
    }
