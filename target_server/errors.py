"""The errors of the target's own: what can go wrong before a model serves.

    SlipstreamError
    ├── ModelUnavailable      the model isn't here, or can't be fetched
    │   └── CorruptDownload   what was fetched is not what was asked for
    ├── UnsupportedModel      it loads, but this engine can't run it rightly
    └── (InvalidSetting)
        └── BudgetExceeded    the KV cache doesn't fit its budget

A message says what to do next. Requests fail with the errors of `decoding.errors`, never with these.
"""

from __future__ import annotations

from decoding.errors import InvalidSetting, SlipstreamError


class ModelUnavailable(SlipstreamError):
    """The model can't be found or fetched: `what` is wrong, `remedy` is what to do."""

    def __init__(self, what: str, *, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}")
        self.what = what
        self.remedy = remedy


class CorruptDownload(ModelUnavailable):
    """A fetched file has another digest than the one pinned; it has been removed."""

    def __init__(self, file: str, *, expected: str, found: str) -> None:
        super().__init__(
            f"{file} is corrupt: expected SHA-256 {expected}, found {found}",
            remedy="it has been removed, run the fetch again",
        )
        self.expected = expected
        self.found = found


class UnsupportedModel(SlipstreamError):
    """The model needs what this engine hasn't got; running it anyway would give wrong tokens."""

    def __init__(self, model: str, reason: str) -> None:
        super().__init__(f"{model} is not supported: {reason}")
        self.model = model
        self.reason = reason


class BudgetExceeded(InvalidSetting):
    """Slots for all sessions need more bytes than `target.kv_cache_bytes` allows."""

    def __init__(self, *, needed: int, budget: int, sessions: int, context_tokens: int) -> None:
        super().__init__(
            "target.kv_cache_bytes",
            f"{sessions} sessions of {context_tokens} tokens need {needed} bytes of KV cache, the budget is {budget}; "
            "raise it, or lower target.sessions or target.context_tokens",
        )
        self.needed = needed
        self.budget = budget
