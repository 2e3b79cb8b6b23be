"""What it costs to decide the tokens of a block of 8 rows, in numpy and in torch, row by row and all at once.

Run as `python benchmarks/sampling.py [--device cuda] [--json FILE]`; prints a table. Cells are median microseconds of a
whole verdict, the ways taken by turns: with every drafted token accepted, and with the first one rejected. The rows
fall off as a language model's do: a few tokens far ahead of a broad tail.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import torch

from decoding.acceptance import pick
from decoding.arithmetic import Arithmetic
from decoding.drafting import Draft
from decoding.processors import Context
from decoding.sampling import SamplingConfig
from decoding.sequence import Sequence
from decoding.stopping import StopRules
from decoding.verdict import DecodeRequest
from target_server.arithmetic import HostArithmetic, TorchArithmetic

VOCABULARY, ROWS = 49_152, 8
PROMPT = tuple(range(100, 500))
CONFIGS = {
    "greedy": SamplingConfig(),
    "greedy, penalty 1.1": SamplingConfig(repetition_penalty=1.1),
    "temperature 0.2": SamplingConfig(temperature=0.2),
    "temperature 0.8": SamplingConfig(temperature=0.8),
    "0.8, top-k 50, top-p 0.95": SamplingConfig(temperature=0.8, top_k=50, top_p=0.95),
    "0.8, top-p 0.95": SamplingConfig(temperature=0.8, top_p=0.95),
    "0.8, min-p 0.05": SamplingConfig(temperature=0.8, min_p=0.05),
}


def block() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(ROWS, VOCABULARY, generator=generator) * 3
    rows[:, :200] += torch.linspace(14, 0, 200)
    return rows


def opened(config: SamplingConfig, arithmetic: Arithmetic[torch.Tensor, Any]) -> Sequence[torch.Tensor]:
    request = DecodeRequest(
        prompt=PROMPT,
        sampling=config,
        stop=StopRules(),
        language="",
        drafter="",
        tokenizer_fingerprint="",
        request_id="benchmark",
    )
    return Sequence(
        request,
        end_of_text=frozenset(),
        token_bytes=lambda _: b"x",
        vocabulary_size=VOCABULARY,
        context_length=2048,
        arithmetic=arithmetic,
    )


def drafts(config: SamplingConfig, rows: torch.Tensor) -> dict[str, Draft]:
    """One that is accepted whole, and one whose first token is wrong."""
    tokens: tuple[int, ...] = ()
    for index, row in enumerate(rows.cpu()):
        context, position = Context(PROMPT + tokens), len(PROMPT) + index
        tokens += (pick(row, context, position, config, HostArithmetic(), valid_size=VOCABULARY).token,)
    wrong = ((tokens[0] + 1) % VOCABULARY, *tokens[1:])
    return {
        name: Draft(position=len(PROMPT), tokens=drafted[: ROWS - 1], sampling_fingerprint="")
        for name, drafted in (("all accepted", tokens), ("first rejected", wrong))
    }


def measure(device: torch.device, rounds: int) -> list[dict[str, object]]:
    ways: dict[str, Arithmetic[torch.Tensor, Any]] = {
        "torch, row by row": TorchArithmetic(),
        "torch, at once": TorchArithmetic(rows_at_once=ROWS),
    }
    if device.type == "cpu":
        ways = {"numpy, row by row": HostArithmetic(), "numpy, at once": HostArithmetic(rows_at_once=ROWS), **ways}
    rows = block().to(device)
    found: list[dict[str, object]] = []
    for name, config in CONFIGS.items():
        for kind, draft in drafts(config, rows).items():
            times: defaultdict[str, list[float]] = defaultdict(list)
            for _ in range(rounds):
                verdicts = []
                for way, arithmetic in ways.items():
                    sequence = opened(config, arithmetic)
                    start = time.perf_counter()
                    verdicts.append(sequence.judge(draft, rows))
                    times[way].append((time.perf_counter() - start) * 1e6)
                if len({verdict.tokens for verdict in verdicts}) != 1:
                    raise SystemExit(f"benchmark: the ways differ in their tokens: {name}, {kind}")
            microseconds = {way: round(median(taken), 1) for way, taken in times.items()}
            found.append({"sampling": name, "draft": kind, "us": microseconds})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", help="where the rows lie")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args()
    found = measure(torch.device(options.device), options.rounds)
    ways = list(found[0]["us"])  # type: ignore[call-overload]
    print(f"{'microseconds a block':45}", *(f"{way:>18}" for way in ways))
    for entry in found:
        times: Any = entry["us"]
        print(f"{entry['sampling']}, {entry['draft']}".ljust(45), *(f"{times[way]:18.0f}" for way in ways))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        settings = {"vocabulary": VOCABULARY, "rows": ROWS, "device": options.device, "rounds": options.rounds}
        what = {"torch": torch.__version__, "threads": torch.get_num_threads(), **settings}
        options.json.write_text(json.dumps({"settings": what, "blocks": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
