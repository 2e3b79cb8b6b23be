"""Tiny random models of many families, and how to ask the engine's forward pass and transformers' own the same thing.

Two layers, float32. The engine is reached through `served`, `logits_of` alone, whatever shapes it steps in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from engines import settings
from tiny_models import CONTEXT_TOKENS, random_model, save_tokenizer
from torch import Tensor

from target_server.loader import LoadedModel, load
from target_server.model import Model, StepShape
from target_server.store import locate

BLOCK_ROWS, PREFILL_ROWS = 8, 32
END = 0  # the id of the end of the text
BLOCKS = (1, 8, 3, 5, 1, 2)  # rows of the decode blocks that follow a prompt, one after the other


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A family under test: its name in transformers, and what its config says besides the tiny shape.

    prompt_tokens: long enough to reach past a window, and to leave the last prefill chunk unfilled.
    """

    family: str
    config: dict[str, Any] = field(default_factory=dict)
    prompt_tokens: int = 90

    @property
    def context_tokens(self) -> int:
        return int(self.config.get("max_position_embeddings", CONTEXT_TOKENS))

    def save(self, folder: Path) -> Path:
        """Write a model folder. Biases and norms are random as well: transformers makes them 0 and 1, which hide."""
        hf = random_model(self.family, **self.config)
        generator = torch.Generator().manual_seed(2)
        with torch.no_grad():
            for parameter in hf.parameters():
                if parameter.dim() == 1:
                    parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
        hf.save_pretrained(folder)
        save_tokenizer(folder, context_tokens=self.context_tokens)
        return folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The same weights twice: as the engine runs them, and as transformers does with its plain attention."""

    architecture: Architecture
    loaded: LoadedModel
    reference: Any

    def reference_logits(self, tokens: Sequence[int]) -> Tensor:
        """[token, vocabulary] of one pass over all of them, without a cache."""
        with torch.inference_mode():
            logits: Tensor = self.reference(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
        return logits

    def reference_greedy(self, prompt: Sequence[int], count: int) -> list[int]:
        """What transformers' own `generate` writes, up to the end of the text."""
        given = torch.tensor([prompt])
        output = self.reference.generate(
            given, attention_mask=torch.ones_like(given), max_new_tokens=count, do_sample=False, pad_token_id=0
        )
        tokens: list[int] = output[0, len(prompt) :].tolist()
        return tokens[: tokens.index(END)] if END in tokens else tokens


def load_folder(folder: Path) -> LoadedModel:
    return load(locate(str(folder), folder), settings())


def load_pair(architecture: Architecture, folder: Path) -> Pair:
    from transformers import AutoModelForCausalLM

    architecture.save(folder)
    reference = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    return Pair(architecture=architecture, loaded=load_folder(folder), reference=reference)


def served(loaded: LoadedModel, *, context_tokens: int) -> Model:
    """The model over a cache of the engine's, of two slots."""
    shape = StepShape(block_rows=BLOCK_ROWS, prefill_rows=PREFILL_ROWS, context_tokens=context_tokens, slots=2)
    return Model(loaded.hf, loaded.layers, shape=shape, kv_cache_bytes=2**26)


def logits_of(model: Model, tokens: Sequence[int], *, prompt_tokens: int) -> Tensor:
    """Logits from the prompt's last token on: the prompt in prefill chunks, then decode blocks of uneven lengths.

    The slot is the second of the two, and each block is first tried with wrong tokens in it, as a bad draft would.
    """
    for start in range(0, prompt_tokens - 1, PREFILL_ROWS):
        model.prefill(1, start, tokens[start : min(start + PREFILL_ROWS, prompt_tokens - 1)])
    found, position = [], prompt_tokens - 1
    for rows in BLOCKS:
        block = list(tokens[position : position + rows])
        model.decode(1, position, [block[0], *((token + 1) % 512 for token in block[1:]), 7][:BLOCK_ROWS])
        found.append(model.decode(1, position, block)[:rows].clone())
        position += rows
    return torch.cat(found)
