"""Fixtures for all tests. `tests/` is on the path, so test files can import the helpers beside this one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from target_server.threads import wait_politely

wait_politely(os.environ)  # before anything imports torch

from tiny_models import save_tiny_model  # noqa: E402

if TYPE_CHECKING:
    from target_server.loader import LoadedModel


CHOOSING = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "FBGEMM_ENABLE_INSTRUCTIONS")


def pytest_report_header() -> str:
    """On what the tests run: last bits depend on it."""
    import torch

    chosen = [f"{name}={os.environ[name]}" for name in CHOOSING if name in os.environ]
    return ", ".join((f"torch {torch.__version__} with {torch.backends.cpu.get_cpu_capability()}", *chosen))


@pytest.fixture(scope="session")
def tiny_model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A 2-layer random Llama (512 tokens in vocabulary and in context) and its tokenizer. Don't write into it."""
    return save_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def tiny_loaded(tiny_model_folder: Path) -> LoadedModel:
    """The tiny model in memory, for engines in this process; one engine at a time may run it."""
    from engines import SMALL

    from target_server.loader import load
    from target_server.store import locate

    return load(locate(str(tiny_model_folder), tiny_model_folder), SMALL)


@pytest.fixture(scope="session")
def default_loaded() -> LoadedModel:
    """The default model in memory, from the user's own cache; for tests marked `model`."""
    from cli.paths import cache_folder
    from target_server.errors import ModelUnavailable
    from target_server.loader import load
    from target_server.settings import TargetSettings
    from target_server.store import locate

    try:
        located = locate("default", cache_folder())
    except ModelUnavailable as missing:
        pytest.skip(str(missing))
    return load(located, TargetSettings())
