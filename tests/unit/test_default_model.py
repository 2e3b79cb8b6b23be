"""The engine on the default model: transformers' own greedy tokens, and the same with drafts."""

from __future__ import annotations

import pytest
import torch
from engines import decode_plainly, decode_with, noisy_oracle, request_for, tokens_of
from tiny_models import REPOSITORY

from decoding.sampling import SamplingConfig
from target_server.engine import Engine
from target_server.loader import LoadedModel
from target_server.settings import TargetSettings

TIE = 1e-3  # logits: what lies nearer may fall either way under other sums
PROMPTS = ["decoding/errors.py", "proto/slipstream/v1/common.proto"]

pytestmark = [pytest.mark.model, pytest.mark.arithmetic]


@pytest.mark.parametrize("path", PROMPTS)
async def test_greedy_tokens_are_transformers_own(default_loaded: LoadedModel, path: str) -> None:
    from transformers import AutoModelForCausalLM

    from cli.paths import cache_folder
    from target_server.store import locate

    engine = Engine(default_loaded, TargetSettings(sessions=1))
    assert (await engine.warm_up()).holds
    prompt = default_loaded.vocabulary.encode((REPOSITORY / path).read_text()[:600])
    request = request_for(default_loaded, prompt, max_tokens=24)
    verdicts, _ = await decode_plainly(engine, request)
    output = tokens_of(verdicts)
    assert len(output) == 24

    reference = AutoModelForCausalLM.from_pretrained(
        locate("default", cache_folder()).folder, dtype=default_loaded.hf.dtype
    )
    with torch.inference_mode():
        logits = reference(torch.tensor([[*prompt, *output]])).logits[0, len(prompt) - 1 : -1].float()
    best = logits.topk(2)
    for step, token in enumerate(output):
        clear = best.values[step, 0] - best.values[step, 1] > TIE
        assert token == best.indices[step, 0] or not clear
    engine.close()


@pytest.mark.parametrize("temperature", [0.0, 0.8])
async def test_drafts_do_not_change_a_token(default_loaded: LoadedModel, temperature: float) -> None:
    engine = Engine(default_loaded, TargetSettings(sessions=1))
    prompt = default_loaded.vocabulary.encode((REPOSITORY / PROMPTS[0]).read_text()[600:1200])
    sampling = SamplingConfig(temperature=temperature, top_p=0.95, seed=7)
    request = request_for(default_loaded, prompt, sampling=sampling, max_tokens=32)
    plain, _ = await decode_plainly(engine, request)
    output = tokens_of(plain)
    guess = noisy_oracle(output, right=0.8, vocabulary=default_loaded.vocabulary.size, longest=7, seed=1)
    drafted, finished = await decode_with(engine, request, guess)
    assert tokens_of(drafted) == output
    assert [verdict.log_probabilities for verdict in plain] == [
        (value,) for verdict in drafted for value in verdict.log_probabilities
    ]
    assert finished.statistics.accepted_tokens > 0
    engine.close()
