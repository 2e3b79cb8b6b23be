"""The worker's side of the measurement: prompts in, timings out, one JSON object a line.

Every engine is timed by this same code. It runs in the peers' own environments, so it needs nothing but Python.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One prompt, as ids of the target's tokenizer, and how many tokens to make of it."""

    prompt: list[int]
    new_tokens: int
    language: str


Emit = Callable[[list[int]], None]
Generate = Callable[[Asked, Emit], None]


def answer(make: Callable[[dict[str, Any]], tuple[Generate, dict[str, Any]]]) -> None:
    """Serve standard input until it ends. `make` gets the settings, answers what generates and facts about it.

    To generate, an engine gets what is asked and what to call with each piece of output as soon as it is known.
    Whatever else the engine prints goes to standard error. The first line out holds the facts.
    """
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    generate, facts = make(json.loads(sys.argv[1]))
    print(json.dumps(facts), file=out)
    for line in sys.stdin:
        print(json.dumps(timed(generate, Asked(**json.loads(line)), time.perf_counter)), file=out)


def timed(generate: Generate, asked: Asked, clock: Callable[[], float]) -> dict[str, float | int | list[int]]:
    """One prompt. first_s, total_s: to the first and the last piece; first_tokens: how many the first one held."""
    pieces: list[tuple[float, list[int]]] = []
    start = clock()
    generate(asked, lambda tokens: pieces.append((clock() - start, tokens)))
    (first_s, first), (total_s, _) = pieces[0], pieces[-1]
    tokens = [token for _, piece in pieces for token in piece]
    return {"first_s": first_s, "total_s": total_s, "first_tokens": len(first), "tokens": tokens}
