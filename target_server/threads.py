"""How the model's CPU threads wait for one another. Must be said before torch is imported; knows nothing of models."""

from __future__ import annotations

from collections.abc import MutableMapping

# Rounds of spinning before a thread sleeps: about as long as a step's threads are apart when the machine is quiet.
SPIN_ROUNDS = "1000"


def wait_politely(environ: MutableMapping[str, str]) -> None:
    """Let OpenMP's threads sleep soon when they wait, unless the user's environment says how they shall wait.

    Their default is to spin. With another busy process on the machine, a thread then spins away the very core that
    its sibling needs: products of one decode step took 1950 ms in place of 160 ms (benchmarks/waiting.py).
    """
    if "OMP_WAIT_POLICY" not in environ:
        environ.setdefault("GOMP_SPINCOUNT", SPIN_ROUNDS)
