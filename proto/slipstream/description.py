"""What a target says of itself: the value of `Target.Describe`. Knows nothing of messages."""

from __future__ import annotations

from dataclasses import dataclass

from decoding.prompt import FimTemplate


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds that a target holds its clients to.

    sessions: sequences open at once.
    queued_requests: requests that may wait for a session.
    prompt_tokens: tokens of a prompt.
    block_rows: rows of a verify block; the longest draft has one token less.
    message_bytes: bytes of one message.
    """

    sessions: int
    queued_requests: int
    prompt_tokens: int
    block_rows: int
    message_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetDescription:
    """What is served, and within which limits.

    model_id: name, last part of a path, or hub id.
    model_revision: hub commit, or a digest of the weights' file sizes and config.
    tokenizer_fingerprint: 64 hex digits.
    vocabulary_size: rows of the logits, padding included.
    fim: None where the model knows no fill-in-the-middle.
    context_length: tokens of prompt and output together.
    dtype, device: as torch spells them, "bfloat16" and "cuda:0".
    drafters: (language, name) pairs that `Run` can name.
    """

    model_id: str
    model_revision: str
    tokenizer_fingerprint: str
    vocabulary_size: int
    end_of_text_ids: tuple[int, ...]
    fim: FimTemplate | None
    context_length: int
    dtype: str
    device: str
    noise_version: str
    limits: Limits
    drafters: tuple[tuple[str, str], ...]
    server_version: str
