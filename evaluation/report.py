"""The demonstration as JSON. The keys are a contract: more may come, none may go."""

from __future__ import annotations

import json
from typing import Any

from evaluation.demo import Report
from evaluation.pairs import LanguageRow, mean_tokens_per_step


def as_json(report: Report) -> str:
    """`languages`: a row each, see `pairs.LanguageRow`; `fallback`: what the gate did; `tokens_per_step`: the mean."""
    fallback = report.fallback
    return json.dumps(
        {
            "languages": [_row(row) for row in report.rows],
            "tokens_per_step": round(mean_tokens_per_step(report.rows), 3),
            "fallback": {
                "fell_back": fallback.fell_back,
                "recovered": fallback.recovered,
                "identical": fallback.identical,
                "requests": len(fallback.steps),
                "transitions": [
                    {"before": event.before, "after": event.after, "reason": event.reason}
                    for step in fallback.steps
                    for event in step.transitions
                ],
            },
        },
        indent=2,
    )


def _row(row: LanguageRow) -> dict[str, Any]:
    return {
        "language": row.language,
        "completions": row.completions,
        "tokens": row.tokens,
        "drafted": row.drafted,
        "judged": row.judged,
        "accepted": row.accepted,
        "acceptance": None if row.acceptance is None else round(row.acceptance, 4),
        "verify_steps": row.verify_steps,
        "tokens_per_step": round(row.tokens_per_step, 3),
        "ttft_ms": round(row.ttft_ms, 1),
        "total_ms": round(row.total_ms, 1),
        "plain_ttft_ms": round(row.plain_ttft_ms, 1),
        "plain_total_ms": round(row.plain_total_ms, 1),
        "identical": row.identical,
    }
