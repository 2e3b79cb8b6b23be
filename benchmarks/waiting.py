"""What a decode step's matrix products cost by how OpenMP's threads wait, on a quiet machine and beside a busy process.

Run as `python benchmarks/waiting.py`; prints a table and JSON. Each cell is the median of one process of its own, since
the runtime reads its environment once. "team": another thread of the same process has a team of OpenMP threads, asleep.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

WAYS = {
    "default": {},
    "spin 1000": {"GOMP_SPINCOUNT": "1000"},
    "spin 20000": {"GOMP_SPINCOUNT": "20000"},
    "passive": {"OMP_WAIT_POLICY": "PASSIVE"},
}
ROWS, STEPS = 8, 15
# Beside a plain loop, and beside another model whose threads spin as they do by default.
BUSY = {
    "loop": "while True: pass",
    "model": "import torch; m = torch.nn.Linear(2048, 2048)\nwhile True: m(torch.randn(8, 2048))",
}


def measure() -> float:
    """Milliseconds of the default model's linear layers at 8 rows, packed as the engine packs them: the median."""
    import torch
    from torch import nn

    from target_server.packing import pack_linears

    shapes = [*[(576, 960), (576, 576), (576, 3072), (1536, 576)] * 30, (576, 49152)]
    model = nn.ModuleList(nn.Linear(inner, outer, bias=False) for inner, outer in shapes)
    rows = [torch.randn(ROWS, inner) for inner, _ in shapes]
    taken = []
    with torch.inference_mode():
        pack_linears(model, rows=ROWS)
        for _ in range(STEPS):
            start = time.perf_counter()
            for layer, row in zip(model, rows, strict=True):
                layer(row)
            taken.append(time.perf_counter() - start)
    return sorted(taken)[STEPS // 2] * 1000


def measure_apart(*, team: bool) -> float:
    """The same on a thread of its own, as the engine's steps run; `team`: another thread has run products before."""
    import torch

    if team:
        torch.nn.Linear(2048, 2048)(torch.randn(64, 2048))
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(measure).result()


def cell(way: dict[str, str], beside: str) -> float:
    hog = subprocess.Popen([sys.executable, "-c", BUSY[beside]]) if beside in BUSY else None  # noqa: S603
    try:
        environ = {**os.environ, **way}
        done = subprocess.run([sys.executable, __file__, "cell", beside], env=environ, capture_output=True, check=True)  # noqa: S603
        return float(done.stdout)
    finally:
        if hog is not None:
            hog.kill()
            hog.wait()


def main() -> None:
    if sys.argv[1:2] == ["cell"]:
        print(measure_apart(team=sys.argv[2] == "team"))
        return
    columns = ("", "team", *BUSY)
    table = {name: {beside or "quiet": round(cell(way, beside), 1) for beside in columns} for name, way in WAYS.items()}
    print(f"{'ms a step':<12}" + "".join(f"{beside or 'quiet':>10}" for beside in columns))
    for name, row in table.items():
        print(f"{name:<12}" + "".join(f"{value:>10}" for value in row.values()))
    print(json.dumps({"machine": platform.machine(), "cores": os.cpu_count(), "ms": table}))


if __name__ == "__main__":
    main()
