"""What a session asks for next, and what its chunks hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from drafter_records import record
from session_steps import draft, opened, propose, verdict

from decoding.draft_length import DraftLength
from decoding.errors import ContractViolation
from decoding.rules import GuardRules
from decoding.session import Done, Mode, Propose, Run, Verify
from decoding.stopping import FinishReason, StopRules

# what to do next


def test_plain_is_one_run() -> None:
    session = opened(Mode.PLAIN)
    assert session.next() == Run(limit=20)
    chunk = session.judged(verdict(session, 0, 0, "x"))
    assert (chunk.position, chunk.text, chunk.sources) == (3, "x", ("target",))


def test_edge_drafts_then_verifies_and_says_so_until_answered() -> None:
    session = opened()
    assert session.next() == session.next() == Propose(limit=3)
    guess = draft(session, "xy", source="ngram")
    session.drafted(guess)
    assert session.next() == session.next() == Verify(draft=guess)
    chunk = session.judged(verdict(session, 2, 1, "xz"))
    assert chunk.tokens == tuple(b"xz")
    assert chunk.sources == ("ngram", "target")
    assert chunk.log_probabilities == (-1.0, -1.0)
    assert session.position == 5
    assert session.next() == Propose(limit=3)


def test_a_draft_without_sources_is_its_drafters() -> None:
    session = opened()
    propose(session, "xy")
    assert session.judged(verdict(session, 2, 2, "xyz")).sources == ("lookup", "lookup", "target")


@pytest.mark.parametrize(
    ("max_tokens", "context_length", "block_rows", "action"),
    [
        (20, 100, 8, Propose(limit=7)),
        (3, 100, 8, Propose(limit=2)),
        (20, 7, 8, Propose(limit=3)),
        (1, 100, 8, Run(limit=1)),
        (20, 4, 8, Run(limit=1)),
        (20, 100, 1, Run(limit=20)),
    ],
)
def test_a_draft_never_exceeds_what_can_be_emitted(
    max_tokens: int, context_length: int, block_rows: int, action: Propose | Run
) -> None:
    session = opened(stop=StopRules(max_tokens=max_tokens), context_length=context_length, block_rows=block_rows)
    assert session.next() == action


def test_the_server_drafts_in_segments() -> None:
    session = opened(Mode.SERVER, guard=GuardRules(server_run_tokens=8), stop=StopRules(max_tokens=10))
    assert session.next() == Run(limit=8, drafter="lookup")
    chunk = session.judged(verdict(session, 7, 7, "abcdefgh", sources=("ngram",) * 7 + ("target",)))
    assert chunk.sources == ("ngram",) * 7 + ("target",)
    assert session.next() == Run(limit=2, drafter="lookup")


def test_the_end_is_done() -> None:
    session = opened(stop=StopRules(max_tokens=2))
    propose(session, "x")
    assert session.judged(verdict(session, 1, 1, "xy", finish=FinishReason.TOKEN_LIMIT)).text == "xy"
    assert session.next() == Done(reason=FinishReason.TOKEN_LIMIT)
    assert session.finish is FinishReason.TOKEN_LIMIT
    with pytest.raises(ContractViolation):
        session.judged(verdict(session, 0, 0, "z"))


def test_empty_drafts_in_a_row_let_the_target_run_for_a_while() -> None:
    session = opened(guard=GuardRules(empty_drafts=2, pause_tokens=3))
    for _ in range(2):
        propose(session, "")
        session.judged(verdict(session, 0, 0, "x"))
    assert session.next() == Run(limit=3)
    for _ in range(3):
        session.judged(verdict(session, 0, 0, "x"))
    for text in ("", "y", ""):
        propose(session, text)
        session.judged(verdict(session, len(text), 0, "x"))
    assert session.next() == Propose(limit=3)  # the one with a token started the count again
    assert session.draft_stop is None


# how long drafts are


def test_a_draft_is_cut_where_its_rows_are_dearer_than_its_tokens() -> None:
    dear = record(steps=((1, 50_000), (4, 150_000)))
    session = opened(length=DraftLength(dear))
    assert isinstance(session.next(), Propose)
    session.drafted(replace(draft(session, "x"), confidences=(0.1,)))
    assert session.next() == Verify(draft=draft(session, ""))
    session.judged(verdict(session, 0, 0, "x"))
    assert session.statistics.drafted_tokens == 0


def test_where_no_draft_pays_the_target_runs_alone_for_a_while_and_that_is_weighed_again() -> None:
    far = record(steps=((1, 50_000), (4, 50_000)), trip_us=1_000_000)
    session = opened(length=DraftLength(far), stop=StopRules(max_tokens=60))
    assert session.next() == Run(limit=16)
    for _ in range(16):
        session.judged(verdict(session, 0, 0, "x"))
    assert session.next() == Run(limit=16)
    for _ in range(16):
        session.judged(verdict(session, 0, 0, "x"))
    for _ in range(32):
        far.timings.add_round_trip(100)
    assert session.next() == Propose(limit=3)
    assert session.draft_stop is None


def test_a_chooser_learns_what_came_of_the_rounds() -> None:
    known = record()
    session = opened(length=DraftLength(known))
    propose(session, "xyz", draft_us=40)
    session.judged(verdict(session, 3, 1, "xz", queue_us=20, verify_us=30), wait_us=90_000)  # holds the prefill
    propose(session, "xyz", draft_us=40)
    session.judged(verdict(session, 3, 3, "xyzx", queue_us=20, verify_us=30), wait_us=100)
    assert known.earned.part == 6
    assert known.guess_us == 10
    assert (known.timings.step_us(4), known.timings.round_trip_us) == (30, 50)


# stops inside a block


@pytest.mark.parametrize(
    ("stop", "text", "fields", "shown"),
    [
        (StopRules(strings=("yz",)), "xyz", {"finish": FinishReason.STOP_STRING, "accepted": 3, "judged": 3}, "x"),
        (StopRules(max_lines=1), "x\n", {"finish": FinishReason.LINE_LIMIT, "accepted": 2, "judged": 2}, "x"),
        (StopRules(), "xy", {"finish": FinishReason.END_OF_TEXT, "accepted": 3, "judged": 3}, "xy"),
        (StopRules(token_ids=(122,)), "xy", {"finish": FinishReason.STOP_TOKEN, "accepted": 3, "judged": 3}, "xy"),
        (StopRules(), "", {"finish": FinishReason.END_OF_TEXT, "accepted": 0, "judged": 1}, ""),
        (StopRules(strings=("xyq",)), "xy", {"finish": FinishReason.END_OF_TEXT, "accepted": 2, "judged": 3}, "xy"),
    ],
)
def test_a_stop_inside_the_block_trims_text_and_tokens(
    stop: StopRules, text: str, fields: dict[str, Any], shown: str
) -> None:
    session = opened(stop=stop)
    propose(session, (text + "z" * 3)[:3])
    chunk = session.judged(verdict(session, 3, fields.pop("accepted"), text, **fields))
    assert (chunk.text, chunk.tokens, chunk.finish) == (shown, tuple(text.encode()), fields["finish"])
    assert session.next() == Done(reason=fields["finish"])


def test_a_full_context_ends_with_what_was_held_back() -> None:
    session = opened(context_length=5, stop=StopRules(strings=("xyq",)))
    propose(session, "x")
    chunk = session.judged(verdict(session, 1, 1, "xy", finish=FinishReason.CONTEXT_FULL))
    assert chunk.text == "xy"
    assert session.next() == Done(reason=FinishReason.CONTEXT_FULL)
