"""The engine's forward pass against transformers' own, for each family of attention it claims to support.

Float32; the largest difference of a logit is 2e-5 of the logits' largest magnitude (other row counts, other sums).
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny_models import random_model

from target_server.adoption import adopt
from target_server.attention import KEY_BLOCK
from target_server.errors import UnsupportedModel
from target_server.model import Model, StepShape
from target_server.packing import PackedLinear, pack_linears
from target_server.parity import Parity, check_parity
from target_server.probe import probing

pytestmark = pytest.mark.arithmetic

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama, tied": ("llama", {"tie_word_embeddings": True}),
    "llama, rotary of another base": ("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}),
    "qwen2, biases": ("qwen2", {}),
    "qwen3, normed queries": ("qwen3", {"tie_word_embeddings": True}),
    "mistral, window": ("mistral", {"sliding_window": 24}),
    "gemma, one key head": ("gemma", {"num_key_value_heads": 1}),
    "gemma3, window in some layers": (
        "gemma3_text",
        {"sliding_window": 24, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "starcoder2": ("starcoder2", {"sliding_window": None}),
    "phi3": ("phi3", {}),
}


def engine_model(hf: Any, *, packed: bool = False, **changes: int) -> Model:
    shape = {"block_rows": 8, "prefill_rows": 32, "context_tokens": 160, "slots": 2} | changes
    layers = adopt(hf, name="tiny")
    if packed:
        assert pack_linears(hf, rows=8) >= 9
    return Model(hf, layers, shape=StepShape(**shape), kv_cache_bytes=2**26)


def found_in(model: Model) -> Parity:
    with probing(model, vocabulary_size=512) as probe:
        return check_parity(probe)


def chunked_logits(model: Model, tokens: list[int], prompt: int) -> torch.Tensor:
    """Logits from the prompt's last token on: prefill in chunks, then decode blocks of uneven lengths."""
    rows = model.shape.prefill_rows
    for start in range(0, prompt - 1, rows):
        model.prefill(1, start, tokens[start : min(start + rows, prompt - 1)])
    logits, position = [], prompt - 1
    for length in (1, 8, 3, 5, 1, 2):
        block = tokens[position : position + length]
        logits.append(model.decode(1, position, block)[:length])
        position += length
    return torch.cat(logits)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_chunks_and_blocks_give_transformers_logits(family: str, packed: bool) -> None:
    kind, config = FAMILIES[family]
    hf = random_model(kind, attn_implementation="eager", **config)
    tokens = torch.randint(512, (1, 110), generator=torch.Generator().manual_seed(1))
    prompt = 90
    with torch.inference_mode():
        expected = hf(tokens, use_cache=False).logits[0, prompt - 1 :]
    found = chunked_logits(engine_model(hf, packed=packed), tokens[0].tolist(), prompt)
    assert len(found) == 20
    assert (found - expected[:20]).abs().max() <= 2e-5 * expected.abs().max()


@pytest.mark.parametrize(
    ("kind", "config", "reason"),
    [
        ("gemma2", {"attn_logit_softcapping": 5.0}, "softcap"),
        ("llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}, "rotary"),
        ("mamba", {"state_size": 4}, "0 of its 2 layers"),
        ("bloom", {}, "layers|replaced|off by"),
    ],
)
def test_what_the_attention_cannot_do_is_refused(kind: str, config: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnsupportedModel, match=reason):
        adopt(random_model(kind, **config), name=kind)


@pytest.mark.parametrize("kind", ["llama", "mistral"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("context", [160, 3 * KEY_BLOCK], ids=["one key block", "three key blocks"])
def test_parity_holds_here(kind: str, dtype: torch.dtype, context: int) -> None:
    hf = random_model(kind, **({"sliding_window": 64} if kind == "mistral" else {})).to(dtype)
    model = engine_model(hf, packed=dtype == torch.float32, context_tokens=context)
    assert found_in(model).broken() == ()


def test_parity_sees_a_row_that_depends_on_its_neighbours() -> None:
    hf = random_model()
    model = engine_model(hf)
    norm = hf.model.norm.forward
    hf.model.norm.forward = lambda rows: norm(rows) + 1e-6 * rows.mean(dim=1, keepdim=True)
    assert "rows" in found_in(model).broken()


def test_parity_sees_a_mask_that_leaks() -> None:
    hf = random_model()
    model = engine_model(hf)
    read = model.cache.read

    def leak(layer: int, slot: int, length: int) -> Any:
        keys, values = read(layer, slot, length)
        return keys, values + 1e-3 * values.mean(dim=2, keepdim=True)

    model.cache.read = leak
    assert not found_in(model).holds


def test_packing_frees_weights_but_for_those_an_embedding_shares() -> None:
    untied, tied = random_model(), random_model(tie_word_embeddings=True)
    for hf in (untied, tied):
        pack_linears(hf, rows=8)
        assert isinstance(hf.lm_head, PackedLinear)
        assert not [name for name, _ in hf.named_parameters() if "proj" in name or "lm_head" in name]
    assert tied.model.embed_tokens.weight.shape == (512, 64)
