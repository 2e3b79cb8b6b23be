"""Tiny random models and their tokenizer, made on the spot: what tests serve instead of a real language model.

Weights are seeded, so two runs make the same model. torch and transformers are imported late: collecting stays fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent
END_OF_TEXT = "<|endoftext|>"
CONTEXT_TOKENS = 512
# Frozen: trained on other text, the tokenizer differs, and so does all that the tiny model says.
TEXTS = ("LICENSE", "tests/data/tokenizer_text.txt")


def save_tokenizer(folder: Path, *, size: int = 512, context_tokens: int = CONTEXT_TOKENS) -> None:
    """Train a byte-level BPE on text of this repository and save it as transformers does; it encodes any text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train([str(REPOSITORY / name) for name in TEXTS], trainer)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END_OF_TEXT, model_max_length=context_tokens
    ).save_pretrained(folder)


def random_model(kind: str = "llama", *, seed: int = 0, **settings: Any) -> Any:
    """A random float32 causal LM of a transformers family ("llama", "qwen3" …); `settings` go to its config."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    shape = {
        "vocab_size": 512,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": CONTEXT_TOKENS,
        "initializer_range": 0.2,  # wide enough that logits differ clearly and greedy output isn't one token forever
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": 0,
        "pad_token_id": None,
    }
    config = CONFIG_MAPPING[kind](**(shape | settings))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    return model.eval()


def save_tiny_model(
    folder: Path, *, kind: str = "llama", seed: int = 0, half_exact: bool = False, **settings: Any
) -> Path:
    """A folder that any loader of causal LMs takes: weights, config and tokenizer.

    half_exact: whether half precision holds the weights, as it does those of most checkpoints.
    Greedy output never ends by itself, and soon repeats runs of some ten tokens: good to draft from by lookup.
    """
    import torch

    model = random_model(kind, seed=seed, **settings)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                weight.mul_(0.005)  # the last token decides almost alone, so that output comes back to where it was
        # The end-of-text token: likely enough to draw, never the likeliest.
        model.get_output_embeddings().weight[0].zero_()
        if half_exact:
            for weight in model.parameters():
                weight.copy_(weight.half().float())
    model.save_pretrained(folder)
    save_tokenizer(folder)
    return folder
