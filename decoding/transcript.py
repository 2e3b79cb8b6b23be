"""The drafting side's record of one output: verdicts in, checked chunks of text out.

The same scanner that ran at the target runs here over the same tokens; so both ends agree on text and finish, or the
contract is broken and this module says so. Knows nothing of what is asked of the target next.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from decoding.drafting import Draft
from decoding.errors import ContractViolation, LimitExceeded
from decoding.stopping import FinishReason, StopScanner
from decoding.verdict import DecodeRequest, Verdict

TARGET_SOURCE = "target"

# What the tokens alone don't show: the id that ended the text isn't among them, and the context is the target's.
_FOUND_AT_THE_TARGET = frozenset({FinishReason.END_OF_TEXT, FinishReason.STOP_TOKEN, FinishReason.CONTEXT_FULL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """What one verdict added to the output.

    position: absolute index of `tokens[0]`.
    text: newly safe to show; the chunks' texts joined are the completion's. Some of it may belong to earlier tokens.
    sources: of `tokens`, who proposed each: a drafter's source where its token was accepted, else "target".
    log_probabilities: of `tokens`, natural logarithm under the target's processed distribution.
    finish: set on the last chunk.
    """

    position: int
    text: str
    tokens: tuple[int, ...]
    sources: tuple[str, ...]
    log_probabilities: tuple[float, ...]
    finish: FinishReason | None = None


class Transcript:
    """Position, text and end of one output."""

    def __init__(
        self,
        request: DecodeRequest,
        context_length: int,
        token_bytes: Callable[[int], bytes],
        end_of_text: Collection[int],
    ) -> None:
        if len(request.prompt) >= context_length:
            raise LimitExceeded("prompt", limit=context_length - 1, unit="tokens", got=len(request.prompt))
        self.position = len(request.prompt)
        self.finish: FinishReason | None = None
        self._context_length = context_length
        self._end = min(len(request.prompt) + request.stop.max_tokens, context_length)
        self._drafter = request.drafter
        self._scanner = StopScanner(request.stop, token_bytes=token_bytes, end_of_text=end_of_text)

    @property
    def remaining(self) -> int:
        """Tokens that may still be emitted; 1 or more before the finish."""
        return self._end - self.position

    def append(self, verdict: Verdict, draft: Draft | None) -> Chunk:
        """Take a verdict on `draft`, or of a run if None. Raises ContractViolation."""
        _check_counts(verdict)
        if verdict.position != self.position:
            raise ContractViolation(f"a verdict for position {verdict.position} came at {self.position}")
        if draft is not None:
            agreed = min(verdict.accepted, len(verdict.tokens))
            if verdict.drafted != len(draft.tokens) or verdict.tokens[:agreed] != draft.tokens[:agreed]:
                raise ContractViolation("a verdict came on another draft than was sent")
        chunk = Chunk(
            position=self.position,
            text=self._scan(verdict),
            tokens=verdict.tokens,
            sources=self._sources(verdict, draft),
            log_probabilities=verdict.log_probabilities,
            finish=verdict.finish,
        )
        self.position += len(verdict.tokens)
        self.finish = verdict.finish
        full = self.position >= self._context_length
        if self.finish is (None if full else FinishReason.CONTEXT_FULL):
            raise ContractViolation(f"the target holds {self._context_length} tokens and ended with {self.finish}")
        return chunk

    def _scan(self, verdict: Verdict) -> str:
        scanner = self._scanner
        text = ""
        for token in verdict.tokens:
            scan = scanner.push(token)
            if not scan.emitted:
                raise ContractViolation("the target emitted an id that ends the text")
            text += scan.text
        found = scanner.finish
        if verdict.finish is not None and found is None:
            # What the flush itself completes may still be a stop; CLOSED stands for none.
            text += scanner.flush(FinishReason.CLOSED)
            found = scanner.finish
            if found is FinishReason.CLOSED and verdict.finish in _FOUND_AT_THE_TARGET:
                return text
        if found is not verdict.finish or found is FinishReason.CLOSED:
            raise ContractViolation(f"the target ended with {verdict.finish}, its tokens with {found}")
        return text

    def _sources(self, verdict: Verdict, draft: Draft | None) -> tuple[str, ...]:
        if verdict.sources:
            return verdict.sources
        accepted = min(verdict.accepted, len(verdict.tokens))
        named = draft.sources[:accepted] if draft is not None and draft.sources else (self._drafter,) * accepted
        return named + (TARGET_SOURCE,) * (len(verdict.tokens) - accepted)


def _check_counts(verdict: Verdict) -> None:
    drafted, judged, accepted = verdict.drafted, verdict.judged, verdict.accepted
    tokens = len(verdict.tokens)
    ended = verdict.finish is not None
    sane = (
        0 <= accepted <= judged <= min(accepted + 1, drafted)
        and (ended or judged == min(accepted + 1, drafted))
        and (tokens <= accepted + 1 if ended else tokens == accepted + 1)
        and len(verdict.log_probabilities) == tokens
        and len(verdict.sources) in (0, tokens)
    )
    if not sane:
        raise ContractViolation(
            f"a verdict's counts don't add up: drafted {drafted}, judged {judged}, accepted {accepted}, tokens {tokens}"
        )
