"""The values of the Completion service: text in, streamed text out. Knows nothing of messages."""

from __future__ import annotations

from dataclasses import dataclass

from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """One completion for a client that knows nothing of tokens.

    language: as LSP spells it; "" is found from path, then content.
    path: only its name counts; at most 4096 characters.
    prefix, suffix: text before and after the cursor.
    seed_given: False leaves the seed to the target; `sampling.seed` is then 0 and means nothing.
    plain: never speculate.
    request_id: 1 to 64 printable ASCII characters; "" lets the server choose.
    """

    prefix: str
    suffix: str = ""
    language: str = ""
    path: str = ""
    sampling: SamplingConfig
    seed_given: bool = True
    stop: StopRules
    plain: bool = False
    request_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionStarted:
    """The first answer: what was chosen, and what replays it. `drafter` is "" where nothing is drafted."""

    language: str
    drafter: str
    seed: int
    noise_version: str
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionDelta:
    """Text that became safe to show, whole characters only, and the ids verified since the last delta.

    sources: of each of `tokens`, who proposed it, or "target".
    """

    text: str
    tokens: tuple[int, ...] = ()
    sources: tuple[str, ...] = ()
