"""Decode steps as CUDA graphs, where there is CUDA: recorded, used, and equal to the model's own steps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import torch
from engines import decode_plainly, decode_with, noisy_oracle, request_for, settings, tokens_of

from decoding.sampling import SamplingConfig
from target_server.engine import Engine
from target_server.loader import LoadedModel, load
from target_server.model import Model
from target_server.selftest import Effort, self_test
from target_server.settings import TargetSettings
from target_server.store import locate

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device on this machine"),
]

VOCABULARY = 512


def on_cuda(dtype: str) -> TargetSettings:
    return settings(device="cuda", dtype=dtype, sessions=4)


@pytest.fixture(params=["float32", "bfloat16"])
def loaded(request: pytest.FixtureRequest, tiny_model_folder: Path) -> LoadedModel:
    return load(locate(str(tiny_model_folder), tiny_model_folder), on_cuda(request.param))


@pytest.fixture
async def engine(loaded: LoadedModel) -> AsyncIterator[Engine]:
    engine = Engine(loaded, on_cuda(loaded.dtype))
    await engine.warm_up()
    yield engine
    engine.close()


async def test_decode_steps_are_replayed(engine: Engine) -> None:
    assert await engine.inspect(lambda model: model.shortcut is not None)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
async def test_replay_and_drafts_change_no_token(engine: Engine, loaded: LoadedModel, temperature: float) -> None:
    def forgo(model: Model) -> None:
        model.shortcut = None

    request = request_for(loaded, range(1, 41), max_tokens=48, sampling=SamplingConfig(temperature=temperature, seed=3))
    replayed = tokens_of((await decode_plainly(engine, request))[0])
    guess = noisy_oracle(replayed, right=0.8, vocabulary=VOCABULARY, longest=7, seed=1)
    assert tokens_of((await decode_with(engine, request, guess))[0]) == replayed
    await engine.inspect(forgo)
    assert tokens_of((await decode_plainly(engine, request))[0]) == replayed


async def test_self_test_passes(loaded: LoadedModel) -> None:
    found = await self_test(loaded, on_cuda(loaded.dtype), effort=Effort(repeats=3))
    assert found.passed, found.as_values()
    assert found.device.startswith("cuda")
