"""What a decode step's matrix products cost by how OpenMP's threads wait, on a quiet machine and beside busy processes.

Run as `python benchmarks/waiting.py`; prints a table and JSON. Each cell is the median of one process of its own, since
the runtime reads its environment once.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time

WAYS = {
    "default": {},
    "spin 1000": {"GOMP_SPINCOUNT": "1000"},
    "spin 20000": {"GOMP_SPINCOUNT": "20000"},
    "passive": {"OMP_WAIT_POLICY": "PASSIVE"},
}
ROWS, STEPS = 8, 15
BUSY = "while True: pass"


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


def cell(way: dict[str, str], busy: int) -> float:
    hogs = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(busy)]  # noqa: S603
    try:
        environ = {**os.environ, **way}
        done = subprocess.run([sys.executable, __file__, "cell"], env=environ, capture_output=True, check=True)  # noqa: S603
        return float(done.stdout)
    finally:
        for hog in hogs:
            hog.kill()


def main() -> None:
    if sys.argv[1:] == ["cell"]:
        print(measure())
        return
    cores = os.cpu_count() or 1
    table = {name: {busy: round(cell(way, busy), 1) for busy in (0, cores)} for name, way in WAYS.items()}
    print(f"{'ms a step':<12}{'quiet':>10}{f'{cores} busy':>10}")
    for name, row in table.items():
        print(f"{name:<12}{row[0]:>10}{row[cores]:>10}")
    print(json.dumps({"machine": platform.processor() or platform.machine(), "cores": cores, "ms": table}))


if __name__ == "__main__":
    main()
