"""The target's side of one sequence: where it stands, what it has counted, and the judging of drafts.

The only place that holds a sequence's target-side state. It is handed logits and never asks where they came from;
it knows nothing of models, devices or time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

from decoding.acceptance import Pick, pick, pick_all, settled
from decoding.arithmetic import Arithmetic, Row
from decoding.drafting import Draft
from decoding.errors import ContractViolation, InvalidSetting, LimitExceeded, Mismatch, StalePosition
from decoding.processors import Context
from decoding.stopping import FinishReason, StopScanner
from decoding.verdict import DecodeRequest, Statistics, Verdict

RowOut = TypeVar("RowOut", covariant=True)


class Rows(Protocol[RowOut]):
    """Logits by place in a block: a two-dimensional array, a list of rows, or something that computes them."""

    def __getitem__(self, index: int, /) -> RowOut: ...


class Sequence(Generic[Row]):
    """One sequence, from its prompt to its finish.

    end_of_text: ids that end any output.
    token_bytes: the UTF-8 bytes of an id, for stop strings and line limits; b"" for special tokens.
    vocabulary_size: ids are under it; rows of logits may be wider (padding), and what lies beyond is never emitted.
    context_length: tokens of prompt and output together.

    Raises InvalidSetting for an empty prompt, or for an id out of the vocabulary in prompt, bias, bans or stops;
    LimitExceeded where the prompt leaves no room for one token.
    """

    def __init__(
        self,
        request: DecodeRequest,
        *,
        end_of_text: frozenset[int],
        token_bytes: Callable[[int], bytes],
        vocabulary_size: int,
        context_length: int,
        arithmetic: Arithmetic[Row, Any],
    ) -> None:
        self._size = vocabulary_size
        self._check_ids("prompt", request.prompt)
        self._check_ids("sampling.logit_bias", [token for token, _ in request.sampling.logit_bias])
        self._check_ids("sampling.banned", request.sampling.banned)
        self._check_ids("stop.token_ids", request.stop.token_ids)
        if not request.prompt:
            raise InvalidSetting("prompt", "must hold at least one token")
        if len(request.prompt) >= context_length:
            raise LimitExceeded("prompt", limit=context_length - 1, unit="tokens", got=len(request.prompt))
        self._config = request.sampling
        self._fingerprint = request.sampling.fingerprint()
        self._max_tokens = request.stop.max_tokens
        self._context_length = context_length
        self._arithmetic = arithmetic
        self._scanner = StopScanner(request.stop, token_bytes=token_bytes, end_of_text=end_of_text)
        self._context = Context(request.prompt if request.sampling.repetition_penalty != 1 else ())
        self._last = request.prompt[-1]
        self._position = len(request.prompt)
        self._statistics = Statistics(prompt_tokens=len(request.prompt))

    @property
    def position(self) -> int:
        """Absolute index of the token to be decided next."""
        return self._position

    @property
    def finish(self) -> FinishReason | None:
        """Why the sequence ended, None while it goes on."""
        return self._scanner.finish

    @property
    def statistics(self) -> Statistics:
        return self._statistics

    def cached(self, tokens: int) -> None:
        """Note how many of the prompt's tokens the target had in its cache."""
        self._statistics = replace(self._statistics, cached_tokens=tokens)

    def block(self, draft: Draft) -> tuple[int, ...]:
        """The ids whose rows `judge` may need: the last verified token, then drafted ones.

        Drafted tokens that could no longer be emitted, past the token limit or the end of the context, are left out;
        so the block never runs past the context. Raises ContractViolation after the finish, StalePosition for a
        draft of another place, Mismatch for one made under another sampling config, InvalidSetting for unknown ids.
        """
        if self.finish is not None:
            raise ContractViolation("a draft came after the sequence had ended")
        if draft.position != self._position:
            raise StalePosition(expected=self._position, got=draft.position)
        # A drafter that doesn't depend on sampling names no config.
        if draft.sampling_fingerprint not in ("", self._fingerprint):
            raise Mismatch(
                "sampling fingerprint",
                expected=self._fingerprint,
                got=draft.sampling_fingerprint,
                remedy="draft under the sampling config of the open message",
            )
        self._check_ids("draft.tokens", draft.tokens)
        room = min(self._max_tokens - self._scanner.emitted_tokens, self._context_length - self._position)
        return (self._last, *draft.tokens[: room - 1])

    def judge(self, draft: Draft, rows: Rows[Row]) -> Verdict:
        """Decide the tokens that a block settles, and move past them.

        rows: `rows[i]` holds the logits after token i of `block(draft)`; they are asked for in order, as many at a time
        as the arithmetic wants, and no more once the first token is rejected or the sequence ends. What rows hold that
        were not judged is ignored.

        The verdict's times are 0, for whoever has a clock to fill in. End-of-text and stop ids count as judged and
        accepted where they were drafted, but are not emitted. Raises as `block`; TargetFailed and InvalidSetting as
        `processors.process`, after which the sequence is of no further use.
        """
        length = len(self.block(draft))
        start = self._position
        tokens: list[int] = []
        log_probabilities: list[float] = []
        judged = accepted = 0
        for index, chosen in enumerate(self._picks(draft, rows, length)):
            agreed = False
            if index < len(draft.tokens):
                agreed = chosen.token == draft.tokens[index]
                judged += 1
                accepted += agreed
            if self._take(chosen.token):
                tokens.append(chosen.token)
                log_probabilities.append(chosen.log_probability)
            if self.finish is not None or not agreed:
                break
        seen = self._statistics
        self._statistics = replace(
            seen,
            drafted_tokens=seen.drafted_tokens + len(draft.tokens),
            judged_tokens=seen.judged_tokens + judged,
            accepted_tokens=seen.accepted_tokens + accepted,
            emitted_tokens=seen.emitted_tokens + len(tokens),
            verify_steps=seen.verify_steps + 1,
        )
        return Verdict(
            position=start,
            drafted=len(draft.tokens),
            judged=judged,
            accepted=accepted,
            tokens=tuple(tokens),
            log_probabilities=tuple(log_probabilities),
            sources=_sources(draft, accepted, len(tokens)),
            finish=self.finish,
        )

    def _picks(self, draft: Draft, rows: Rows[Row], length: int) -> Iterator[Pick]:
        """The target's tokens for the block, each taken (`_take`) before the next is asked for."""
        at_once = self._arithmetic.rows_at_once
        for start in range(0, length, at_once):
            end = min(start + at_once, length)
            place = (self._context, self._position, self._config, self._arithmetic)
            if end == start + 1:
                yield pick(rows[start], *place, valid_size=self._size)
                continue
            group = [rows[index] for index in range(start, end)]
            for found in pick_all(group, draft.tokens[start : end - 1], *place, valid_size=self._size):
                yield settled(found)

    def _take(self, token: int) -> bool:
        """Move past a token that the target chose; False if it ends the output without being part of it."""
        if not self._scanner.push(token).emitted:
            return False
        self._last = token
        self._position += 1
        if self._config.repetition_penalty != 1:
            self._context.add(token)
        if self._position >= self._context_length:
            self._scanner.flush(FinishReason.CONTEXT_FULL)
        return True

    def _check_ids(self, field: str, ids: Collection[int]) -> None:
        if ids and not 0 <= min(ids) <= max(ids) < self._size:
            raise InvalidSetting(field, f"ids must be from 0 to {self._size - 1}")


def _sources(draft: Draft, accepted: int, emitted: int) -> tuple[str, ...]:
    """Who proposed each emitted token; () where the draft does not say."""
    if draft.tokens and not draft.sources:
        return ()
    return (*draft.sources[:accepted], "target")[:emitted]
