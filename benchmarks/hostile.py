"""What speculation costs where it can't pay: on hostile text, and where the gate has switched it off.

Both run what the product runs: `CompletionService` with its gate, drafters and placement, over a target in this
process. On hostile text each request is completed with and without drafting, the order changing from one to the next;
each kind of text starts with gates that know nothing, so that what they pay to learn is in the figures. Every other
request is sampled at temperature 0.8, since greedy output of a small model soon repeats itself, which drafts well.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.figures import middle, pooled_ratio
from benchmarks.hostile_texts import KINDS, HostileText, hostile_texts
from benchmarks.local_target import LocalTarget
from decoding.gate import GateState
from decoding.rules import GateRules
from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules
from decoding.verdict import DecodeRequest
from drafts.settings import DraftSettings
from evaluation.errors import EvaluationFailed
from evaluation.scenes import Scene
from lsp_server.completion import CompletionService
from lsp_server.context import prompt_tokens
from lsp_server.suggestion import CompletionRequest
from target_server.lifecycle import Served

PROMPT_TOKENS = 256
CHARACTERS_A_TOKEN = 4
WARMING = 4  # requests before those that are measured
TEMPERATURE = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One completion. first_s, total_s: seconds from the request to the first token, and to the end."""

    tokens: tuple[int, ...]
    first_s: float
    total_s: float
    mode: str = ""
    gate: str = ""
    judged: int = 0
    accepted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One request, both ways. sampled: at a temperature over 0."""

    kind: str
    sampled: bool
    speculative: Timed
    plain: Timed

    @property
    def total_s(self) -> tuple[float, float]:
        return self.plain.total_s, self.speculative.total_s

    @property
    def decode_s(self) -> tuple[float, float]:
        return self.plain.total_s - self.plain.first_s, self.speculative.total_s - self.speculative.first_s


async def hostile_pairs(served: Served, *, requests: int, max_tokens: int) -> list[Pair]:
    """So many requests of each kind. Raises EvaluationFailed where speculative and plain output differ."""
    pairs = []
    for kind in KINDS:
        texts = hostile_texts(kind, requests=WARMING + requests, characters=PROMPT_TOKENS * CHARACTERS_A_TOKEN)
        service = _service(served)
        for text in texts[requests:]:
            await _complete(service, _request(text, 0, max_tokens, drafting=False))
        for number, text in enumerate(texts[:requests]):
            found = {}
            for drafting in (True, False) if number % 4 < 2 else (False, True):
                found[drafting] = await _complete(service, _request(text, number, max_tokens, drafting=drafting))
            if found[True].tokens != found[False].tokens:
                raise EvaluationFailed(f"hostile {kind} {number}: speculative and plain output differ")
            pairs.append(Pair(kind=kind, sampled=bool(number % 2), speculative=found[True], plain=found[False]))
    return pairs


async def overhead(served: Served, scenes: Sequence[Scene], *, requests: int, max_tokens: int) -> dict[str, Any]:
    """Extra time of a request whose drafting the gate has switched off, against the target's bare run, by turns.

    Medians of ratios within a turn. Also the way of a request that is told not to draft, which no gate sees.
    """
    service = _service(served, replace(GateRules(), probe_every=10**9))
    away: list[float] = []
    told: list[float] = []
    for number in range(-1, requests):
        scene = scenes[number % len(scenes)]
        language = scene.language
        drafter = served.drafters.for_language(language)
        if drafter is None:
            raise EvaluationFailed(f"there is no drafter for {language}")
        service.gating.book.gate(language, drafter.name).state = GateState.FALLEN_BACK
        text = HostileText(kind="overhead", language=language, text=scene.prefix)
        asked, told_not_to = (_request(text, 0, max_tokens, drafting=drafting) for drafting in (True, False))
        ways: list[tuple[str, Callable[[], Awaitable[Timed]]]] = [
            ("gate", partial(_complete, service, asked)),
            ("told", partial(_complete, service, told_not_to)),
            ("bare", partial(_bare, served, text, max_tokens)),
        ]
        turn = number % len(ways)
        found = {name: await run() for name, run in ways[turn:] + ways[:turn]}
        if found["gate"].mode != "plain" or found["gate"].tokens != found["bare"].tokens:
            raise EvaluationFailed(f"{scene.name}: a request without drafts was not the target's plain run")
        if number >= 0:  # the first warms up
            away.append(found["gate"].total_s / found["bare"].total_s - 1)
            told.append(found["told"].total_s / found["bare"].total_s - 1)
    return {"by_gate": middle(away, 4), "told_not_to": middle(told, 4), "turns": requests}


def hostile_summary(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Time plain / time speculative, pooled: over 1 is faster than plain. By kind, and of each kind by sampling."""

    def figures(chosen: Sequence[Pair]) -> dict[str, Any]:
        random = Random(0)  # noqa: S311 - reproducible, not secret
        judged = sum(pair.speculative.judged for pair in chosen)
        accepted = sum(pair.speculative.accepted for pair in chosen)
        return {
            "total": pooled_ratio([pair.total_s for pair in chosen], random=random),
            "decode": pooled_ratio([pair.decode_s for pair in chosen], random=random),
            "acceptance": round(accepted / judged, 4) if judged else None,
            "drafting": sum(pair.speculative.mode != "plain" for pair in chosen),
            "fallen_back": sum(pair.speculative.gate != "speculating" for pair in chosen),
        }

    kinds = {}
    for kind in dict.fromkeys(pair.kind for pair in pairs):
        of_kind = [pair for pair in pairs if pair.kind == kind]
        parts = {"greedy": [pair for pair in of_kind if not pair.sampled]}
        parts["sampled"] = [pair for pair in of_kind if pair.sampled]
        kinds[kind] = figures(of_kind) | {name: figures(part) for name, part in parts.items() if part}
    least = min((entry["total"]["ratio"] for entry in kinds.values()), default=None)
    return {"hostile_ratio": least, "hostile": kinds}


