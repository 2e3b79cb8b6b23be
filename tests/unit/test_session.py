"""The session's actions, what it refuses, and when it stops drafting; by hand, without a target."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from decoding.drafting import Draft
from decoding.errors import ContractViolation, InvalidSetting, LimitExceeded, Mismatch, StalePosition
from decoding.rules import GuardRules
from decoding.sampling import SamplingConfig
from decoding.session import Done, DraftStop, Mode, Propose, Run, Session, Verify
from decoding.stopping import FinishReason, StopRules
from decoding.verdict import DecodeRequest, Opened, Statistics, Verdict

END = 0


def opened(
    mode: Mode = Mode.EDGE,
    *,
    stop: StopRules | None = None,
    sampling: SamplingConfig | None = None,
    guard: GuardRules | None = None,
    block_rows: int = 4,
    context_length: int = 100,
    drafter: str = "lookup",
    prompt: tuple[int, ...] = (97, 98, 99),
) -> Session:
    """Token ids are characters; 0 ends the text."""
    return Session(
        DecodeRequest(
            prompt=prompt,
            sampling=sampling or SamplingConfig(),
            stop=stop or StopRules(max_tokens=20),
            language="python",
            drafter=drafter,
            tokenizer_fingerprint="",
            request_id="r1",
        ),
        mode=mode,
        block_rows=block_rows,
        context_length=context_length,
        token_bytes=lambda token: bytes([token]),
        end_of_text={END},
        guard=guard,
    )


def draft(session: Session, text: str, *, source: str = "") -> Draft:
    return Draft(
        position=session.position,
        tokens=tuple(text.encode()),
        sampling_fingerprint="",
        sources=(source,) * len(text) if source else (),
    )


def verdict(session: Session, drafted: int, accepted: int, text: str, **fields: Any) -> Verdict:
    tokens = tuple(text.encode())
    plain = Verdict(
        position=session.position,
        drafted=drafted,
        judged=min(accepted + 1, drafted),
        accepted=accepted,
        tokens=tokens,
        log_probabilities=(-1.0,) * len(tokens),
    )
    return replace(plain, **fields)


def propose(session: Session, text: str, **fields: Any) -> None:
    assert isinstance(session.next(), Propose)
    session.drafted(draft(session, text), **fields)
    assert isinstance(session.next(), Verify)


def reject(session: Session, drafted: int, **fields: Any) -> None:
    """One round in which the target takes nothing of a draft."""
    propose(session, "y" * drafted)
    session.judged(verdict(session, drafted, 0, "n"), **fields)


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


# the contract


@pytest.mark.parametrize(
    "fields",
    [
        {"position": 4},
        {"drafted": 3},
        {"judged": 3},
        {"judged": 1},
        {"accepted": 2},
        {"accepted": -1, "judged": 0},
        {"tokens": tuple(b"yz")},  # accepted what was not drafted
        {"tokens": tuple(b"x"), "log_probabilities": (-1.0,)},  # no token of the target's own
        {"tokens": (), "log_probabilities": ()},
        {"tokens": tuple(b"xzz"), "log_probabilities": (-1.0,) * 3},
        {"log_probabilities": (-1.0,)},
        {"sources": ("target",)},
        {"finish": FinishReason.STOP_STRING},
        {"finish": FinishReason.TOKEN_LIMIT},
        {"finish": FinishReason.CONTEXT_FULL},
        {"finish": FinishReason.CLOSED},
        {"tokens": (120, END)},  # an id that ends the text is not emitted
    ],
)
def test_a_verdict_that_cannot_be_is_refused(fields: dict[str, Any]) -> None:
    session = opened()
    propose(session, "xy")
    answer = verdict(session, 2, 1, "xz")
    with pytest.raises(ContractViolation):
        session.judged(replace(answer, **fields))


def test_a_target_that_overlooks_a_stop_is_refused() -> None:
    for stop, context_length in ((StopRules(strings=("z",)), 100), (StopRules(max_tokens=2), 100), (StopRules(), 5)):
        session = opened(stop=stop, context_length=context_length)
        propose(session, "x")
        with pytest.raises(ContractViolation):
            session.judged(verdict(session, 1, 1, "xz"))


def test_a_stop_before_the_last_token_is_refused() -> None:
    session = opened(stop=StopRules(strings=("x",)))
    propose(session, "xy")
    with pytest.raises(ContractViolation):
        session.judged(verdict(session, 2, 1, "xz", finish=FinishReason.STOP_STRING))


def test_runs_keep_to_what_was_asked() -> None:
    session = opened(Mode.PLAIN, stop=StopRules(max_tokens=2))
    with pytest.raises(ContractViolation, match="nobody asked"):
        session.judged(verdict(session, 0, 0, "x"))
    session.next()
    with pytest.raises(ContractViolation, match="without a token"):
        session.next()
    session = opened(Mode.PLAIN)
    session.next()
    with pytest.raises(ContractViolation, match="decode plainly"):
        session.judged(verdict(session, 1, 1, "xy"))
    session = opened(Mode.SERVER, guard=GuardRules(server_run_tokens=1))
    session.next()
    with pytest.raises(ContractViolation, match="over its limit"):
        session.judged(verdict(session, 1, 1, "xy"))


def test_drafts_that_do_not_fit_are_refused_and_leave_the_session_as_it_was() -> None:
    session = opened(sampling=SamplingConfig(seed=7))
    with pytest.raises(ContractViolation):
        session.drafted(draft(session, "x"))
    session.next()
    with pytest.raises(StalePosition):
        session.drafted(replace(draft(session, "x"), position=2))
    with pytest.raises(Mismatch, match="sampling"):
        session.drafted(replace(draft(session, "x"), sampling_fingerprint=SamplingConfig(seed=8).fingerprint()))
    with pytest.raises(LimitExceeded, match="3 tokens, got 4"):
        session.drafted(draft(session, "wxyz"))
    assert session.next() == Propose(limit=3)
    session.drafted(replace(draft(session, "x"), sampling_fingerprint=SamplingConfig(seed=7).fingerprint()))


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="block_rows"):
        opened(block_rows=0)
    with pytest.raises(InvalidSetting, match=r"session\.mode"):
        opened(Mode.SERVER, drafter="")
    with pytest.raises(LimitExceeded, match="the limit is 2 tokens, got 3"):
        opened(context_length=3)


def test_another_prompt_than_was_sent_is_refused() -> None:
    session = opened()
    answer = Opened(prompt_tokens=3, cached_tokens=2, seed=0, noise_version="")
    session.opened(answer)
    assert session.statistics == Statistics(prompt_tokens=3, cached_tokens=2)
    for wrong in (replace(answer, prompt_tokens=4), replace(answer, cached_tokens=4)):
        with pytest.raises(ContractViolation):
            session.opened(wrong)


# no longer drafting


def test_drafts_that_keep_failing_end_drafting_for_the_request() -> None:
    session = opened(guard=GuardRules(judged=4, rate=0.5))
    for _ in range(3):
        reject(session, 2)
    assert session.drafting
    reject(session, 2)
    assert session.draft_stop is DraftStop.GUARD
    assert not session.drafting
    assert session.next() == Run(limit=16)


def test_the_guard_looks_at_the_latest_drafts() -> None:
    session = opened(guard=GuardRules(judged=4, rate=0.5))
    for _ in range(3):
        propose(session, "xyz")
        session.judged(verdict(session, 3, 3, "xyzx"))
    for _ in range(4):
        reject(session, 1)
    assert session.draft_stop is DraftStop.GUARD  # though 9 of 13 were accepted in all


def test_the_guard_can_be_off_and_applies_to_server_drafts() -> None:
    session = opened(guard=GuardRules(judged=1, rate=0))
    for _ in range(10):
        reject(session, 1)
    assert session.drafting
    session = opened(Mode.SERVER, guard=GuardRules(judged=2, rate=0.5, server_run_tokens=2))
    session.next()
    for _ in range(2):
        session.judged(verdict(session, 3, 0, "x"))
    assert session.draft_stop is DraftStop.GUARD
    assert session.next() == Run(limit=18)


def test_a_draft_in_flight_is_judged_though_the_gate_fell_back() -> None:
    session = opened()
    propose(session, "xy")
    session.stop_drafting(DraftStop.GATE)
    assert isinstance(session.next(), Verify)
    assert session.judged(verdict(session, 2, 2, "xyz")).text == "xyz"
    assert session.next() == Run(limit=17)
    session.stop_drafting(DraftStop.DRAFTER_FAILED)
    assert session.draft_stop is DraftStop.GATE


def test_a_draft_not_yet_made_is_no_longer_wanted() -> None:
    session = opened()
    session.next()
    session.stop_drafting(DraftStop.DRAFTER_FAILED)
    assert session.next() == Run(limit=20)


def test_plain_has_no_drafting_to_stop() -> None:
    session = opened(Mode.PLAIN)
    session.stop_drafting(DraftStop.GATE)
    assert session.draft_stop is None


# what the gate learns


def test_the_outcome_counts_and_times_all_but_the_first_round() -> None:
    session = opened(guard=GuardRules(empty_drafts=1, pause_tokens=2))
    propose(session, "xy", draft_us=1_000)
    session.judged(verdict(session, 2, 1, "xz"), wait_us=90_000)  # holds the prefill
    propose(session, "xyz", draft_us=10)
    session.judged(verdict(session, 3, 3, "xyzx", queue_us=20, verify_us=30), wait_us=100)
    propose(session, "", draft_us=5)
    session.judged(verdict(session, 0, 0, "x", queue_us=20, verify_us=30), wait_us=100)
    assert session.next() == Run(limit=2)
    session.judged(verdict(session, 0, 0, "x"), wait_us=40)  # a target that tells no times
    outcome = session.outcome(probe=True)
    assert (outcome.speculated, outcome.probe) == (True, True)
    assert (outcome.drafted, outcome.judged, outcome.accepted, outcome.emitted) == (5, 5, 4, 8)
    assert (outcome.speculative_us, outcome.speculative_tokens) == (10 + 100 + 5, 4)
    assert (outcome.plain_us, outcome.plain_tokens) == (50 + 40, 2)


def test_a_verdict_that_waited_for_us_takes_the_devices_time() -> None:
    session = opened(Mode.SERVER)
    session.next()
    for _ in range(2):
        session.judged(verdict(session, 2, 2, "xyz", queue_us=20, verify_us=30), wait_us=1)
    assert (session.outcome().speculative_us, session.outcome().speculative_tokens) == (50, 3)


def test_a_plain_requests_outcome_did_not_speculate() -> None:
    session = opened(Mode.PLAIN)
    session.next()
    session.judged(verdict(session, 0, 0, "x", verify_us=30))
    session.judged(verdict(session, 0, 0, "x", verify_us=30))
    outcome = session.outcome()
    assert not outcome.speculated
    assert (outcome.plain_us, outcome.plain_tokens, outcome.emitted) == (30, 1, 2)
