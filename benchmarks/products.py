"""What packing and joining linear layers gain: the default model's layer shapes, by turns, in times of oneDNN's layout.

`python benchmarks/products.py`: random weights, each shape in as many copies as make the cache of a core too small.
With OMP_NUM_THREADS=1 it counts the thread's own time, which other programs disturb little.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from target_server.fusing import JointLinear, JointPart
from target_server.packing import HalfProduct, Product, ReorderedProduct

WIDTH, KEYS, INNER, VOCABULARY = 576, 192, 1536, 49152
LAYERS, TURNS = 30, 12
LAYOUT_ROWS = 8
GROUPS = {
    "queries, keys, values": (WIDTH, [WIDTH, KEYS, KEYS]),
    "gate, up": (WIDTH, [INNER, INNER]),
    "down": (INNER, [WIDTH]),
    "head": (WIDTH, [VOCABULARY]),
}


def group(inputs: int, outputs: list[int], *, half: bool, joined: bool) -> list[Callable[[Tensor], Tensor]]:
    """The layers that share an input, packed: each on its own, or as parts of one."""
    layers = [nn.Linear(inputs, size, bias=False).requires_grad_(False) for size in outputs]
    for layer in layers:
        layer.weight.copy_(layer.weight.half())

    def pack(layer: nn.Linear) -> Product:
        return HalfProduct(layer.weight, None) if half else ReorderedProduct(layer.weight, None, rows=LAYOUT_ROWS)

    if not joined:
        return [pack(layer) for layer in layers]
    joint = JointLinear(layers)
    joint.linear = _Called(pack(joint.linear))
    return [JointPart(joint, index, layer) for index, layer in enumerate(layers)]


class _Called(nn.Module):
    def __init__(self, product: Product) -> None:
        super().__init__()
        self.product = product

    def forward(self, rows: Tensor) -> Tensor:
        return self.product(rows)


@torch.inference_mode()
def main() -> None:
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    print(f"{torch.get_num_threads()} threads; least milliseconds of {TURNS} turns, in brackets over oneDNN's")
    for name, (inputs, outputs) in GROUPS.items():
        copies = 1 if name == "head" else LAYERS
        kinds = {
            f"{'half' if half else 'oneDNN'}{', joined' if joined else ''}": [
                group(inputs, outputs, half=half, joined=joined) for _ in range(copies)
            ]
            for half in (False, True)
            for joined in ((False, True) if len(outputs) > 1 else (False,))
        }
        for rows in (1, 8, 32, 64, 128):
            given = torch.randn(1, rows, inputs)
            best = dict.fromkeys(kinds, float("inf"))
            for _ in range(TURNS):
                for kind, groups in kinds.items():
                    start = clock()
                    for layers in groups:
                        for layer in layers:
                            layer(given)
                    best[kind] = min(best[kind], (clock() - start) * 1000)
            shown = "  ".join(f"{kind} {taken:.2f} ({taken / best['oneDNN']:.2f})" for kind, taken in best.items())
            print(f"{name}, {rows} rows: {shown}", flush=True)


if __name__ == "__main__":
    main()
