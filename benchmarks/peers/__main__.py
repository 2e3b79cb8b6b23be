"""Our engine against its peers: the same weights, prompts and machine, by turns in one run.

    python -m benchmarks.peers [--prompts 30] [--prompt-tokens 400] [--new-tokens 64] [--threads 2]
        [--only NAME …] [--no-trial]

Installs each peer in an environment of its own, once (llama.cpp is built from source, which takes a while). Peers that
have a choice of settings get the fastest of them, found by trial on other prompts. Then every engine is loaded and
warmed, and each prompt goes to all of them, one at a time, in an order that turns from prompt to prompt. Greedy, end of
text ignored where the engine can. A peer that can't be installed or run is a row with its reason. Ratios, never times.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from functools import partial
from pathlib import Path

from rich.console import Console

from benchmarks.peers.measurement import Plan, measure
from benchmarks.peers.prompts import digest, prompts, warming_prompts
from benchmarks.peers.report import as_json, remarks, table
from benchmarks.peers.roster import OURS, ROSTER, weights
from benchmarks.steps import machine
from cli.paths import cache_folder
from decoding.errors import SlipstreamError
from drafts.vocabulary import Vocabulary
from target_server.store import DEFAULT, locate

OUT = Path(__file__).parents[1] / "out" / "peers.json"
SPARE_TOKENS = 64  # of context: drafts reach past the output's end
WIDTH = 130


def main() -> None:
    options = _options()
    console = Console(stderr=True)
    cache = cache_folder()
    folder = cache / "peers"
    size = {"prompt_tokens": options.prompt_tokens, "new_tokens": options.new_tokens}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        vocabulary = Vocabulary.load(locate(DEFAULT, cache).folder)
        plan = Plan(
            folder=folder,
            weights=partial(weights, cache=cache, folder=folder),
            shared={"threads": options.threads, "context_tokens": sum(size.values()) + SPARE_TOKENS},
            prompts=prompts(vocabulary, count=options.prompts, **size),
            warming=warming_prompts(vocabulary, **size),
            new_tokens=options.new_tokens,
            trial=options.trial,
            say=lambda text: console.print(text, style="dim", highlight=False),
        )
        wanted = [one for one in ROSTER if one is OURS or not options.only or one.name in options.only]
        rows = measure(plan, wanted)
    except SlipstreamError as error:
        sys.exit(f"benchmark: {error}")
    ours = rows[wanted.index(OURS)]
    if not ours.measured:
        sys.exit(f"benchmark: our own engine could not be measured: {ours.reason}")
    shown = Console(width=max(WIDTH, Console().width))
    shown.print(table(ours, rows))
    for remark in remarks(ours, rows, new_tokens=options.new_tokens):
        shown.print(remark, highlight=False)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    written = {
        "what": "engines in processes of their own, one at work at a time; prefill is the time to the first output",
        **as_json(ours, rows),
        "prompts": {"count": len(plan.prompts), **size, "digest": digest(plan.prompts)},
        "trial": options.trial,
        "machine": machine(),
    }
    options.json.write_text(json.dumps(written, indent=2) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--prompts", type=int, default=30)
    parser.add_argument("--prompt-tokens", type=int, default=400)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    names = [one.name for one in ROSTER if one is not OURS]
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, help=f"beside ours: {', '.join(names)}")
    parser.add_argument("--no-trial", dest="trial", action="store_false", help="take each peer's first settings")
    parser.add_argument("--json", type=Path, default=OUT)
    return parser.parse_args()


if __name__ == "__main__":
    main()
