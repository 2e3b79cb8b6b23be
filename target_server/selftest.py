"""The self-test: what this machine's arithmetic keeps of the promise, and how long steps take on it.

Runs on an engine that serves nobody else. Prompts are random tokens, since neither bits nor times depend on what they
say; the parity audit takes prompts from real files. Knows nothing of how its findings are shown.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from decoding.drafting import Draft
from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules
from decoding.verdict import DecodeRequest
from target_server.engine import Engine
from target_server.errors import UnsupportedModel
from target_server.loader import LoadedModel
from target_server.model import Model
from target_server.parity import Parity, check_parity
from target_server.probe import probing
from target_server.settings import TargetSettings
from target_server.steps import Segment

LOADS = ((1, 0), (2, 0), (4, 0), (8, 0), (0, 1), (1, 1))  # sequences with a block, chunks
DEPTH = 256  # tokens before a timed block
LONG_PROMPT = 1024
SHORT_PROMPT, OUTPUT = 48, 24
TEMPERATURES = (0.0, 0.0, 0.8, 1.0)
ONE_IN_WRONG = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How often each step is timed, and how many prompts are decoded twice."""

    repeats: int = 9
    prompts: int = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Milliseconds of a step of so many blocks and chunks; rows: its tokens, total: with padding."""

    blocks: int
    chunks: int
    rows: int
    total: int
    median_ms: float
    least_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTime:
    """Milliseconds to the first token of a prompt that is new, and of one that is a token longer.

    reused: tokens of the second that were cached.
    """

    tokens: int
    reused: int
    cold_ms: float
    warm_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """Prompts decoded plainly and alone, then drafted for and together; `differing` of them gave other tokens."""

    prompts: int
    differing: int
    tokens: int
    accepted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTest:
    """What came out.

    refusal: why the engine would not serve, "" where it would. decode_rows, prefill_rows: the row counts of steps.
    replayed: whether decode steps come from CUDA graphs.
    """

    model: str
    dtype: str
    device: str
    device_name: str
    threads: int
    mode: str
    refusal: str
    parity: Parity
    decode_rows: tuple[int, ...]
    prefill_rows: tuple[int, ...]
    replayed: bool
    steps: tuple[StepTime, ...]
    prompt: PromptTime
    speculation: Speculation

    @property
    def passed(self) -> bool:
        return self.parity.holds and not self.refusal and not self.speculation.differing

    def as_values(self) -> dict[str, Any]:
        """As JSON takes it."""
        return {"passed": self.passed, **asdict(self)}


async def self_test(
    loaded: LoadedModel,
    settings: TargetSettings,
    *,
    effort: Effort,
    clock: Callable[[], float] = time.perf_counter,
) -> SelfTest:
    """Build an engine and try it. Where it refuses to serve, the rest is tried all the same. Raises BudgetExceeded."""
    engine = Engine(loaded, settings, clock=clock)
    try:
        refusal = ""
        size = min(loaded.vocabulary.size, loaded.vocabulary_size)
        try:
            parity = await engine.warm_up()
        except UnsupportedModel as refused:
            refusal = str(refused)
            parity = await engine.inspect(lambda model: _parity(model, vocabulary_size=size))
        shapes = await engine.inspect(lambda model: model.shapes)
        dice = random.Random(0)  # noqa: S311 - it only has to be the same every time

        def draw(length: int) -> tuple[int, ...]:
            return tuple(dice.randrange(size) for _ in range(length))

        steps = await engine.inspect(lambda model: step_times(model, repeats=effort.repeats, clock=clock, draw=draw))
        return SelfTest(
            model=loaded.name,
            dtype=loaded.dtype,
            device=loaded.device,
            device_name=_device_name(loaded.hf.device),
            threads=await engine.inspect(lambda _: torch.get_num_threads()),
            mode=settings.parity,
            refusal=refusal,
            parity=parity,
            decode_rows=shapes.decode,
            prefill_rows=shapes.prefill,
            replayed=await engine.inspect(lambda model: model.shortcut is not None),
            steps=steps,
            prompt=await _prompt_time(engine, loaded, draw),
            speculation=await _speculation(engine, loaded, draw, dice, prompts=effort.prompts),
        )
    finally:
        await asyncio.to_thread(engine.close)


def step_times(
    model: Model, *, repeats: int, clock: Callable[[], float], draw: Callable[[int], tuple[int, ...]]
) -> tuple[StepTime, ...]:
    """Times of steps by what they hold, taken by turns; on the step loop's thread, with every slot free.

    Left out is what no step of this model can hold.
    """
    shape = model.shape
    start = max(0, min(DEPTH, shape.context_tokens - shape.block_rows))
    loads: list[tuple[int, int, list[Segment], int]] = []
    for blocks, chunks in LOADS:
        total = model.shapes.total(decode_rows=blocks * shape.block_rows, prefill_rows=chunks * shape.prefill_rows)
        if total is None or blocks + chunks > shape.slots:
            continue
        segments = [
            Segment(slot=slot, start=start, tokens=draw(shape.block_rows), prefill=False) for slot in range(blocks)
        ]
        segments += [
            Segment(slot=blocks + place, start=0, tokens=draw(shape.prefill_rows), prefill=True)
            for place in range(chunks)
        ]
        loads.append((blocks, chunks, segments, total))
    taken: list[list[float]] = [[] for _ in loads]
    for turn in range(repeats + 1):
        for times, (_, _, segments, total) in zip(taken, loads, strict=True):
            began = clock()
            model.step(segments, total=total)  # it ends with a transfer from the device
            if turn:  # the first is for warming up
                times.append((clock() - began) * 1000)
    for slot in range(shape.slots):
        model.cache.wipe(slot)
    return tuple(
        StepTime(
            blocks=blocks,
            chunks=chunks,
            rows=sum(len(segment.tokens) for segment in segments),
            total=total,
            median_ms=statistics.median(times),
            least_ms=min(times),
        )
        for times, (blocks, chunks, segments, total) in zip(taken, loads, strict=True)
    )


async def _prompt_time(engine: Engine, loaded: LoadedModel, draw: Callable[[int], tuple[int, ...]]) -> PromptTime:
    most = engine.limits.prompt_tokens
    prompt = draw(max(1, min(LONG_PROMPT, most - 1)))
    found: list[tuple[int, float]] = []
    for tokens in (prompt, (prompt + draw(1))[-most:]):
        async with engine.open(_request(loaded, tokens, temperature=0.0, tokens=1)) as sequence:
            async for _ in sequence.run(1):
                pass
            finished = await sequence.finish()
            found.append((sequence.opened.cached_tokens, finished.first_token_us / 1000))
    (_, cold_ms), (reused, warm_ms) = found
    return PromptTime(tokens=len(prompt), reused=reused, cold_ms=cold_ms, warm_ms=warm_ms)


async def _speculation(
    engine: Engine, loaded: LoadedModel, draw: Callable[[int], tuple[int, ...]], dice: random.Random, *, prompts: int
) -> Speculation:
    """Decode prompts one after the other without drafts; then all together, with drafts that are wrong now and then."""
    length = min(SHORT_PROMPT, engine.limits.prompt_tokens)
    output = min(OUTPUT, engine.limits.context_tokens - length)
    requests = [
        _request(loaded, draw(length), temperature=TEMPERATURES[number % len(TEMPERATURES)], tokens=output)
        for number in range(prompts)
    ]
    plain = [await _decode(engine, request, drafts=()) for request in requests]
    drafts = [tuple(token if dice.randrange(ONE_IN_WRONG) else draw(1)[0] for token in tokens) for tokens, _ in plain]
    places = asyncio.Semaphore(engine.free_sessions)

    async def with_drafts(request: DecodeRequest, guesses: Sequence[int]) -> tuple[list[int], int]:
        async with places:
            return await _decode(engine, request, drafts=guesses)

    drafted = await asyncio.gather(*map(with_drafts, requests, drafts))
    return Speculation(
        prompts=prompts,
        differing=sum(one != other for (one, _), (other, _) in zip(plain, drafted, strict=True)),
        tokens=sum(len(tokens) for tokens, _ in drafted),
        accepted=sum(accepted for _, accepted in drafted),
    )


async def _decode(engine: Engine, request: DecodeRequest, *, drafts: Sequence[int]) -> tuple[list[int], int]:
    """All tokens of a request, and how many of them were drafted; `drafts` are guesses at the tokens."""
    found: list[int] = []
    accepted = 0
    async with engine.open(request) as sequence:
        finished = False
        while not finished:
            left = min(engine.limits.block_rows, request.stop.max_tokens - len(found)) - 1
            verdict = await sequence.verify(
                Draft(
                    position=len(request.prompt) + len(found),
                    tokens=tuple(drafts[len(found) : len(found) + left]),
                    sampling_fingerprint="",
                )
            )
            found += verdict.tokens
            accepted += verdict.accepted
            finished = verdict.finish is not None
    return found, accepted


def _request(loaded: LoadedModel, prompt: tuple[int, ...], *, temperature: float, tokens: int) -> DecodeRequest:
    return DecodeRequest(
        prompt=prompt,
        sampling=SamplingConfig(temperature=temperature),
        stop=StopRules(max_tokens=tokens),
        language="",
        drafter="",
        tokenizer_fingerprint=loaded.vocabulary.fingerprint,
        request_id="self-test",
    )


def _parity(model: Model, *, vocabulary_size: int) -> Parity:
    with probing(model, vocabulary_size=vocabulary_size) as probe:
        return check_parity(probe)


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return torch.backends.cpu.get_cpu_capability()
