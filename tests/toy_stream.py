"""What tests say on a Decode stream to `toy_server`, and what a scripted target may answer there."""

from __future__ import annotations

from typing import Any

from toy_server import finished

from decoding.drafting import Draft
from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules
from decoding.verdict import DecodeRequest, FinishReason, Opened, Statistics, Verdict

PROMPT = (1, 2)
OPENED = Opened(prompt_tokens=2, cached_tokens=0, seed=0, noise_version="n")
FINISHED = finished(FinishReason.CLOSED, Statistics(prompt_tokens=2))


def request(**changes: Any) -> DecodeRequest:
    fields: dict[str, Any] = {
        "prompt": PROMPT,
        "sampling": SamplingConfig(temperature=1.0, seed=7),
        "stop": StopRules(max_tokens=24),
        "language": "python",
        "drafter": "lookup",
        "tokenizer_fingerprint": "0" * 64,
        "request_id": "request-1",
    }
    return DecodeRequest(**(fields | changes))


def draft(position: int, *tokens: int) -> Draft:
    return Draft(position=position, tokens=tokens, sampling_fingerprint="")


def verdict(position: int, *tokens: int, finish: FinishReason | None = None) -> Verdict:
    return Verdict(
        position=position,
        drafted=0,
        judged=0,
        accepted=0,
        tokens=tokens,
        log_probabilities=(0.0,) * len(tokens),
        finish=finish,
    )
