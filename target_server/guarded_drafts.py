"""A drafter of the server's own, for `Run`: one that fails is dropped, and the request goes on plainly."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from decoding.drafting import Draft, DraftingRequest, DraftSession
from decoding.errors import ContractViolation
from decoding.traces import trace

# Of (language, drafter's name, request): a drafting session, None where there is no such drafter.
Drafting = Callable[[str, str, DraftingRequest], DraftSession | None]

log = structlog.get_logger()


class GuardedDrafts:
    """One request's drafting, which never raises. `session` None drafts nothing from the start."""

    def __init__(self, session: DraftSession | None, *, request_id: str) -> None:
        self._session = session
        self._request_id = request_id

    def propose(self, position: int, limit: int) -> Draft:
        """At most `limit` tokens from `position`; an empty draft where there is nothing to propose."""
        if self._session is not None and limit:
            try:
                draft = self._session.propose(limit)
                if draft.position != position or len(draft.tokens) > limit:
                    raise ContractViolation("a drafter drafted for another place, or too much")
                return draft
            except Exception as error:
                self._drop(error)
        return Draft(position=position, tokens=(), sampling_fingerprint="")

    def extend(self, tokens: Sequence[int]) -> None:
        """Tell the drafter what the target has emitted."""
        if self._session is not None:
            try:
                self._session.extend(tokens)
            except Exception as error:
                self._drop(error)

    def _drop(self, error: Exception) -> None:
        self._session = None
        log.warning("drafter", request_id=self._request_id, trace=trace(error))
