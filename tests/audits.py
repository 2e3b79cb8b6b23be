"""What the audit's tests share: sources, cases and outputs as small values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from decoding.sampling import SamplingConfig
from decoding.session import Mode
from decoding.stopping import FinishReason, StopRules
from decoding.verdict import Statistics
from evaluation.audit_cases import Bounds, Case, Reuse
from evaluation.audit_comparison import Output
from evaluation.audit_sources import LANGUAGES, Source

BOUNDS = Bounds(vocabulary_size=512, prompt_tokens=300, block_rows=8)


def sources(*, files: int = 2, length: int = 900) -> dict[str, tuple[Source, ...]]:
    """As many files of each language; each line is another one."""
    return {
        language: tuple(
            Source(
                language=language,
                name=f"{language}/{number}",
                text="".join(f"{language} {number} line {line}\n" for line in range(200))[:length],
            )
            for number in range(files)
        )
        for language in LANGUAGES
    }


def case(**changes: Any) -> Case:
    usual = Case(
        number=7,
        language="python",
        file="python/0",
        offset=600,
        prompt_tokens=64,
        sampling=SamplingConfig(temperature=0.8, seed=5),
        stop=StopRules(max_tokens=12),
        drafter="oracle",
        right=0.8,
        draft_tokens=4,
        mode=Mode.EDGE,
        fallback_after=None,
        run_tokens=8,
        guard_rate=0.0,
        reuse=Reuse.NOTHING,
        reuse_tokens=5,
        delay_ms=0,
    )
    return replace(usual, **changes)


def output(**changes: Any) -> Output:
    usual = Output(
        tokens=(11, 12, 13),
        text="abc",
        log_probabilities=(-0.5, -0.25, -1.0),
        finish=FinishReason.TOKEN_LIMIT,
        statistics=Statistics(prompt_tokens=64, emitted_tokens=3, verify_steps=3),
    )
    return replace(usual, **changes)
