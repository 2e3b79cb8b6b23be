"""Measure drafting on held-out files: acceptance and tokens a step of each drafter, by language and threshold.

    python -m drafts.corpora fetch --into CORPORA
    python -m benchmarks.drafting --corpora CORPORA --model FOLDER [--tables FOLDER] [--json FILE]

The target's greedy continuations are generated once (some minutes on a CPU) into CORPORA/continuations/; then
every drafter replays against them, as greedy speculation would run. Counts are pooled over a language's prompts.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.continuations import Continuation, continuations
from decoding.drafting import Draft, Drafter, DraftingRequest
from decoding.sampling import SamplingConfig
from drafts.registry import DrafterRegistry
from drafts.settings import DraftSettings
from drafts.vocabulary import Vocabulary

DRAFT_TOKENS = 7  # a block of 8 rows
THRESHOLDS = (0.0, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8)
KINDS = ("lookup", "ngram", "mix")


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Pooled over prompts: tokens, but `steps`."""

    steps: int = 0
    emitted: int = 0
    drafted: int = 0
    judged: int = 0
    accepted: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(
            steps=self.steps + other.steps,
            emitted=self.emitted + other.emitted,
            drafted=self.drafted + other.drafted,
            judged=self.judged + other.judged,
            accepted=self.accepted + other.accepted,
        )

    def figures(self) -> dict[str, float]:
        return {
            "acceptance": round(self.accepted / max(self.judged, 1), 4),
            "tokens_per_step": round(self.emitted / max(self.steps, 1), 3),
            "efficiency": round(self.accepted / max(self.drafted, 1), 4),
            "judged": self.judged,
        }


def replay(drafter: Drafter, continuation: Continuation) -> Iterator[tuple[Draft, int]]:
    """Each draft that speculation would make, with how many of its tokens the target accepts."""
    request = DraftingRequest(prompt=continuation.prompt, language=continuation.language, sampling=SamplingConfig())
    session = drafter.open(request)
    done = 0
    while done < len(continuation.output):
        left = continuation.output[done:]
        draft = session.propose(min(DRAFT_TOKENS, len(left) - 1))
        accepted = 0
        while accepted < len(draft.tokens) and draft.tokens[accepted] == left[accepted]:
            accepted += 1
        yield draft, accepted
        session.extend(left[: accepted + 1])
        done += accepted + 1


def count(drafter: Drafter, continuation: Continuation) -> Count:
    total = Count()
    for draft, accepted in replay(drafter, continuation):
        drafted = len(draft.tokens)
        judged = min(drafted, accepted + 1)
        total += Count(steps=1, emitted=accepted + 1, drafted=drafted, judged=judged, accepted=accepted)
    return total


def measure(judge: Iterable[Continuation], registry: DrafterRegistry, kind: str) -> dict[str, Count]:
    """Counts by language."""
    by_language: dict[str, Count] = defaultdict(Count)
    for continuation in judge:
        drafter = registry.named(continuation.language, kind) or registry.for_language(continuation.language)
        by_language[continuation.language] += count(drafter, continuation)
    return dict(by_language)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.drafting", description="Measure drafting.")
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--tables", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    vocabulary = Vocabulary.load(options.model)
    judge = continuations(options.corpora, options.model, vocabulary)
    rows = []
    for kind in KINDS:
        for threshold in THRESHOLDS:
            settings = replace(DraftSettings(), tables=options.tables, least_confidence=threshold)
            counts = measure(judge, DrafterRegistry(settings, vocabulary), kind)
            rows.append(
                {
                    "kind": kind,
                    "least_confidence": threshold,
                    "languages": {language: each.figures() for language, each in counts.items()},
                }
            )
    print(table(rows, DraftSettings().least_confidence))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(rows, indent=1))
    return 0


def table(rows: list[dict], default: float) -> str:
    """Markdown: a row for each drafter and threshold; acceptance and tokens a step for each language."""
    languages = list(rows[0]["languages"])
    lines = [
        "| drafter | least confidence | " + " | ".join(languages) + " | mean tokens a step |",
        "|---|---|" + "---|" * (len(languages) + 1),
    ]
    for row in rows:
        figures = [row["languages"][language] for language in languages]
        cells = [f"{each['acceptance']:.2f} {each['tokens_per_step']:.2f}" for each in figures]
        mean = sum(each["tokens_per_step"] for each in figures) / len(figures)
        mark = " (default)" if row["least_confidence"] == default else ""
        lines.append(f"| {row['kind']} | {row['least_confidence']}{mark} | {' | '.join(cells)} | {mean:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
