"""What is asked for a suggestion, what is told while it grows, and what comes of it: values, for editors and commands.

Who sets what: an editor's connection or a command fills `CompletionRequest`; `completion.CompletionService` makes the
rest. Knows nothing of LSP.
"""

from __future__ import annotations

from dataclasses import dataclass

from decoding.gate import GateEvent, GateState
from decoding.sampling import SamplingConfig
from decoding.session import Mode
from decoding.stopping import FinishReason, StopRules
from decoding.verdict import Statistics


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """Text of another open file, to look drafts up in; `key` names the file."""

    key: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """A place in a text.

    request_id: travels through logs and metadata; 1 to 64 printable ASCII characters.
    prefix, suffix: text before and after the place; what exceeds `prompt_tokens` is cut at its far end.
    language_id: as LSP spells it, "" if unknown; path: only its name counts.
    buffers: nearest first; `buffer_tokens` are taken of each at most.
    drafting: False never speculates; placement: "auto", "edge" or "server", as `LspSettings` says.
    deadline_s: seconds from now that the answer is worth waiting for.
    """

    request_id: str
    prefix: str
    suffix: str = ""
    language_id: str = ""
    path: str = ""
    buffers: tuple[Buffer, ...] = ()
    buffer_tokens: int = 4096
    sampling: SamplingConfig
    stop: StopRules
    prompt_tokens: int
    drafting: bool = True
    placement: str = "auto"
    deadline_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One verified token: its id, who proposed it, and the characters that it completes."""

    token: int
    source: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Tokens verified in one step. `text` is what became safe to show; `position` is that of the first token."""

    position: int
    text: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionResult:
    """A finished suggestion.

    text: fit to be inserted; raw_text: as the target wrote it.
    tokens, sources: the target's output, and for each token who proposed it.
    drafter: "" where none is known for the language; mode: how the request began, and so where its drafts were made.
    gate, transitions: the gate's state after this request, and what this request changed; None and () without drafter.
    seed, noise_version: with prompt, sampling and target they replay the output.
    first_token_ms, total_ms: milliseconds from the request; first_token_ms is None where no token came.
    """

    request_id: str
    text: str
    raw_text: str
    tokens: tuple[int, ...]
    sources: tuple[str, ...]
    finish: FinishReason | None
    statistics: Statistics
    language: str
    drafter: str
    mode: Mode
    gate: GateState | None
    transitions: tuple[GateEvent, ...]
    seed: int
    noise_version: str
    first_token_ms: float | None
    total_ms: float

    def log_fields(self) -> dict[str, object]:
        """What a log may hold of it: names, counts and times; no text, no token ids."""
        counts = self.statistics
        return {
            "language": self.language,
            "drafter": self.drafter,
            "mode": self.mode.value,
            "finish": None if self.finish is None else self.finish.value,
            "prompt": counts.prompt_tokens,
            "cached": counts.cached_tokens,
            "drafted": counts.drafted_tokens,
            "judged": counts.judged_tokens,
            "accepted": counts.accepted_tokens,
            "emitted": counts.emitted_tokens,
            "verify_steps": counts.verify_steps,
            "first_token_ms": None if self.first_token_ms is None else round(self.first_token_ms, 1),
            "total_ms": round(self.total_ms, 1),
        }
