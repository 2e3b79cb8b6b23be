"""The sampling config: one frozen value that travels with a request and governs draft and target alike."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

from decoding.errors import InvalidSetting

MAX_SEED = 2**64 - 1
MAX_BIASED_TOKENS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingConfig:
    """How a token is drawn from the target's logits.

    Processors run in this order: repetition penalty, logit bias, bans, temperature, top-k, top-p, min-p.

    temperature: 0 is greedy (ties to the lowest id), else 1e-3 to 100; divides the logits.
    top_k: keep the k likeliest tokens, ties at the edge kept; 0 is off.
    top_p: keep the smallest set of likeliest tokens whose mass reaches p, 0 < p <= 1; 1 is off.
    min_p: drop tokens less likely than min_p times the likeliest, 0 <= min_p < 1; 0 is off.
    repetition_penalty: divides positive and multiplies negative logits of tokens seen in prompt or output
        (Keskar et al. 2019, section 4.1); 1 is off, 0.1 to 10.
    logit_bias: (token id, added logit) pairs, at most 1024, ids unique, |bias| <= 100.
    banned: token ids never emitted, at most 1024.
    seed: 0 to 2**64 - 1; with prompt, config and target it fixes the output.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    banned: tuple[int, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        def check(held: bool, field: str, problem: str) -> None:
            if not held:
                raise InvalidSetting(f"sampling.{field}", problem)

        temperature = self.temperature
        check(
            temperature == 0 or 1e-3 <= temperature <= 100,
            "temperature",
            f"must be 0 (greedy) or from 0.001 to 100, got {temperature}",
        )
        check(self.top_k >= 0, "top_k", f"must be 0 (off) or more, got {self.top_k}")
        check(0 < self.top_p <= 1, "top_p", f"must be over 0 and at most 1, got {self.top_p}")
        check(0 <= self.min_p < 1, "min_p", f"must be from 0 to under 1, got {self.min_p}")
        check(
            0.1 <= self.repetition_penalty <= 10,
            "repetition_penalty",
            f"must be from 0.1 to 10, got {self.repetition_penalty}",
        )
        check(
            len(self.logit_bias) <= MAX_BIASED_TOKENS,
            "logit_bias",
            f"holds {len(self.logit_bias)} tokens, at most {MAX_BIASED_TOKENS}",
        )
        check(
            len({token for token, _ in self.logit_bias}) == len(self.logit_bias),
            "logit_bias",
            "names a token twice",
        )
        check(
            all(token >= 0 and math.isfinite(bias) and abs(bias) <= 100 for token, bias in self.logit_bias),
            "logit_bias",
            "ids must be 0 or more and biases from -100 to 100",
        )
        check(
            len(self.banned) <= MAX_BIASED_TOKENS,
            "banned",
            f"holds {len(self.banned)} tokens, at most {MAX_BIASED_TOKENS}",
        )
        check(all(token >= 0 for token in self.banned), "banned", "ids must be 0 or more")
        check(0 <= self.seed <= MAX_SEED, "seed", f"must be from 0 to 2**64 - 1, got {self.seed}")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    def fingerprint(self) -> str:
        """16 hex digits over every field; a draft made under another config is refused by it."""
        canonical = "|".join(
            (
                float(self.temperature).hex(),
                str(self.top_k),
                float(self.top_p).hex(),
                float(self.min_p).hex(),
                float(self.repetition_penalty).hex(),
                ",".join(f"{token}:{float(bias).hex()}" for token, bias in sorted(self.logit_bias)),
                ",".join(str(token) for token in sorted(set(self.banned))),
                str(self.seed),
            )
        )
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]
