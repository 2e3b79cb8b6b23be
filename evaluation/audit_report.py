"""What the audit found, as one JSON object that grows while it runs.

The keys are a contract: more may come, none may go. `differing`: cases that differ, over all dtypes: 0, or the promise
is broken. `runs`: one a dtype, each with what was tried, `by` what its cases differ in, and `receipts`: for each
differing case what replays it. No source text is in it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evaluation.audit_cases import Reuse
from evaluation.audit_run import Outcome
from target_server.shapes import Shapes
from target_server.step_metrics import StepRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the audit was asked for: `prompts` of each dtype. `files`: how many files each language's were cut from."""

    prompts: int
    seed: int
    files: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """What was audited."""

    model: str
    revision: str
    dtype: str
    device: str


class Steps:
    """The audited target's steps, by what they held and by their rows, padding included. Told on its own thread.

    shapes: the row counts that the target uses. block_rows: that one sequence's block takes at most.
    """

    def __init__(self, shapes: Shapes, *, block_rows: int) -> None:
        self.block_rows = block_rows
        self._shapes = shapes
        self._made: Counter[tuple[str, int]] = Counter()

    def record(self, step: StepRecord) -> None:
        self._made[step.kind, step.total] += 1

    @property
    def made(self) -> int:
        return self._made.copy().total()

    @property
    def larger(self) -> int:
        """How many had more rows than a block, so that something stood beside it."""
        return sum(made for (_, total), made in self._made.copy().items() if total > self.block_rows)

    def unmade(self) -> tuple[int, ...]:
        """The row counts that the target uses and no step had, of which the audit thus says nothing."""
        made = {total for _, total in self._made.copy()}
        return tuple(sorted({*self._shapes.decode, *self._shapes.prefill} - made))

    def as_values(self) -> dict[str, Any]:
        made = self._made.copy()
        return {
            "decode_rows": self._shapes.decode,
            "prefill_rows": self._shapes.prefill,
            "unmade": self.unmade(),
            **{
                kind: {str(total): made[kind, total] for name, total in sorted(made) if name == kind}
                for kind in sorted({name for name, _ in made})
            },
        }


class Tally:
    """One dtype's outcomes so far, and the audited target's steps."""

    def __init__(self, audited: Audited, asked: Asked, steps: Steps) -> None:
        self.audited = audited
        self.steps = steps
        self.prompts = 0
        self.differing = 0
        self.seconds = 0.0  # of both ways of decoding together
        self.receipts: list[dict[str, Any]] = []
        self._asked = asked
        self._by: dict[str, Counter[str]] = {}
        self._differing_by: dict[str, Counter[str]] = {}
        self._counts: Counter[str] = Counter()

    def add(self, outcomes: Iterable[Outcome]) -> None:
        """Count a group's outcomes."""
        group = tuple(outcomes)
        for outcome in group:
            self.prompts += 1
            self.differing += bool(outcome.differences)
            for name, value in _aspects(outcome):
                self._by.setdefault(name, Counter())[value] += 1
                self._differing_by.setdefault(name, Counter())[value] += bool(outcome.differences)
            self._count(outcome)
            if outcome.differences:
                self.receipts.append(self._receipt(outcome, group))

    def _count(self, outcome: Outcome) -> None:
        counts = self._counts
        counts["tokens"] += len(outcome.plain.tokens)
        counts["plain_cached_tokens"] += outcome.plain.statistics.cached_tokens
        if outcome.audited is not None:
            found = outcome.audited.statistics
            reuse = "reuse_off" if outcome.case.reuse is Reuse.NOTHING else "reuse_on"
            counts[f"{reuse}_cached_tokens"] += found.cached_tokens
            counts[f"{reuse}_prompts_cached"] += bool(found.cached_tokens)
            for name in ("drafted_tokens", "judged_tokens", "accepted_tokens", "verify_steps"):
                counts[name] += getattr(found, name)

    def as_values(self) -> dict[str, Any]:
        return {
            **asdict(self.audited),
            "prompts": self.prompts,
            "differing": self.differing,
            "seconds": round(self.seconds, 1),
            **{name: self._counts[name] for name in _COUNTS},
            "steps": self.steps.as_values(),
            "by": {
                name: {
                    value: {"prompts": count, "differing": self._differing_by[name][value]}
                    for value, count in sorted(values.items())
                }
                for name, values in self._by.items()
            },
            "receipts": self.receipts,
        }

    def _receipt(self, outcome: Outcome, group: tuple[Outcome, ...]) -> dict[str, Any]:
        case = asdict(outcome.case)
        return {
            "seed": self._asked.seed,
            "dtype": self.audited.dtype,
            "number": case.pop("number"),
            "file": case.pop("file"),
            "offset": case.pop("offset"),
            "prompt_tokens": outcome.prompt_tokens,
            "drafter_used": outcome.drafter,
            "beside": [other.case.number for other in group if other is not outcome],
            "differences": [asdict(difference) for difference in outcome.differences],
            "settings": case,
        }


_COUNTS = (
    "tokens",
    "drafted_tokens",
    "judged_tokens",
    "accepted_tokens",
    "verify_steps",
    "reuse_on_cached_tokens",
    "reuse_on_prompts_cached",
    "reuse_off_cached_tokens",
    "reuse_off_prompts_cached",
    "plain_cached_tokens",
)


def _aspects(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """What a case is counted under; under several processors where several act."""
    case, sampling = outcome.case, outcome.case.sampling
    yield "language", case.language
    yield "temperature", str(sampling.temperature)
    yield "drafter", outcome.drafter
    yield "placement", case.mode.value
    yield "fallback", "forced" if outcome.fell_back else "none"
    yield "sessions", str(outcome.sessions)
    yield "reuse", case.reuse.value
    yield "draft_tokens", str(case.draft_tokens)
    yield "finish", outcome.plain.finish.value
    acting = {
        "top_k": sampling.top_k != 0,
        "top_p": sampling.top_p != 1,
        "min_p": sampling.min_p != 0,
        "repetition_penalty": sampling.repetition_penalty != 1,
        "bias_and_bans": bool(sampling.banned),
    }
    for name in (name for name, acts in acting.items() if acts):
        yield "processors", name
    if not any(acting.values()):
        yield "processors", "none"


def as_json(asked: Asked, tallies: Iterable[Tally], *, complete: bool) -> str:
    """complete: whether everything that was asked for has been done."""
    runs = [tally.as_values() for tally in tallies]
    return json.dumps(
        {
            "prompts": asked.prompts,
            "seed": asked.seed,
            "complete": complete,
            "compared": sum(run["prompts"] for run in runs),
            "differing": sum(run["differing"] for run in runs),
            "files": dict(asked.files),
            "runs": runs,
        },
        indent=2,
    )


def write(path: Path, text: str) -> None:
    """Put a whole file in an older one's place at once: whoever reads it meanwhile sees the one or the other."""
    beside = path.with_name(path.name + ".part")
    beside.write_text(text + "\n", encoding="utf-8")
    beside.replace(path)