def show(console: Console, found: dict[str, Any]) -> None:
    table = Table(title="On hostile text: plain time / speculative time (90% interval)")
    for heading in ("text", "total", "decode", "greedy, total", "sampled, total", "acceptance", "drafting"):
        table.add_column(heading, justify="left" if heading == "text" else "right")

    def cell(entry: dict[str, Any] | None) -> str:
        if entry is None:
            return "–"
        return f"{entry['ratio']:.3f} ({entry['interval_90'][0]:.3f}–{entry['interval_90'][1]:.3f})"

    for kind, row in found["hostile"].items():
        parts = [row.get(name, {}).get("total") for name in ("greedy", "sampled")]
        rate = "–" if row["acceptance"] is None else f"{row['acceptance']:.0%}"
        cells = map(cell, (row["total"], row["decode"], *parts))
        table.add_row(kind, *cells, rate, f"{row['drafting']} of {row['total']['pairs']}")
    console.print(table)


def _service(served: Served, rules: GateRules | None = None) -> CompletionService:
    return CompletionService(
        LocalTarget(served), drafts=DraftSettings(), gate=rules or GateRules(), clock=time.perf_counter_ns
    )


def _request(text: HostileText, number: int, max_tokens: int, *, drafting: bool) -> CompletionRequest:
    temperature = TEMPERATURE if number % 2 else 0.0
    return CompletionRequest(
        request_id=f"{text.kind}-{number}",
        prefix=text.text,
        language_id=text.language,
        sampling=SamplingConfig(temperature=temperature, seed=number),
        stop=StopRules(max_tokens=max_tokens),
        prompt_tokens=PROMPT_TOKENS,
        drafting=drafting,
        deadline_s=300.0,
    )


async def _complete(service: CompletionService, request: CompletionRequest) -> Timed:
    result = await service.complete(request)
    if result.first_token_ms is None:
        raise EvaluationFailed(f"{request.request_id}: the target completed nothing")
    return Timed(
        tokens=result.tokens,
        first_s=result.first_token_ms / 1000,
        total_s=result.total_ms / 1000,
        mode=result.mode.value,
        gate="" if result.gate is None else result.gate.value,
        judged=result.statistics.judged_tokens,
        accepted=result.statistics.accepted_tokens,
    )


async def _bare(served: Served, text: HostileText, max_tokens: int) -> Timed:
    """The target's run with as little around it as can be: text to tokens, and tokens as they come."""
    start = time.perf_counter()
    asked = _request(text, 0, max_tokens, drafting=False)
    request = DecodeRequest(
        prompt=prompt_tokens(asked, text.language, served.vocabulary, served.description),
        sampling=asked.sampling,
        stop=asked.stop,
        language=text.language,
        drafter="",
        tokenizer_fingerprint=served.vocabulary.fingerprint,
        request_id="bare",
    )
    tokens: list[int] = []
    first_s = 0.0
    async with served.target.open(request) as verifier:
        async for verdict in verifier.run(max_tokens):
            tokens += verdict.tokens
            first_s = first_s or time.perf_counter() - start
    return Timed(tokens=tuple(tokens), first_s=first_s, total_s=time.perf_counter() - start)
