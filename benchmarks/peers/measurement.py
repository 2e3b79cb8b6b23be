"""One run: engines are made ready, the fastest settings of each are found, and all are measured by turns.

Owns the order of things and their failures. Knows nothing of what the figures come to, or how they are shown.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import installed
from benchmarks.peers.prompts import Prompt
from benchmarks.peers.results import Row, Timing, total_rate
from benchmarks.peers.roster import Contestant
from benchmarks.peers.worker import Worker
from decoding.errors import SlipstreamError

WARMING = 2  # prompts before any measured one: engines compile and allocate at their first


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """folder: keeps environments and logs. weights: what a worker is told to load, by `Contestant.weights`.

    shared: settings that all workers get. warming: prompts that are not measured; more than WARMING.
    """

    folder: Path
    weights: Callable[[str], str]
    shared: Mapping[str, Any]
    prompts: Sequence[Prompt]
    warming: Sequence[Prompt]
    new_tokens: int
    trial: bool
    say: Callable[[str], None]


def measure(plan: Plan, contestants: Sequence[Contestant]) -> list[Row]:
    """A row each, in their order. Whoever fails, at whatever, is left out from there on; its row says why."""
    timings: dict[str, list[Timing]] = {}
    rows: dict[str, Row] = {}
    workers: dict[str, Worker] = {}

    def lose(name: str, error: SlipstreamError) -> None:
        plan.say(f"{name}: {error}")
        rows[name] = replace(rows[name], reason=str(error))
        if name in workers:
            workers.pop(name).close()

    with ExitStack() as stack:
        for contestant in contestants:
            name = contestant.name
            rows[name] = Row(name=name, ours=contestant.ours, settings=dict(contestant.variants[0]))
            try:
                trials = _trials(plan, contestant)
                settings = max(trials, key=lambda tried: tried[1])[0] if trials else rows[name].settings
                rows[name] = replace(rows[name], settings=settings, trials=trials)
                plan.say(f"{name}: loading with {_named(settings)}")
                workers[name] = stack.enter_context(_worker(plan, contestant, settings))
                rows[name] = replace(rows[name], facts=workers[name].facts)
                for prompt in plan.warming[:WARMING]:
                    workers[name].ask(prompt, new_tokens=plan.new_tokens)
            except SlipstreamError as error:
                lose(name, error)
        for number, prompt in enumerate(plan.prompts):
            plan.say(f"prompt {number + 1} of {len(plan.prompts)}: {prompt.name}")
            names = list(workers)
            first = number % max(1, len(names))
            for name in names[first:] + names[:first]:
                try:
                    timings.setdefault(name, []).append(workers[name].ask(prompt, new_tokens=plan.new_tokens))
                except SlipstreamError as error:
                    lose(name, error)
    return [replace(row, timings=tuple(timings.get(name, ()))) for name, row in rows.items()]


def _trials(plan: Plan, contestant: Contestant) -> tuple[tuple[dict[str, Any], float], ...]:
    """Total tokens/s with each of the contestant's settings that work; empty where there is nothing to choose."""
    if not plan.trial or len(contestant.variants) == 1:
        return ()
    tried = []
    for variant in contestant.variants:
        try:
            with _worker(plan, contestant, variant) as worker:
                made = [worker.ask(prompt, new_tokens=plan.new_tokens) for prompt in plan.warming]
        except SlipstreamError as error:
            plan.say(f"{contestant.name}: trial with {_named(variant)}: {error}")
            continue
        rate = total_rate(made[WARMING:])
        plan.say(f"{contestant.name}: trial with {_named(variant)}: {rate:.1f} tokens/s")
        tried.append((dict(variant), rate))
    return tuple(tried)


def _worker(plan: Plan, contestant: Contestant, settings: Mapping[str, Any]) -> Worker:
    environment = contestant.environment
    python, environ = Path(sys.executable), dict[str, str]()
    if environment:
        python, environ = installed(environment, plan.folder, say=plan.say)
    log = plan.folder / f"{contestant.name.replace(' ', '-')}.log"
    given = {**plan.shared, "model": plan.weights(contestant.weights), **settings}
    return Worker(python, contestant.worker, given, environ=environ, log=log)


def _named(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in settings.items())
