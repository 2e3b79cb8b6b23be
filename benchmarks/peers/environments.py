"""Environments of the peers' own: made once with pip, kept in the cache, made anew when what is asked of them changes.

Knows nothing of what runs in them. Each leaves a log of its installation beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from ctypes.util import find_library
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock

from evaluation.errors import EvaluationFailed

REQUIREMENTS = Path(__file__).parent / "requirements"
READY = ".ready"

# llama.cpp's build options by the processor features that each needs, as Linux names them.
GGML_FEATURES = {
    "SSE42": {"sse4_2"},
    "AVX": {"avx"},
    "AVX2": {"avx2"},
    "FMA": {"fma"},
    "F16C": {"f16c"},
    "BMI2": {"bmi2"},
    "AVX_VNNI": {"avx_vnni"},
    "AVX512": {"avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw"},
    "AVX512_VBMI": {"avx512f", "avx512vbmi"},
    "AVX512_VNNI": {"avx512f", "avx512_vnni"},
    "AVX512_BF16": {"avx512f", "avx512_bf16"},
    "AMX_TILE": {"amx_tile"},
    "AMX_INT8": {"amx_tile", "amx_int8"},
    "AMX_BF16": {"amx_tile", "amx_bf16"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """name: of its folder and of its file in requirements/. environ: variables that its installation needs.

    unwanted: packages that come along and are taken out again.
    preloaded: shared libraries that are loaded before all others by whatever runs in it: paths in its folder, or names
        of the system's, used where it has them.
    """

    name: str
    environ: Mapping[str, str] = field(default_factory=dict)
    unwanted: tuple[str, ...] = ()
    preloaded: tuple[str, ...] = ()

    @property
    def requirements(self) -> Path:
        return REQUIREMENTS / f"{self.name}.txt"

    @property
    def digest(self) -> str:
        """What makes an environment another one: its requirements, how it is built, and for which Python."""
        parts = [self.requirements.read_text(), dict(self.environ), self.unwanted, sys.version]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def installed(environment: Environment, folder: Path, *, say: Callable[[str], None]) -> tuple[Path, dict[str, str]]:
    """The environment's Python and the variables to run it with; makes it under `folder` where it isn't there.

    `say` is told where that takes minutes. Raises EvaluationFailed.
    """
    home = folder / environment.name
    python = home / "bin" / "python"
    with FileLock(home.with_suffix(".lock")):
        ready = home / READY
        if not (ready.exists() and ready.read_text() == environment.digest):
            if home.exists():
                shutil.rmtree(home)
            log = home.with_suffix(".log")
            say(f"installing {environment.requirements.read_text().strip()} in {home}, which takes minutes")
            with log.open("w") as written:
                for command in _commands(environment, home, python):
                    # Our own interpreters with constant arguments: nothing here comes from outside.
                    done = subprocess.run(  # noqa: S603
                        command, stdout=written, stderr=subprocess.STDOUT, env={**os.environ, **environment.environ}
                    )
                    if done.returncode:
                        raise EvaluationFailed(f"its environment can't be made: {complaint(log)} ({log.name})")
            ready.write_text(environment.digest)
    libraries = [str(home / name) if "/" in name else find_library(name) for name in environment.preloaded]
    return python, {"LD_PRELOAD": ":".join(filter(None, libraries))} if environment.preloaded else {}


def _commands(environment: Environment, home: Path, python: Path) -> list[list[str]]:
    pip = [str(python), "-m", "pip"]
    commands = [
        [sys.executable, "-m", "venv", str(home)],
        [*pip, "install", "--disable-pip-version-check", "--requirement", str(environment.requirements)],
    ]
    return commands + ([[*pip, "uninstall", "--yes", *environment.unwanted]] if environment.unwanted else [])


def complaint(log: Path, *, characters: int = 200) -> str:
    """What a log says went wrong: its last line that names an error, else its last line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.partition(":")[0].lower()]
    return (errors or lines or ["it said nothing"])[-1][:characters]


def ggml_options(features: Collection[str]) -> str:
    """CMake's options for llama.cpp on a processor with these features; its own guess where none is known.

    The guess asks the processor for its model, and on a virtual one names instructions that it doesn't have.
    """
    if not features:
        return "-DGGML_NATIVE=ON"
    has = set(features)
    named = [f"-DGGML_{name}={'ON' if needs <= has else 'OFF'}" for name, needs in GGML_FEATURES.items()]
    return " ".join(["-DGGML_NATIVE=OFF", *named])


def processor_features(information: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """What Linux says this x86 processor can do; empty elsewhere."""
    if not information.exists():
        return frozenset()
    for line in information.read_text().splitlines():
        if line.startswith("flags"):
            return frozenset(line.partition(":")[2].split())
    return frozenset()
