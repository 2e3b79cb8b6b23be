"""Whether the engine can run a model, asked of the model itself before it serves, with a few tokens three times over.

They run whole under transformers' plain attention, whole under the engine's, and in two parts with nothing handed from
one to the other but keys and values. Where that gives other logits the model is refused, with what sets it apart.
Knows nothing of caches, steps or requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from target_server import attention
from target_server.attention import mask_for
from target_server.errors import UnsupportedModel
from target_server.kv_cache import LayerShape

PROBE_TOKENS, FIRST_PART = 8, 5
TOLERANCE, COARSE_TOLERANCE = 1e-3, 5e-2  # relative; the coarse one for half precision
# Rotary embeddings whose angles depend on the length of the pass, so that a token's key depends on what comes after it.
LENGTH_DEPENDENT_ROPE = frozenset({"dynamic", "longrope"})
EXPERT_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts")
FULL, SLIDING = "full_attention", "sliding_attention"


class ProbePass:
    """A pass without a cache that notes what each layer would store, and sees the keys and values of one before it."""

    def __init__(self, *, after: ProbePass | None = None) -> None:
        self.layers: dict[int, LayerShape] = {}
        self.windows: dict[int, int | None] = {}
        self.kept: dict[int, tuple[Tensor, Tensor]] = {}
        self._before = {} if after is None else after.kept

    def attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, *, scale: float | None, window: int | None
    ) -> Tensor:
        if layer in self.layers:
            raise UnsupportedModel("the model", f"its attention layer {layer} runs more than once a pass")
        self.layers[layer] = LayerShape(
            heads=key.shape[1], key_dimensions=key.shape[-1], value_dimensions=value.shape[-1]
        )
        self.windows[layer] = window
        if layer in self._before:
            keys, values = self._before[layer]
            key, value = torch.cat((keys, key), dim=2), torch.cat((values, value), dim=2)
        self.kept[layer] = key, value
        length = key.shape[2]
        mask = mask_for(query, start=length - query.shape[2], length=length, window=window)
        return functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, scale=scale, enable_gqa=query.shape[1] != key.shape[1]
        )


@torch.inference_mode()
def adopt(hf: Any, *, name: str) -> tuple[LayerShape, ...]:
    """Switch a model to the engine's attention; answers what each of its layers stores for a token.

    Raises UnsupportedModel where that attention gives other logits, where a token depends on more of what is before it
    than keys and values, where keys depend on the length of the text, and where the configuration states masks that
    the layers don't ask for, which the probe's few tokens are too short to show.
    """
    config = hf.config.get_text_config()
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    kinds = {part.get("rope_type") for part in (rope, *rope.values()) if isinstance(part, dict)}
    if kinds & LENGTH_DEPENDENT_ROPE:
        raise UnsupportedModel(name, "its rotary embedding depends on the length of the text")

    attention.register()
    positions = torch.arange(PROBE_TOKENS, device=hf.device)[None]
    tokens = probe_tokens(hf)
    whole, first = ProbePass(), ProbePass()
    try:
        hf.set_attn_implementation("eager")
        expected = hf(input_ids=tokens, use_cache=False).logits
        hf.set_attn_implementation(attention.IMPLEMENTATION)
        found = hf(input_ids=tokens, use_cache=False, slipstream=whole).logits
    except UnsupportedModel as error:  # from a layer, which doesn't know the model's name
        raise UnsupportedModel(name, error.reason) from error
    except (TypeError, ValueError, KeyError) as error:
        raise UnsupportedModel(name, f"its attention can't be replaced ({type(error).__name__})") from error
    if sorted(whole.layers) != list(range(config.num_hidden_layers)):
        raise UnsupportedModel(
            name, f"{len(whole.layers)} of its {config.num_hidden_layers} layers are standard attention"
        )
    tolerance = TOLERANCE if hf.dtype == torch.float32 else COARSE_TOLERANCE
    difference = _difference(found, expected)
    if not difference <= tolerance:
        raise UnsupportedModel(name, f"its logits are off by {difference:.2g} of their size under this attention")
    _check_masks(config, whole.windows, name=name)
    if not hasattr(hf, hf.base_model_prefix):
        raise UnsupportedModel(name, f"it has no decoder under the name that it states ({hf.base_model_prefix})")

    parts = []
    for cut, step in ((slice(FIRST_PART), first), (slice(FIRST_PART, None), ProbePass(after=first))):
        rows = {"input_ids": tokens[:, cut], "position_ids": positions[:, cut]}
        try:
            parts.append(hf(**rows, use_cache=False, slipstream=step).logits)
        except (TypeError, ValueError) as error:
            raise UnsupportedModel(name, "it can't be told the positions of its tokens") from error
    difference = _difference(torch.cat(parts, dim=1), expected)
    if not difference <= tolerance:
        raise UnsupportedModel(
            name,
            f"its logits are off by {difference:.2g} of their size where a text comes in two parts, so a token depends "
            "on more of what is before it than keys and values",
        )
    return tuple(whole.layers[index] for index in range(len(whole.layers)))


def mixes_experts(hf: Any) -> bool:
    """Whether tokens are routed to experts, so that the rows of a matrix product depend on what the tokens are."""
    config = hf.config.get_text_config()
    return any((getattr(config, field, None) or 0) > 1 for field in EXPERT_COUNTS)


def probe_tokens(hf: Any) -> Tensor:
    """[1, PROBE_TOKENS] ids that look like text. Low ids won't do: they are special tokens, and such a row of them
    leaves logits so flat that half precision's noise is most of them.
    """
    size = hf.config.get_text_config().vocab_size
    return torch.randint(size, (1, PROBE_TOKENS), generator=torch.Generator().manual_seed(0)).to(hf.device)


def _difference(found: Tensor, expected: Tensor) -> float:
    return float((found.double() - expected.double()).norm() / expected.double().norm())


def _check_masks(config: Any, windows: Mapping[int, int | None], *, name: str) -> None:
    """The windows that the configuration states must be those that the layers ask for."""
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None) or [FULL if window is None else SLIDING] * len(windows)
    others = sorted(set(kinds) - {FULL, SLIDING})
    if others:
        raise UnsupportedModel(name, f"its layers have attention of another kind ({', '.join(others)})")
    for layer, kind in enumerate(kinds):
        stated = window if kind == SLIDING else None
        if windows[layer] != stated:
            raise UnsupportedModel(
                name,
                f"its attention layer {layer} looks back {_positions(windows[layer])}, "
                f"its configuration says {_positions(stated)}",
            )


def _positions(window: int | None) -> str:
    return "to the beginning" if window is None else f"{window} positions"
