"""Where a step's time goes: around the forward pass, and inside it, with the share that isn't matrix products.

    python benchmarks/step_profile.py [--model NAME] [--rounds 3] [--new-tokens 64] [--prompt-tokens 512] [--json FILE]

The engine runs in this process and drafts by itself (`Run`). Each round runs each case twice, in alternating order:
once for the engine's own account of its steps, once under torch's profiler, which says what operations take. Both runs
make the same tokens, or this fails. The profiler costs little in an operation that lasts, and much in small ones; so
what it says of products and attention is believed, and the rest is what the account without it leaves.

draft wait: the step loop waits for sequences that are just drafting, or has nothing to do between two steps; that is
drafting and the way to and from the sequence. The other parts are those of `StepRecord`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from benchmarks.figures import write
from benchmarks.peers.prompts import Prompt, prompts
from benchmarks.profile_report import CASES, Account, Case, Operations, show, summary
from cli import logs
from cli.paths import cache_folder
from decoding.errors import SlipstreamError
from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules
from decoding.verdict import DecodeRequest
from drafts.settings import DraftSettings
from evaluation.errors import EvaluationFailed
from target_server.lifecycle import Served
from target_server.loading import load
from target_server.settings import TargetSettings
from target_server.step_metrics import StepRecord
from target_server.threads import wait_politely

if TYPE_CHECKING:
    from torch.profiler import profile

OUT = Path(__file__).parent / "out" / "profile.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A step, and the clock's reading when it had been delivered, in microseconds."""

    record: StepRecord
    at_us: float


class Runs:
    """Runs cases on one engine, and notes its steps."""

    def __init__(self, served: Served, given: Sequence[Prompt], *, new_tokens: int) -> None:
        self._served = served
        self._given = given
        self._new_tokens = new_tokens
        self._seen: list[Seen] = []
        self._begun_us = 0.0
        served.listen(lambda record: self._seen.append(Seen(record=record, at_us=time.perf_counter() * 1e6)))

    async def run(self, case: Case, *, profiled: bool) -> tuple[Account, list[tuple[int, ...]]]:
        """A case once: its steps' times, and every session's tokens."""
        self._seen.clear()
        barrier = asyncio.Barrier(case.sessions)
        profiler = _profiler() if profiled else None

        async def begin() -> None:
            if await barrier.wait() == 0:
                if profiler is not None:
                    profiler.start()
                self._begun_us = time.perf_counter() * 1e6
            await barrier.wait()

        work = self._prefill if case.kind == "prefill" else self._decode
        tokens = await asyncio.gather(*(work(case, number, begin) for number in range(case.sessions)))
        operations = None
        if profiler is not None:
            profiler.stop()
            operations = _operations(profiler)
        seen = [each for each in self._seen if each.at_us - each.record.busy_us >= self._begun_us]
        return _account(seen, operations), tokens

    async def _decode(self, case: Case, number: int, begin: Callable[[], Awaitable[None]]) -> tuple[int, ...]:
        """Decode a prompt; begin when its first token is there."""
        request = self._request(case, number)
        tokens: list[int] = []
        async with self._served.target.open(request) as verifier:
            async for verdict in verifier.run(1):
                tokens += verdict.tokens
            await begin()
            async for verdict in verifier.run(self._new_tokens, drafter=request.drafter):
                tokens += verdict.tokens
            await asyncio.sleep(0.01)  # the last step's record comes after its verdict
        return tuple(tokens)

    async def _prefill(self, case: Case, number: int, begin: Callable[[], Awaitable[None]]) -> tuple[int, ...]:
        """Have a prompt cached, and nothing decoded."""
        request = self._request(case, number)
        await begin()
        async with self._served.target.open(request):
            while sum(each.record.rows for each in self._seen) < len(request.prompt) - 1:  # noqa: ASYNC110
                await asyncio.sleep(0.002)  # steps are told of on another thread
        return ()

    def _request(self, case: Case, number: int) -> DecodeRequest:
        prompt = self._given[number]
        drafter = self._served.drafters.for_language(prompt.language) if case.drafting else None
        return DecodeRequest(
            prompt=prompt.tokens,
            sampling=SamplingConfig(),
            stop=StopRules(max_tokens=self._new_tokens + 1),
            language=prompt.language,
            drafter=drafter.name if drafter else "",
            tokenizer_fingerprint=self._served.vocabulary.fingerprint,
            request_id=f"profile-{number}",
        )


