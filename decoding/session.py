"""One request's loop, sans-IO: it says what to do next, takes what came of it, and emits text.

    while not Done:  next() ─> Propose ─> drafted(draft) ┐
                            ─> Verify(draft) <───────────┘ ─> judged(verdict) ─> Chunk
                            ─> Run(limit, drafter) ─> judged(verdict)* ─> Chunk*

All state of a request's control lives here: its position, what is outstanding, whether it still drafts. No schedule
of drafts, and no fallback at any point, changes tokens or text: those are the target's, and a draft in flight when
drafting ends is judged as any other. Knows nothing of models, drafters, sockets or clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from decoding.actions import Action, Done, DraftStop, Mode, Propose, Run, Verify
from decoding.draft_length import DraftLength
from decoding.drafting import Draft
from decoding.errors import ContractViolation, InvalidSetting, LimitExceeded, Mismatch, StalePosition
from decoding.gate import RequestOutcome
from decoding.placement import Pace
from decoding.rules import GuardRules
from decoding.stopping import FinishReason
from decoding.tally import Tally
from decoding.transcript import Chunk, Transcript
from decoding.verdict import DecodeRequest, Opened, Statistics, Verdict

__all__ = ["Action", "Chunk", "Done", "DraftStop", "Mode", "Propose", "Run", "Session", "Verify"]


class Session:
    """One request's control.

    request: as it was opened at the target.
    mode: who drafts; `request.drafter` names the drafter in EDGE and SERVER.
    block_rows: rows of the target's verify block, 1 or more; the longest draft is one less.
    context_length: tokens of prompt and output that fit the target.
    token_bytes, end_of_text: of the target's vocabulary.
    length: chooses how long this request's drafts are, and learns of its rounds; None drafts all that a block holds.

    Raises InvalidSetting, and LimitExceeded where the prompt leaves no room for one token.
    """

    def __init__(
        self,
        request: DecodeRequest,
        *,
        mode: Mode,
        block_rows: int,
        context_length: int,
        token_bytes: Callable[[int], bytes],
        end_of_text: Collection[int],
        guard: GuardRules | None = None,
        length: DraftLength | None = None,
    ) -> None:
        if block_rows < 1:
            raise InvalidSetting("session.block_rows", f"must be 1 or more, got {block_rows}")
        if mode is Mode.SERVER and not request.drafter:
            raise InvalidSetting("session.mode", "needs the name of a drafter to let the server draft")
        self.mode = mode
        self.draft_stop: DraftStop | None = None
        self.statistics = Statistics(prompt_tokens=len(request.prompt))
        self.pace = Pace()
        self.request = request
        self._fingerprint = request.sampling.fingerprint()
        self._block_rows = block_rows
        self._guard = guard or GuardRules()
        self._length = length
        self._transcript = Transcript(request, context_length, token_bytes, end_of_text)
        self._outstanding: Propose | Verify | Run | None = None
        self._run_left = 0
        self._empty_drafts = 0
        self._recent = Tally(self._guard.judged)
        self._draft_us = 0
        self._speculative_us = self._speculative_tokens = 0
        self._plain_us = self._plain_tokens = 0

    @property
    def position(self) -> int:
        """Absolute index of the next token."""
        return self._transcript.position

    @property
    def finish(self) -> FinishReason | None:
        return self._transcript.finish

    @property
    def drafting(self) -> bool:
        """Whether this request still drafts, here or at the target."""
        return self.mode is not Mode.PLAIN and self.draft_stop is None

    def opened(self, opened: Opened) -> None:
        """Note the target's first answer. Raises ContractViolation if it opened another prompt."""
        if opened.prompt_tokens != self.statistics.prompt_tokens or opened.cached_tokens > opened.prompt_tokens:
            raise ContractViolation("the target opened a prompt of another length")
        self.statistics = replace(self.statistics, cached_tokens=opened.cached_tokens)

    def stop_drafting(self, reason: DraftStop) -> None:
        """Go on plainly from the next action; what is at the target already is still judged. The first reason stays."""
        if self.mode is Mode.PLAIN or self.draft_stop is not None:
            return
        self.draft_stop = reason
        if isinstance(self._outstanding, Propose):
            self._outstanding = None

    def next(self) -> Action:
        """What to do now; the same again until it is answered. After a Run it means that the run is over.

        Raises ContractViolation if a run ended without a token.
        """
        if self.finish is not None:
            return Done(reason=self.finish)
        if isinstance(self._outstanding, Run):
            if self._run_left == self._outstanding.limit:
                raise ContractViolation("the target's run ended without a token")
            self._outstanding = None
        if self._outstanding is None:
            self._outstanding = self._choose()
            if isinstance(self._outstanding, Run):
                self._run_left = self._outstanding.limit
        return self._outstanding

    def _choose(self) -> Propose | Verify | Run:
        remaining = self._transcript.remaining
        if not self.drafting:
            return Run(limit=remaining)
        guard = self._guard
        if self.mode is Mode.SERVER:
            return Run(limit=min(remaining, guard.server_run_tokens), drafter=self.request.drafter)
        if guard.empty_drafts and self._empty_drafts >= guard.empty_drafts:
            self._empty_drafts = 0
            return Run(limit=min(remaining, guard.pause_tokens))
        # A verdict emits one token more than it accepts: a longer draft would hold what can't be emitted.
        limit = min(self._block_rows, remaining) - 1
        if not limit:
            return Run(limit=remaining)
        if self._length is not None:
            limit = self._length.limit(limit)
            if not limit:
                return Run(limit=min(remaining, self._length.run_tokens))
        return Propose(limit=limit)

    def drafted(self, draft: Draft, *, draft_us: int = 0) -> None:
        """Answer a Propose; `draft_us` is what drafting took. A refused draft leaves the Propose as it was.

        Raises StalePosition, Mismatch (sampling), LimitExceeded, ContractViolation (nothing was to be drafted).
        """
        if not isinstance(self._outstanding, Propose):
            raise ContractViolation("a draft came that nobody asked for")
        self._draft_us += draft_us
        if draft.position != self.position:
            raise StalePosition(expected=self.position, got=draft.position)
        if draft.sampling_fingerprint not in ("", self._fingerprint):
            raise Mismatch("sampling", expected=self._fingerprint, got=draft.sampling_fingerprint)
        if len(draft.tokens) > self._outstanding.limit:
            raise LimitExceeded("draft", limit=self._outstanding.limit, unit="tokens", got=len(draft.tokens))
        if self._length is not None:
            draft = self._length.cut(draft, limit=self._outstanding.limit, draft_us=draft_us)
        self._empty_drafts = 0 if draft.tokens else self._empty_drafts + 1
        self._outstanding = Verify(draft=draft)

    def judged(self, verdict: Verdict, *, wait_us: int = 0) -> Chunk:
        """Take the target's answer to a Verify or one of a Run's; `wait_us` is how long it was waited for.

        Raises ContractViolation where the answer can't be the target's own; the session is of no use then.
        """
        outstanding = self._outstanding
        if not isinstance(outstanding, Verify | Run) or self.finish is not None:
            raise ContractViolation("a verdict came that nobody asked for")
        answered = isinstance(outstanding, Verify) or self._run_left == outstanding.limit
        if isinstance(outstanding, Verify):
            chunk = self._transcript.append(verdict, outstanding.draft)
            self._outstanding = None
        else:
            if len(verdict.tokens) > self._run_left:
                raise ContractViolation("the target ran over its limit")
            if verdict.drafted and not outstanding.drafter:
                raise ContractViolation("the target drafted where it was to decode plainly")
            chunk = self._transcript.append(verdict, None)
            self._run_left -= len(verdict.tokens)
        if self._length is not None:
            timed = self.statistics.verify_steps > 0
            self._length.judged(verdict, wait_us=wait_us, answered=answered, timed=timed)
        self._time(verdict, wait_us)
        self._count(verdict)
        return chunk

    def _count(self, verdict: Verdict) -> None:
        before = self.statistics
        self.statistics = replace(
            before,
            drafted_tokens=before.drafted_tokens + verdict.drafted,
            judged_tokens=before.judged_tokens + verdict.judged,
            accepted_tokens=before.accepted_tokens + verdict.accepted,
            emitted_tokens=before.emitted_tokens + len(verdict.tokens),
            verify_steps=before.verify_steps + 1,
        )
        if verdict.judged:
            self._recent.add(verdict.accepted, verdict.judged)
            recent = self._recent.latest(self._guard.judged)
            if recent and recent[0] / recent[1] < self._guard.rate:
                self.stop_drafting(DraftStop.GUARD)

    def _time(self, verdict: Verdict, wait_us: int) -> None:
        """Book the round. The first is left out on either side: it may hold the prompt's prefill.

        All drafting counts as speculation's, empty drafts too: speculation pays exactly when that and its drafted
        rounds take less a token than a plain round. A plain round counts what the device took where the target says
        so, since plain decoding would have run there without our round trip. Verdicts of a run may have waited for
        us, so a wait is never taken for less than the device's time.
        """
        draft_us, self._draft_us = self._draft_us, 0
        if not self.statistics.verify_steps:
            return
        device_us = verdict.queue_us + verdict.verify_us
        if self.drafting and verdict.verify_us:
            self.pace = Pace(
                steps=self.pace.steps + 1,
                tokens=self.pace.tokens + len(verdict.tokens),
                device_us=self.pace.device_us + device_us,
                overhead_us=self.pace.overhead_us + draft_us + max(0, wait_us - device_us),
            )
        self._speculative_us += draft_us
        if verdict.drafted:
            self._speculative_us += max(wait_us, device_us)
            self._speculative_tokens += len(verdict.tokens)
        else:
            self._plain_us += device_us or wait_us
            self._plain_tokens += len(verdict.tokens)

    def outcome(self, *, probe: bool = False) -> RequestOutcome:
        """What the gate is to learn of this request, at any moment: a cancelled one counts as far as it came."""
        counts = self.statistics
        return RequestOutcome(
            speculated=self.mode is not Mode.PLAIN,
            probe=probe,
            drafted=counts.drafted_tokens,
            judged=counts.judged_tokens,
            accepted=counts.accepted_tokens,
            emitted=counts.emitted_tokens,
            speculative_us=self._speculative_us,
            speculative_tokens=self._speculative_tokens,
            plain_us=self._plain_us,
            plain_tokens=self._plain_tokens,
        )
