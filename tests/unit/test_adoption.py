"""What a model is asked before it serves: what a short text in one piece would not show is refused all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from engines import settings
from tiny_models import random_model, save_tokenizer

from target_server.adoption import adopt
from target_server.errors import UnsupportedModel
from target_server.loader import LoadedModel, load
from target_server.store import locate

FALCON_H1 = {"mamba_d_ssm": 64, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8}
BART = {
    "encoder_layers": 2,
    "decoder_layers": 2,
    "d_model": 64,
    "decoder_attention_heads": 4,
    "decoder_ffn_dim": 128,
}
LLAMA4 = {"intermediate_size_mlp": 128, "num_local_experts": 2, "pad_token_id": 0}
WHOLE = ["full_attention", "full_attention"]


@pytest.mark.parametrize(
    ("kind", "config", "reason"),
    [
        ("falcon_h1", FALCON_H1, r"another kind \(hybrid\)"),
        ("bart", BART, "off by .* in two parts"),
        ("llama4_text", LLAMA4 | {"attention_chunk_size": 24}, r"another kind \(chunked_attention\)"),
        (
            "llama4_text",
            LLAMA4 | {"layer_types": WHOLE},
            r"no decoder under .* \(language_model\)",
        ),
        ("moshi", {"sliding_window": 24}, "layer 0 looks back to the beginning, its configuration says 24 positions"),
        ("gemma2", {"attn_logit_softcapping": 50.0}, "^tiny is not supported: its attention also takes softcap"),
        ("diffllama", {}, "^tiny is not supported: its attention layer 0 runs more than once a pass"),
    ],
)
def test_models_of_another_make_are_refused(kind: str, config: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnsupportedModel, match=reason):
        adopt(random_model(kind, **config), name="tiny")


def test_state_that_is_no_key_or_value_is_seen() -> None:
    hf = random_model()
    norm = hf.model.norm.forward
    hf.model.norm.forward = lambda rows: norm(rows) + 0.1 * rows.cumsum(dim=1)
    with pytest.raises(UnsupportedModel, match="more of what is before it than keys and values"):
        adopt(hf, name="tiny")


def test_positions_that_are_not_heeded_are_seen() -> None:
    hf = random_model()
    rotary = hf.model.rotary_emb.forward
    hf.model.rotary_emb.forward = lambda rows, position_ids: rotary(
        rows, position_ids=torch.arange(rows.shape[1])[None]
    )
    with pytest.raises(UnsupportedModel, match="in two parts"):
        adopt(hf, name="tiny")


def test_window_that_a_layer_does_not_ask_for_is_seen() -> None:
    hf = random_model("gemma3_text", sliding_window=24, layer_types=["sliding_attention", "full_attention"])
    assert len(adopt(hf, name="tiny")) == 2
    hf.model.layers[0].self_attn.sliding_window = 25
    with pytest.raises(UnsupportedModel, match="layer 0 looks back 25 positions, its configuration says 24 positions"):
        adopt(hf, name="tiny")


def test_routers_that_are_not_asked_for_their_logits_do_no_harm() -> None:
    hf = random_model("mixtral", num_local_experts=4, num_experts_per_tok=2, sliding_window=None)
    assert len(adopt(hf, name="tiny")) == 2


@pytest.mark.parametrize("parity", ["strict", "fast"])
def test_a_mixture_of_experts_is_served_only_where_rows_may_differ(tmp_path: Path, parity: str) -> None:
    random_model("mixtral", num_local_experts=4, num_experts_per_tok=2, sliding_window=None).save_pretrained(tmp_path)
    save_tokenizer(tmp_path)

    def loaded() -> LoadedModel:
        return load(locate(str(tmp_path), tmp_path), settings(parity=parity))

    if parity == "fast":
        assert loaded().vocabulary_size == 512
    else:
        with pytest.raises(UnsupportedModel, match=r'experts .*target.parity = "fast"'):
            loaded()
