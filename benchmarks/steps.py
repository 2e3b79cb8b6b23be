"""What one decode step costs by its rows, and what it ran on: so that a speed-up can be judged.

Plain decoding runs blocks of the same fixed rows as speculation does, or outputs would differ. If a step of one row
were much cheaper, plain decoding would be handicapped by that; this says by how much. Imports torch only when it runs.
"""

from __future__ import annotations

import os
import platform
import time
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
PACKED_ROWS = 2  # the fewest that the engine packs weights for


def step_costs(settings: TargetSettings, *, cache_folder: Path) -> dict[str, float]:
    """Median milliseconds of decode steps behind 512 tokens, by turns.

    one_row_ms: one row, on weights packed for the fewest rows. block_ms: the engine's own step of `block_rows` rows.
    """
    models = {
        "one_row_ms": _model(replace(settings, block_rows=PACKED_ROWS), 1, cache_folder),
        "block_ms": _model(settings, settings.block_rows, cache_folder),
    }
    times: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(STEPS):
        for name, model in models.items():
            start = time.perf_counter()
            model.decode(0, BEHIND_TOKENS, [1] * model.shape.block_rows)
            times[name].append((time.perf_counter() - start) * 1000)
    return {name: round(median(taken), 2) for name, taken in times.items()}


def _model(settings: TargetSettings, rows: int, cache_folder: Path) -> Model:
    from target_server.loader import load
    from target_server.model import Model, StepShape

    loaded = load(locate(settings.model, cache_folder, revision=settings.revision), settings)
    shape = StepShape(
        block_rows=rows, prefill_rows=settings.prefill_rows, context_tokens=settings.context_tokens, slots=1
    )
    return Model(loaded.hf, loaded.layers, shape=shape, kv_cache_bytes=settings.kv_cache_bytes)


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
