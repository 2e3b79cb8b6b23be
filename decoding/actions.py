"""What a session may ask for, in which mode, and why it stops drafting: the values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from decoding.drafting import Draft
from decoding.stopping import FinishReason


class Mode(StrEnum):
    PLAIN = "plain"  # the target runs alone
    EDGE = "edge"  # drafts are made here
    SERVER = "server"  # drafts are made at the target


class DraftStop(StrEnum):
    """Why a request that set out to draft went on plainly."""

    GUARD = "guard"  # too few of its drafted tokens were accepted
    GATE = "gate"  # its language and drafter fell back meanwhile
    DRAFTER_FAILED = "drafter_failed"
    OVER_BUDGET = "over_budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Propose:
    """Make a draft of at most `limit` tokens (1 or more) from the session's position, and hand it to `drafted`."""

    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """Have the target judge `draft`, and hand its answer to `judged`."""

    draft: Draft


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Let the target emit `limit` tokens by itself, each verdict to `judged`; with a `drafter` of its own unless ""."""

    limit: int
    drafter: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    reason: FinishReason


Action = Propose | Verify | Run | Done