async def measure(served: Served, given: Sequence[Prompt], options: argparse.Namespace) -> dict[Case, list[Account]]:
    """Accounts of each case, profiled ones among them. Raises EvaluationFailed where a case didn't repeat itself."""
    runs = Runs(served, given, new_tokens=options.new_tokens)
    found: dict[Case, list[Account]] = {case: [] for case in CASES}
    for turn in range(options.rounds):
        for case in CASES:
            if not turn:
                await runs.run(case, profiled=False)  # warms up
            outputs = []
            for profiled in (False, True) if turn % 2 == 0 else (True, False):
                account, tokens = await runs.run(case, profiled=profiled)
                found[case].append(account)
                outputs.append(tokens)
            if outputs[0] != outputs[1]:
                raise EvaluationFailed(f"{case.name}: output differs from run to run")
    return found


def _account(seen: Sequence[Seen], operations: Operations | None) -> Account:
    """The first step is left out but as the beginning of the second: what came before it isn't known."""
    counted = seen[1:]
    if not counted:
        raise EvaluationFailed("too few steps to say anything: ask for more tokens")
    records = [each.record for each in counted]
    between = seen[-1].at_us - seen[0].at_us - sum(record.wait_us + record.busy_us for record in records)
    return Account(
        steps=len(records),
        all_steps=len(seen),
        rows=sum(record.rows for record in records),
        total_rows=sum(record.total for record in records),
        draft_wait_us=sum(record.wait_us for record in records) + max(0.0, between),
        schedule_us=sum(record.schedule_us for record in records),
        forward_us=sum(record.forward_us for record in records),
        sample_us=sum(record.sample_us for record in records),
        deliver_us=sum(record.deliver_us for record in records),
        operations=operations,
    )


def _profiler() -> profile:
    from torch._C._profiler import _ExperimentalConfig  # the only way to see other threads' operations
    from torch.profiler import ProfilerActivity, profile

    return profile(activities=[ProfilerActivity.CPU], experimental_config=_ExperimentalConfig(profile_all_threads=True))


def _operations(profiler: profile) -> Operations:
    return Operations.of([(each.key, each.count, each.self_cpu_time_total) for each in profiler.key_averages()])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default="default")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--json", type=Path, default=OUT)
    options = parser.parse_args()
    logs.configure(logs.LogSettings(level="warning"))
    wait_politely(os.environ)
    from benchmarks.steps import machine  # imports torch, which must hear of it first

    settings = replace(TargetSettings(model=options.model), retained_prefixes=0)
    try:
        served = load(settings, DraftSettings(), cache_folder=cache_folder())
        given = prompts(
            served.vocabulary,
            count=max(case.sessions for case in CASES),
            prompt_tokens=options.prompt_tokens,
            new_tokens=options.new_tokens,
        )
        accounts = asyncio.run(_closing(served, given, options))
    except SlipstreamError as error:
        sys.exit(f"benchmark: {error}")
    found = summary(accounts)
    show(Console(), found)
    names = ("model", "rounds", "new_tokens", "prompt_tokens")
    write(
        options.json,
        {
            "what": "milliseconds a step, medians of runs; operations inside the forward pass by torch's profiler",
            **found,
            "settings": {name: getattr(options, name) for name in names},
            "model": {"revision": served.description.model_revision, "dtype": served.description.dtype},
            "machine": machine(),
        },
    )


async def _closing(served: Served, given: Sequence[Prompt], options: argparse.Namespace) -> dict[Case, list[Account]]:
    try:
        return await measure(served, given, options)
    finally:
        await served.close()


if __name__ == "__main__":
    main()
