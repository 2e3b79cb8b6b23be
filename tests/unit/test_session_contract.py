"""What a session refuses, of its peer and of its caller."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from session_steps import END, draft, opened, propose, verdict

from decoding.errors import ContractViolation, InvalidSetting, LimitExceeded, Mismatch, StalePosition
from decoding.rules import GuardRules
from decoding.sampling import SamplingConfig
from decoding.session import Mode, Propose
from decoding.stopping import FinishReason, StopRules
from decoding.verdict import Opened, Statistics


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
