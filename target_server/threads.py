"""How the model's CPU threads wait for one another. Must be said before torch is imported; knows nothing of models."""

from __future__ import annotations

from collections.abc import MutableMapping

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
