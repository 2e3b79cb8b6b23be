"""What one decode step costs by its rows, and what it ran on: so that a speed-up can be judged.

Plain decoding runs steps of the fewest rows that give the same bits as a block's. If a step of one row by itself were
much cheaper, plain decoding would be handicapped by that; this says by how much. Imports torch only when it runs.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from target_server.settings import TargetSettings
from target_server.store import locate

if TYPE_CHECKING:
    from target_server.model import Model

STEPS = 25
BEHIND_TOKENS = 512
PACKED_ROWS = 2  # the fewest that weights are packed for


def step_costs(settings: TargetSettings, *, cache_folder: Path) -> dict[str, float]:
    """Median milliseconds of decode steps behind 512 tokens, by turns.

    one_row_ms: one row that is padded to nothing, on weights packed for the fewest rows. plain_ms, block_ms: the
    engine's own steps, of plain decoding and of a full block of one sequence.
    """
    from target_server.shapes import canonical
    from target_server.steps import Segment

    single = _model(replace(settings, block_rows=PACKED_ROWS), cache_folder)
    single.shapes = canonical(decode_rows=1, prefill_rows=settings.prefill_rows)
    model = _model(settings, cache_folder)

    def steps(model: Model, rows: int) -> Callable[[], object]:
        total = model.shapes.total(decode_rows=rows, prefill_rows=0) or rows
        segment = Segment(slot=0, start=BEHIND_TOKENS, tokens=(1,) * rows, prefill=False)
        return lambda: model.step([segment], total=total)

    ways = {
        "one_row_ms": steps(single, 1),
        "plain_ms": steps(model, 1),
        "block_ms": steps(model, model.shape.block_rows),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(STEPS):
        for name, step in ways.items():
            start = time.perf_counter()
            step()
            times[name].append((time.perf_counter() - start) * 1000)
    return {name: round(median(taken), 2) for name, taken in times.items()}


def _model(settings: TargetSettings, cache_folder: Path) -> Model:
    """As the engine has it, its shapes found."""
    from target_server.loader import load
    from target_server.warm_up import build_model, warm_up

    settings = replace(settings, sessions=1, retained_prefixes=0)
    loaded = load(locate(settings.model, cache_folder, revision=settings.revision), settings)
    model = build_model(loaded, settings, context_tokens=min(settings.context_tokens, loaded.context_tokens))
    warm_up(model, loaded, settings, vocabulary_size=loaded.vocabulary_size)
    return model


def machine() -> dict[str, object]:
    """What it ran on."""
    import torch

    cpu = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        named = (line for line in information.read_text().splitlines() if line.startswith("model name"))
        cpu = next(named, cpu).partition(":")[2].strip() or cpu
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }
