"""Families of causal LMs, loaded as a user's would be: transformers' logits and greedy tokens, speculation unchanged.

Weights are random and float32; the reference is transformers' eager attention without a cache, over texts that reach
past windows and across prefill chunks. What the engine can't run is refused when it is loaded, with the reason.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from architectures import BLOCKS, END, Architecture, Pair, load_folder, load_pair, logits_of, served
from engines import decode_plainly, decode_with, noisy_oracle, request_for, settings, tokens_of
from tiny_models import CONTEXT_TOKENS, save_tokenizer

from decoding.sampling import SamplingConfig
from decoding.stopping import FinishReason
from target_server.engine import Engine
from target_server.errors import ModelUnavailable, UnsupportedModel

pytestmark = pytest.mark.arithmetic

BOUND = 1e-5  # of the reference's largest logit: sums in another order, no more

SERVED = {
    "Llama": Architecture(family="llama", config={"num_key_value_heads": 4}),
    "Llama, grouped queries": Architecture(family="llama", config={"num_key_value_heads": 2}),
    "Llama 3, scaled rotary": Architecture(
        family="llama",
        config={
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 1e4,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            }
        },
    ),
    "DeepSeek-Coder, a Llama with linear rotary": Architecture(
        family="llama",
        config={
            "num_key_value_heads": 4,
            "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e5},
        },
    ),
    "Qwen2": Architecture(family="qwen2", config={"tie_word_embeddings": True}),
    "Qwen2, window in some layers": Architecture(
        family="qwen2",
        config={"use_sliding_window": True, "sliding_window": 24, "max_window_layers": 1},
    ),
    "Qwen3": Architecture(family="qwen3", config={"head_dim": 32}),
    "Mistral, window": Architecture(family="mistral", config={"sliding_window": 24}),
    "Mistral, window over two key blocks": Architecture(
        family="mistral", config={"sliding_window": 600, "max_position_embeddings": 1200}, prompt_tokens=1090
    ),
    "StarCoder2": Architecture(family="starcoder2", config={"sliding_window": None}),
    "StarCoder2, window": Architecture(family="starcoder2", config={"sliding_window": 24}),
    "Gemma": Architecture(family="gemma", config={"num_key_value_heads": 1}),
    "Gemma 2, no score cap": Architecture(
        family="gemma2", config={"attn_logit_softcapping": None, "sliding_window": 24, "query_pre_attn_scalar": 24}
    ),
    "Gemma 3": Architecture(
        family="gemma3_text",
        config={"sliding_window": 24, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "GPT-BigCode, one key head": Architecture(family="gpt_bigcode", config={"multi_query": True}),
    "GPT-BigCode, a key head each": Architecture(family="gpt_bigcode", config={"multi_query": False}),
    "GPT-NeoX": Architecture(family="gpt_neox"),
    "GPT-2": Architecture(family="gpt2"),
    "Phi-3": Architecture(family="phi3", config={"sliding_window": None}),
    "Phi-3, window": Architecture(family="phi3", config={"sliding_window": 24}),
}


@pytest.fixture(scope="module", params=SERVED)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return load_pair(SERVED[request.param], tmp_path_factory.mktemp("architectures") / "tiny")


@pytest.fixture
async def engine(pair: Pair) -> AsyncIterator[Engine]:
    engine = Engine(pair.loaded, settings())
    await engine.warm_up()  # strict parity: raises where a row depends on how it is verified
    yield engine
    engine.close()


def prompts(count: int, tokens: int) -> list[list[int]]:
    dice = random.Random(3)  # noqa: S311
    return [[dice.randrange(1, 512) for _ in range(tokens)] for _ in range(count)]


def test_logits_over_our_cache_are_transformers_own(pair: Pair, record_property: Any) -> None:
    prompt_tokens = pair.architecture.prompt_tokens
    tokens = prompts(1, prompt_tokens + sum(BLOCKS))[0]
    expected = pair.reference_logits(tokens)[prompt_tokens - 1 : prompt_tokens - 1 + sum(BLOCKS)]
    model = served(pair.loaded, context_tokens=pair.architecture.context_tokens)
    found = logits_of(model, tokens, prompt_tokens=prompt_tokens)
    assert found.shape == expected.shape
    difference, largest = float((found - expected).abs().max()), float(expected.abs().max())
    record_property("largest difference", difference)
    assert difference <= BOUND * largest, f"logits up to {largest:.3g} differ by up to {difference:.3g}"


async def test_greedy_tokens_are_those_that_transformers_generates(pair: Pair, engine: Engine) -> None:
    for prompt in prompts(2, 70):
        verdicts, _ = await decode_plainly(engine, request_for(pair.loaded, prompt, max_tokens=24))
        assert tokens_of(verdicts) == pair.reference_greedy(prompt, 24)


async def test_speculation_beside_another_sequence_changes_no_token(pair: Pair, engine: Engine) -> None:
    requests = [
        request_for(
            pair.loaded,
            prompt,
            sampling=SamplingConfig(temperature=temperature, banned=(END,), seed=7),
            max_tokens=24,
        )
        for temperature, prompt in zip((0.0, 0.7, 1.0), prompts(3, 70), strict=True)
    ]
    plain = [tokens_of((await decode_plainly(engine, request))[0]) for request in requests]
    guesses = [noisy_oracle(known, right=0.8, vocabulary=512, longest=7, seed=len(known)) for known in plain]
    drafted = await asyncio.gather(
        *(decode_with(engine, request, guess) for request, guess in zip(requests, guesses, strict=True))
    )
    for known, (verdicts, finished) in zip(plain, drafted, strict=True):
        assert tokens_of(verdicts) == known
        assert 0 < finished.statistics.accepted_tokens < finished.statistics.drafted_tokens


@pytest.mark.parametrize("positions", [512, 640], ids=["at a key block's end", "past it"])
@pytest.mark.parametrize("family", ["gpt2", "gpt_bigcode"])
async def test_learned_positions_serve_to_the_last_of_them(family: str, positions: int, tmp_path: Path) -> None:
    architecture = Architecture(family=family, config={"max_position_embeddings": positions})
    pair = load_pair(architecture, tmp_path / "tiny")
    prompt = prompts(1, positions - 13)[0]
    engine = Engine(pair.loaded, settings(context_tokens=2048, prompt_tokens=2000))
    await engine.warm_up()
    verdicts, finished = await decode_plainly(engine, request_for(pair.loaded, prompt, max_tokens=64))
    engine.close()
    output = tokens_of(verdicts)
    assert output == pair.reference_greedy(prompt, 13)
    assert finished.reason is (FinishReason.CONTEXT_FULL if len(output) == 13 else FinishReason.END_OF_TEXT)


NO_ATTENTION = r"0 of its 2 layers are standard attention"
REFUSED: dict[str, tuple[Architecture, str]] = {
    "Mamba, state space": (Architecture(family="mamba", config={"state_size": 4}), NO_ATTENTION),
    "RWKV, recurrent": (Architecture(family="rwkv", config={"attention_hidden_size": 64}), NO_ATTENTION),
    "RecurrentGemma, recurrent in some layers": (Architecture(family="recurrent_gemma"), NO_ATTENTION),
    "LFM2, convolution in some layers": (
        Architecture(family="lfm2", config={"layer_types": ["conv", "full_attention"]}),
        "1 of its 2 layers are standard attention",
    ),
    "Bloom, ALiBi": (Architecture(family="bloom"), NO_ATTENTION),
    "MPT, ALiBi": (
        Architecture(family="mpt", config={"n_heads": 4, "n_layers": 2, "d_model": 64, "max_seq_len": CONTEXT_TOKENS}),
        NO_ATTENTION,
    ),
    "GPT-Neo, masks of its own": (
        Architecture(
            family="gpt_neo",
            config={"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": 24},
        ),
        NO_ATTENTION,
    ),
    "Gemma 2, score cap": (
        Architecture(family="gemma2", config={"attn_logit_softcapping": 50.0}),
        "its attention also takes softcap",
    ),
    "GPT-OSS, attention sinks": (
        Architecture(family="gpt_oss", config={"num_local_experts": 2, "num_experts_per_tok": 1}),
        "its attention also takes .*s_aux",
    ),
    "DiffLlama, two attentions a layer": (Architecture(family="diffllama"), "layer 0 runs more than once a pass"),
    "Llama, dynamic rotary": (
        Architecture(
            family="llama",
            config={"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}},
        ),
        "its rotary embedding depends on the length of the text",
    ),
    "BERT, not causal": (
        Architecture(family="bert", config={"is_decoder": False}),
        "its logits are off by .* under this attention",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_served_is_refused_when_it_is_loaded(name: str, tmp_path: Path) -> None:
    architecture, reason = REFUSED[name]
    with pytest.raises(UnsupportedModel, match=reason):
        load_folder(architecture.save(tmp_path / "tiny"))


def test_encoder_and_decoder_are_no_causal_model(tmp_path: Path) -> None:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=512, d_model=64, d_ff=128, d_kv=16, num_layers=2, num_heads=4)
    T5ForConditionalGeneration(config).save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    with pytest.raises(ModelUnavailable, match=r"can't be loaded as a causal language model \(.*T5Config"):
        load_folder(tmp_path)


@pytest.mark.parametrize(
    "architecture",
    [
        Architecture(
            family="glm4_moe",
            config={
                "n_routed_experts": 4,
                "num_experts_per_tok": 2,
                "moe_intermediate_size": 32,
                "n_group": 1,
                "topk_group": 1,
                "first_k_dense_replace": 0,
            },
        ),
        Architecture(
            family="falcon_h1",
            config={"mamba_d_ssm": 64, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8},
        ),
    ],
    ids=["GLM-4 MoE, experts get rows by number", "Falcon-H1, state space beside the attention"],
)
async def test_rows_that_depend_on_others_are_refused_before_serving(
    architecture: Architecture, tmp_path: Path
) -> None:
    async def start() -> None:
        engine = Engine(load_folder(architecture.save(tmp_path / "tiny")), settings())
        try:
            await engine.warm_up()
        finally:
            engine.close()

    with pytest.raises(UnsupportedModel):
        await start()
