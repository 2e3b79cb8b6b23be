"""The model as the engine runs it: two shapes of step over the KV cache, prefill and decode. Owned by one thread.

Every decode step has `block_rows` rows and every prefill step `prefill_rows`, padded where there is less to do, because
matrix kernels give other last bits for other row counts. So a token's logits depend on the tokens before it alone:
not on its row, the draft around it, the padding, or what other sequences do. `parity` checks that on this machine.

It knows nothing of requests, sampling or asyncio.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from target_server import attention
from target_server.attention import KEY_BLOCK, CachedPass, ProbePass
from target_server.errors import UnsupportedModel
from target_server.kv_cache import KVCache, LayerShape

PADDING = 0
PROBE_TOKENS = 8
TOLERANCE, COARSE_TOLERANCE = 1e-3, 5e-2  # relative; the coarse one for half precision
# Rotary embeddings whose angles depend on the length of the pass, so that a token's key depends on what comes after it.
LENGTH_DEPENDENT_ROPE = frozenset({"dynamic", "longrope"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StepShape:
    """The fixed shapes of steps, in rows, and the number and length of sequences they are for."""

    block_rows: int
    prefill_rows: int
    context_tokens: int
    slots: int


class Model:
    """A causal LM over a KV cache of its own.

    hf: a transformers causal LM in eval mode, and `layers` what `adopt` found in it.
    kv_cache_bytes: hard budget of the cache. Raises BudgetExceeded where it doesn't fit.
    """

    def __init__(self, hf: Any, layers: Sequence[LayerShape], *, shape: StepShape, kv_cache_bytes: int) -> None:
        self._hf = hf
        self._decoder = getattr(hf, hf.base_model_prefix)
        self._device: torch.device = hf.device
        self.shape = shape
        self.cache = KVCache(
            layers,
            slots=shape.slots,
            context_tokens=shape.context_tokens,
            block_rows=max(shape.block_rows, shape.prefill_rows),
            budget=kv_cache_bytes,
            dtype=hf.dtype,
            device=self._device,
        )
        self.pads_to_capacity = False

    @torch.inference_mode()
    def prefill(self, slot: int, start: int, tokens: Sequence[int]) -> Tensor:
        """Cache the keys and values of at most `prefill_rows` tokens from position `start`, a multiple of that.

        Answers the last hidden states, [prefill_rows, width]: they hold NaN wherever the cache was given any.
        """
        rows, step = self._step(slot, start, tokens, self.shape.prefill_rows)
        hidden: Tensor = self._decoder(**rows, use_cache=False, slipstream=step).last_hidden_state
        return hidden[0]

    @torch.inference_mode()
    def decode(self, slot: int, start: int, tokens: Sequence[int]) -> Tensor:
        """Logits after each of at most `block_rows` tokens from position `start`: [block_rows, vocabulary].

        All earlier positions must be cached. Rows past the tokens are padding.
        """
        rows, step = self._step(slot, start, tokens, self.shape.block_rows)
        logits: Tensor = self._hf(**rows, use_cache=False, slipstream=step).logits
        return logits[0]

    def _step(self, slot: int, start: int, tokens: Sequence[int], rows: int) -> tuple[dict[str, Tensor], CachedPass]:
        padded = [*tokens, *(PADDING,) * (rows - len(tokens))]
        step = CachedPass(self.cache, slot=slot, start=start, padded_length=self._padded(start + rows))
        inputs = {
            "input_ids": torch.tensor([padded], device=self._device),
            "position_ids": torch.arange(start, start + rows, device=self._device)[None],
        }
        return inputs, step

    def _padded(self, length: int) -> int:
        """Positions that a step reads when it must see `length` of them."""
        if self.pads_to_capacity:
            return self.cache.capacity
        return min(-(-length // KEY_BLOCK) * KEY_BLOCK, self.cache.capacity)


@torch.inference_mode()
def adopt(hf: Any, *, name: str) -> tuple[LayerShape, ...]:
    """Switch a model to the engine's attention; answers what each of its layers stores for a token.

    A few tokens are run under transformers' plain ("eager") attention and under this one. Raises UnsupportedModel
    where logits differ, where layers are not attention, or where keys depend on the length of the text.
    """
    config = hf.config.get_text_config()
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    kinds = {part.get("rope_type") for part in (rope, *rope.values()) if isinstance(part, dict)}
    if kinds & LENGTH_DEPENDENT_ROPE:
        raise UnsupportedModel(name, "its rotary embedding depends on the length of the text")

    attention.register()
    tokens = torch.arange(1, PROBE_TOKENS + 1, device=hf.device)[None]
    noted = ProbePass()
    try:
        hf.set_attn_implementation("eager")
        expected = hf(input_ids=tokens, use_cache=False).logits.double()
        hf.set_attn_implementation(attention.IMPLEMENTATION)
        found = hf(input_ids=tokens, use_cache=False, slipstream=noted).logits.double()
    except (TypeError, ValueError, KeyError) as error:
        raise UnsupportedModel(name, f"its attention can't be replaced ({type(error).__name__})") from error
    if sorted(noted.layers) != list(range(config.num_hidden_layers)):
        raise UnsupportedModel(
            name, f"{len(noted.layers)} of its {config.num_hidden_layers} layers are standard attention"
        )
    difference = float((found - expected).norm() / expected.norm())
    tolerance = TOLERANCE if hf.dtype == torch.float32 else COARSE_TOLERANCE
    if not difference <= tolerance:
        raise UnsupportedModel(name, f"its logits are off by {difference:.2g} of their size under this attention")
    return tuple(noted.layers[index] for index in range(len(noted.layers)))
