"""Fixtures for all tests. `tests/` is on the path, so test files can import the helpers beside this one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_models import save_tiny_model


@pytest.fixture(scope="session")
def tiny_model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A 2-layer random Llama (512 tokens in vocabulary and in context) and its tokenizer. Don't write into it."""
    return save_tiny_model(tmp_path_factory.mktemp("models") / "tiny")
