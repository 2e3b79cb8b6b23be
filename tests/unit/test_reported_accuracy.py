"""Acceptance and speed can look well while answers get worse: so what completions are worth is scored as well."""

from __future__ import annotations

import ast
import operator
from random import Random

import pytest
from engines import request_for
from equality_cases import joined

from decoding.drafting import DraftingRequest, DraftSession
from decoding.rules import GuardRules
from decoding.session import Mode, Session
from decoding.verdict import DecodeRequest
from drafts.registry import DrafterRegistry
from drafts.settings import DraftSettings
from drafts.speculation import speculate
from evaluation.hostile import NoiseDrafting, noise
from target_server.engine import Engine
from target_server.loader import LoadedModel
from target_server.settings import TargetSettings

pytestmark = pytest.mark.model

SHOWN = """def double(x):
    return x * 2


def increment(x):
    return x + 1


"""
# What each function is to give for 12.
TASKS = {"square": 144, "triple": 36, "decrement": 11, "add_five": 17, "times_ten": 120, "identity": 12}
X = 12
OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.FloorDiv: operator.floordiv,
}


def value_of(node: ast.expr) -> int | None:
    """Of an expression in x, whole numbers and arithmetic; None for anything else."""
    match node:
        case ast.Name(id="x"):
            return X
        case ast.Constant(value=int(number)):
            return number
        case ast.BinOp(left=left, op=symbol, right=right) if type(symbol) in OPERATORS:
            values = value_of(left), value_of(right)
            if values[0] is None or not values[1] or abs(values[1]) > 1000:
                return None
            return int(OPERATORS[type(symbol)](*values))
    return None


def solves(text: str, expected: int) -> bool:
    try:
        return value_of(ast.parse(text.strip(), mode="eval").body) == expected
    except (SyntaxError, ValueError):
        return False


class Bench:
    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.engine = Engine(loaded, TargetSettings(sessions=1))
        self.noise = noise(loaded.vocabulary, Random(3))  # noqa: S311
        self.mix = DrafterRegistry(DraftSettings(), loaded.vocabulary).for_language("python")
        self.drafted = 0

    def drafting(self, drafter: str, request: DecodeRequest) -> DraftSession | None:
        if drafter == "noise":
            return NoiseDrafting(len(request.prompt), self.noise)
        asked = DraftingRequest(prompt=request.prompt, language="python", sampling=request.sampling)
        return self.mix.open(asked) if drafter == "mix" else None

    async def complete(self, name: str, drafter: str) -> str:
        vocabulary = self.loaded.vocabulary
        prompt = vocabulary.encode(f"{SHOWN}def {name}(x):\n    return")
        request = request_for(self.loaded, prompt, max_tokens=10, max_lines=1)
        session = Session(
            request,
            mode=Mode.EDGE if drafter else Mode.PLAIN,
            block_rows=8,
            context_length=self.engine.limits.context_tokens,
            token_bytes=vocabulary.token_bytes,
            end_of_text=vocabulary.end_of_text_ids,
            guard=GuardRules(rate=0.0),
        )
        async with self.engine.open(request) as verifier:
            drafting = self.drafting(drafter, request)
            chunks = [chunk async for chunk in speculate(session, drafting, verifier, clock=lambda: 0)]
        self.drafted += session.statistics.drafted_tokens
        return joined(chunks).text


async def test_no_drafter_changes_what_completions_are_worth(default_loaded: LoadedModel) -> None:
    bench = Bench(default_loaded)
    scores = {}
    for drafter in ("", "mix", "noise"):
        texts = {name: await bench.complete(name, drafter) for name in TASKS}
        scores[drafter] = sum(solves(texts[name], expected) for name, expected in TASKS.items())
    bench.engine.close()
    assert scores[""] >= len(TASKS) // 2  # a score that could fall
    assert scores["mix"] == scores["noise"] == scores[""]
    assert bench.drafted > 0


def test_the_score_falls_where_drafts_are_taken_for_answers(default_loaded: LoadedModel) -> None:
    guess = noise(default_loaded.vocabulary, Random(3))  # noqa: S311
    texts = [default_loaded.vocabulary.decode([guess() for _ in range(6)]) for _ in TASKS]
    assert not any(solves(text, expected) for text, expected in zip(texts, TASKS.values(), strict=True))
    assert solves(" x * x", 144)
