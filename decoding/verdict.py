"""What the target answers, and the seams it answers through. Knows nothing of models or sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from decoding.drafting import Draft
from decoding.sampling import SamplingConfig
from decoding.stopping import FinishReason as FinishReason
from decoding.stopping import StopRules


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeRequest:
    """What opens a sequence at the target.

    prompt: token ids, at least one.
    drafter: label of the drafter that the client uses, "" for none; at `Run`, one of the server's.
    tokenizer_fingerprint: of the tokenizer that made `prompt`; the target refuses another's.
    request_id: travels through logs and metadata; 1 to 64 printable ASCII characters.
    client: whose request it is, so that the target can be fair; not sent: the target knows. "" is one of its own.
    """

    prompt: tuple[int, ...]
    sampling: SamplingConfig
    stop: StopRules
    language: str
    drafter: str
    tokenizer_fingerprint: str
    request_id: str
    client: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The target's answer to one draft, empty drafts included.

    position: absolute index of `tokens[0]`.
    drafted: how many tokens the draft held.
    judged: accepted tokens and the first rejected one; what follows it was never judged.
    accepted: drafted tokens that equal the target's own.
    tokens: what is emitted: the accepted ones, then the target's next; trimmed where the sequence ends.
    log_probabilities: of `tokens`, natural logarithm under the target's processed distribution.
    sources: of `tokens`: the drafter's source name, or "target"; () where the server doesn't know.
    queue_us, verify_us: microseconds waited for the device, and spent on it.
    finish: set when the sequence ends with this verdict.
    """

    position: int
    drafted: int
    judged: int
    accepted: int
    tokens: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    sources: tuple[str, ...] = ()
    queue_us: int = 0
    verify_us: int = 0
    finish: FinishReason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """A request's final counts, all in tokens but `verify_steps`. Pool them over requests; never average ratios."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    drafted_tokens: int = 0
    judged_tokens: int = 0
    accepted_tokens: int = 0
    emitted_tokens: int = 0
    verify_steps: int = 0

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / judged, which estimates alpha of Leviathan et al. 2023; None where nothing was judged."""
        return self.accepted_tokens / self.judged_tokens if self.judged_tokens else None

    @property
    def draft_efficiency(self) -> float | None:
        """Accepted / drafted; None where nothing was drafted."""
        return self.accepted_tokens / self.drafted_tokens if self.drafted_tokens else None

    @property
    def tokens_per_step(self) -> float | None:
        """Emitted / verify steps; None where no step ran."""
        return self.emitted_tokens / self.verify_steps if self.verify_steps else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The target's first answer: what it will do, and what replays it."""

    prompt_tokens: int
    cached_tokens: int
    seed: int
    noise_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The target's last answer. Microseconds count from the open message's arrival."""

    reason: FinishReason
    statistics: Statistics
    queue_us: int
    first_token_us: int
    total_us: int


class Verifier(Protocol):
    """One open sequence at a target, over gRPC or in process."""

    @property
    def opened(self) -> Opened: ...

    async def verify(self, draft: Draft) -> Verdict:
        """Judge one draft. Raises StalePosition, Mismatch, LimitExceeded, DeadlineExceeded, TargetFailed."""

    def run(self, limit: int, *, drafter: str = "") -> AsyncIterator[Verdict]:
        """Let the target loop by itself for at most `limit` tokens, plainly or with a drafter of its own."""

    async def finish(self) -> Finished:
        """The final statistics; ends the sequence with reason CLOSED if no rule has ended it."""


class Target(Protocol):
    """A target model, wherever it runs."""

    def open(self, request: DecodeRequest) -> AbstractAsyncContextManager[Verifier]:
        """Open a sequence; leaving the context frees it at the target, finished or not."""
