"""A drafter of the server's own, for `Run`: one that fails is dropped, and the request goes on plainly.

How long its drafts are is chosen as beside the editor, where there is somebody to choose.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import structlog

from decoding.draft_length import DraftLength
from decoding.drafting import Draft, DraftingRequest, DraftSession
from decoding.errors import ContractViolation
from decoding.traces import trace
from decoding.verdict import Verdict

# Of (language, drafter's name, request): a drafting session, None where there is no such drafter.
Drafting = Callable[[str, str, DraftingRequest], DraftSession | None]

# Of (language, drafter's name): what chooses the length of one request's drafts; None lets them fill blocks.
Lengths = Callable[[str, str], DraftLength | None]

log = structlog.get_logger()


class GuardedDrafts:
    """One request's drafting, which never raises. `session` None drafts nothing from the start.

    check: raises where a draft couldn't be verified. length: chooses how long drafts are; None drafts all that it may.
    clock: seconds, monotonic.
    """

    def __init__(
        self,
        session: DraftSession | None,
        *,
        request_id: str,
        check: Callable[[Draft], object],
        length: DraftLength | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._request_id = request_id
        self._check = check
        self._length = length
        self._clock = clock
        self._spent_s = 0.0

    def propose(self, position: int, limit: int) -> Draft:
        """At most `limit` tokens from `position`; an empty draft where there is nothing to propose."""
        if self._session is not None and limit and self._length is not None:
            limit = self._length.limit(limit)
        if self._session is not None and limit:
            start = self._clock()
            try:
                draft = self._session.propose(limit)
                if len(draft.tokens) > limit:
                    raise ContractViolation("a drafter drafted too much")
                self._check(draft)
                if self._length is not None:
                    spent_us = round((self._spent_s + self._clock() - start) * 1e6)
                    draft = self._length.cut(draft, limit=limit, draft_us=spent_us)
                self._spent_s = 0.0
                return draft
            except Exception as error:
                self._drop(error)
        return Draft(position=position, tokens=(), sampling_fingerprint="")

    def judged(self, verdict: Verdict) -> None:
        """Tell the drafter, and what chooses the lengths of drafts, of a step's verdict."""
        if self._length is not None:
            self._length.judged(verdict, wait_us=verdict.queue_us + verdict.verify_us, answered=False, timed=True)
        self.extend(verdict.tokens)

    def extend(self, tokens: Sequence[int]) -> None:
        """Tell the drafter what the target has emitted."""
        if self._session is not None:
            start = self._clock()
            try:
                self._session.extend(tokens)
            except Exception as error:
                self._drop(error)
            self._spent_s += self._clock() - start

    def _drop(self, error: Exception) -> None:
        self._session = None
        log.warning("drafter", request_id=self._request_id, trace=trace(error))
