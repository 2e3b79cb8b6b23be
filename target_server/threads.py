"""How the model's CPU threads wait for one another. Must be said before torch is imported; knows nothing of models."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

# Rounds of spinning before a waiting thread sleeps: on a quiet machine as fast as endless spinning. With far fewer, or
# none, steps are slower there, since threads sleep between two products (benchmarks/waiting.py).
SPIN_ROUNDS = "20000"


def wait_politely(environ: MutableMapping[str, str]) -> None:
    """Let OpenMP's threads sleep when they have waited for a while, unless the user's environment says how to wait.

    Their default is to spin on. Beside another process that does so too, a thread then spins away the very core that
    its sibling needs, and a step takes many times as long. A machine that is always shared is served better by
    OMP_WAIT_POLICY=PASSIVE.
    """
    if "OMP_WAIT_POLICY" not in environ:
        environ.setdefault("GOMP_SPINCOUNT", SPIN_ROUNDS)


def apart(job: Callable[[], T]) -> T:
    """Run a job on a thread that ends with it.

    Every thread that runs parallel operations has a team of OpenMP threads for as long as it lives. With more of them
    than cores, libgomp lets threads sleep almost at once, whatever SPIN_ROUNDS says: a team that loading a model left
    behind would make every step longer (benchmarks/waiting.py, "team").
    """
    with ThreadPoolExecutor(1, "apart") as executor:
        return executor.submit(job).result()
