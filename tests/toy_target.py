"""A target small enough to reason about: logits are a hash of the context, tokens are short strings of bytes."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoding.arithmetic import Arithmetic, NumpyArithmetic
from decoding.drafting import Draft
from decoding.sampling import SamplingConfig
from decoding.sequence import Sequence
from decoding.stopping import StopRules
from decoding.verdict import DecodeRequest, Verdict

END = 0
# Half characters, line breaks of every kind, and pieces that make stop strings across tokens.
PIECES = (
    b"",
    b"a",
    b"ab",
    b"b\n",
    b"\r",
    b"\n",
    "é".encode()[:1],
    "é".encode()[1:],
    b"\xff",
    "🙂".encode(),
    b" c",
    b"x",
)


def token_bytes(token: int) -> bytes:
    return PIECES[token % len(PIECES)]


class ToyTarget:
    """Logits that depend on the last `order` tokens, so that a wrong context shows."""

    def __init__(self, *, size: int = len(PIECES), salt: int = 0, order: int = 3, padding: int = 2) -> None:
        self.size = size
        self.salt = salt
        self.order = order
        self.padding = padding

    def logits(self, tokens: tuple[int, ...]) -> NDArray[Any]:
        """Steps of 1/4, so that ties happen; padding rows are the largest, so that an emitted one shows."""
        key = repr((self.salt, tokens[-self.order :])).encode()
        digest = hashlib.blake2b(key, digest_size=self.size).digest()
        row = np.frombuffer(digest, dtype=np.uint8).astype(np.float32) // 16 / 4
        row[END] -= 0.5  # so that outputs get long
        return np.concatenate((row, np.full(self.padding, 99, dtype=np.float32)))

    def open(
        self,
        *,
        prompt: tuple[int, ...] = (1, 2),
        sampling: SamplingConfig | None = None,
        stop: StopRules | None = None,
        context_length: int = 1000,
        end_of_text: frozenset[int] = frozenset({END}),
        arithmetic: Arithmetic[NDArray[np.float64]] | None = None,
    ) -> Sequence[NDArray[np.float64]]:
        request = DecodeRequest(
            prompt=prompt,
            sampling=sampling or SamplingConfig(),
            stop=stop or StopRules(),
            language="",
            drafter="",
            tokenizer_fingerprint="",
            request_id="toy",
        )
        return Sequence(
            request,
            end_of_text=end_of_text,
            token_bytes=token_bytes,
            vocabulary_size=self.size,
            context_length=context_length,
            arithmetic=arithmetic or NumpyArithmetic(),
        )

    def judge(
        self, sequence: Sequence[NDArray[np.float64]], history: tuple[int, ...], drafted: tuple[int, ...] = ()
    ) -> Verdict:
        """One verify step: a row for each token of the block, as a model would compute them."""
        draft = Draft(position=sequence.position, tokens=drafted, sampling_fingerprint="")
        block = sequence.block(draft)
        assert block[0] == history[-1]
        rows = [self.logits(history + block[1 : index + 1]) for index in range(len(block))]
        return sequence.judge(draft, rows)
