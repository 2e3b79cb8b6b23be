"""The target's own greedy continuations of held-out source files: the judge that draft measurements replay against.

Greedy output doesn't depend on drafts, so it is generated once, in batches, and kept as token ids; every drafter and
threshold is then measured by replay. Run by `python -m benchmarks.drafting`.
"""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from drafts.corpora import SUFFIXES
from drafts.vocabulary import Vocabulary

PROMPT_TOKENS = 400
NEW_TOKENS = 64
PROMPTS = 16  # a language
_BATCH = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """One prompt and what the target makes of it; token ids."""

    language: str
    prompt: tuple[int, ...]
    output: tuple[int, ...]


def held_out_prompts(corpora: Path, language: str, vocabulary: Vocabulary) -> list[tuple[int, ...]]:
    """The same prompts every time: one, cut at a random token, from each of PROMPTS files, spread over packages."""
    choice = random.Random(f"held-out {language}")  # noqa: S311 - reproducible, not secret
    packages = [
        sorted(folder.glob(f"*{SUFFIXES[language]}")) for folder in sorted((corpora / language / "held-out").iterdir())
    ]
    for files in packages:
        choice.shuffle(files)
    prompts: list[tuple[int, ...]] = []
    while any(packages) and len(prompts) < PROMPTS:
        for files in packages:
            if not files:
                continue
            ids = vocabulary.encode(files.pop().read_text(errors="replace"))
            if len(ids) > PROMPT_TOKENS + NEW_TOKENS:
                cut = choice.randrange(PROMPT_TOKENS, len(ids) - NEW_TOKENS)
                prompts.append(ids[cut - PROMPT_TOKENS : cut])
    return prompts[:PROMPTS]


def continuations(corpora: Path, model_folder: Path, vocabulary: Vocabulary) -> list[Continuation]:
    """Read CORPORA/continuations/LANGUAGE.json where it is there, else generate (minutes on a CPU) and write it."""
    made: list[Continuation] = []
    model = None
    for language in SUFFIXES:
        cache = corpora / "continuations" / f"{language}.json"
        if not cache.exists():
            model = model or _model(model_folder)
            generated = _generate(model, held_out_prompts(corpora, language, vocabulary), language, vocabulary)
            cache.parent.mkdir(exist_ok=True)
            cache.write_text(json.dumps([asdict(each) for each in generated]))
        made += [
            Continuation(language=language, prompt=tuple(entry["prompt"]), output=tuple(entry["output"]))
            for entry in json.loads(cache.read_text())
        ]
    return made


def _model(folder: Path) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def _generate(model: Any, prompts: list[tuple[int, ...]], language: str, vocabulary: Vocabulary) -> list[Continuation]:
    import torch

    made = []
    for start in range(0, len(prompts), _BATCH):
        batch = torch.tensor(prompts[start : start + _BATCH])
        with torch.inference_mode():
            rows = model.generate(
                batch,
                attention_mask=torch.ones_like(batch),
                max_new_tokens=NEW_TOKENS,
                do_sample=False,
                eos_token_id=None,  # a batch goes on together; each is cut at its end below
                pad_token_id=0,
            )
        outputs = rows[:, PROMPT_TOKENS:].tolist()
        made += [
            Continuation(language=language, prompt=tuple(prompt), output=_until_end(output, vocabulary))
            for prompt, output in zip(batch.tolist(), outputs, strict=True)
        ]
    return made


def _until_end(tokens: list[int], vocabulary: Vocabulary) -> tuple[int, ...]:
    """Up to and with the first end-of-text token, which is judged like any other."""
    for count, token in enumerate(tokens, 1):
        if token in vocabulary.end_of_text_ids:
            return tuple(tokens[:count])
    return tuple(tokens)
