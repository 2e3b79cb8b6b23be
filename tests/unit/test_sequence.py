"""One sequence at the target: positions, counts, finishes inside a block, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from toy_target import END, ToyTarget

from decoding.drafting import Draft
from decoding.errors import ContractViolation, InvalidSetting, LimitExceeded, Mismatch, StalePosition, TargetFailed
from decoding.sampling import SamplingConfig
from decoding.sequence import Sequence
from decoding.stopping import FinishReason, StopRules
from decoding.verdict import Verdict
from target_server.arithmetic import TorchArithmetic

A, AB, BREAK, X = 1, 2, 5, 11
STOP = 10


class Script:
    """A target that always says the next token of a script, and counts the rows it is asked for."""

    def __init__(self, *tokens: int, size: int = 12) -> None:
        self.tokens = tokens
        self.size = size
        self.start = 0
        self.asked = 0

    def __getitem__(self, index: int) -> np.ndarray:
        self.asked += 1
        row = np.zeros(self.size, dtype=np.float32)
        row[self.tokens[self.start + index]] = 10
        return row


def opened(**changes: object) -> Sequence[np.ndarray]:
    return ToyTarget().open(**changes)  # type: ignore[arg-type]


def judge(sequence: Sequence[np.ndarray], script: Script, *drafted: int) -> Verdict:
    verdict = sequence.judge(Draft(position=sequence.position, tokens=drafted, sampling_fingerprint=""), script)
    script.start += len(verdict.tokens)
    return verdict


def test_accepted_tokens_then_the_targets_own() -> None:
    sequence, script = opened(prompt=(1, 2, 3)), Script(A, AB, X, A)
    assert sequence.position == 3
    verdict = judge(sequence, script, A, AB, A, A)
    assert verdict.position == 3
    assert (verdict.drafted, verdict.judged, verdict.accepted) == (4, 3, 2)
    assert verdict.tokens == (A, AB, X)
    assert script.asked == 3  # the row after the first mismatch is never looked at
    assert sequence.position == 6
    assert sequence.block(Draft(position=6, tokens=(7, 8), sampling_fingerprint="")) == (X, 7, 8)


def test_a_fully_accepted_draft_gains_one_token_more() -> None:
    sequence = opened()
    verdict = judge(sequence, Script(A, AB, X), A, AB)
    assert (verdict.judged, verdict.accepted, verdict.tokens) == (2, 2, (A, AB, X))
    assert verdict.finish is None


def test_an_empty_draft_is_plain_decoding() -> None:
    sequence = opened()
    assert sequence.block(Draft(position=2, tokens=(), sampling_fingerprint="")) == (2,)
    verdict = judge(sequence, Script(X))
    assert (verdict.drafted, verdict.judged, verdict.accepted, verdict.tokens) == (0, 0, 0, (X,))
    assert verdict.sources == ("target",)


def test_log_probabilities_are_the_targets() -> None:
    verdict = judge(opened(), Script(A, X), A)
    expected = 10 - math.log(math.exp(10) + 11)
    assert verdict.log_probabilities == pytest.approx((expected, expected), abs=1e-12)


def test_end_of_text_inside_a_block_is_accepted_but_not_emitted() -> None:
    sequence = opened()
    verdict = judge(sequence, Script(A, END, X, X), A, END, X)
    assert verdict.finish is FinishReason.END_OF_TEXT
    assert verdict.tokens == (A,)
    assert len(verdict.log_probabilities) == 1
    assert (verdict.drafted, verdict.judged, verdict.accepted) == (3, 2, 2)
    assert sequence.position == 3


def test_end_of_text_that_was_not_drafted() -> None:
    verdict = judge(opened(), Script(A, END), A, X)
    assert (verdict.tokens, verdict.judged, verdict.accepted) == ((A,), 2, 1)
    assert verdict.finish is FinishReason.END_OF_TEXT


def test_a_stop_token_inside_a_block() -> None:
    verdict = judge(opened(stop=StopRules(token_ids=(STOP,))), Script(A, STOP, X), A, STOP, X)
    assert (verdict.tokens, verdict.judged, verdict.accepted) == ((A,), 2, 2)
    assert verdict.finish is FinishReason.STOP_TOKEN


def test_a_stop_string_across_blocks_ends_with_the_token_that_completes_it() -> None:
    sequence, script = opened(stop=StopRules(strings=("xab",))), Script(A, X, AB, X, X)
    assert judge(sequence, script, A).finish is None
    verdict = judge(sequence, script, AB, X)
    assert (verdict.tokens, verdict.judged, verdict.accepted) == ((AB,), 1, 1)
    assert verdict.finish is FinishReason.STOP_STRING


def test_a_line_limit_inside_a_block() -> None:
    verdict = judge(opened(stop=StopRules(max_lines=1)), Script(A, BREAK, X), A, BREAK, X)
    assert (verdict.tokens, verdict.accepted, verdict.finish) == ((A, BREAK), 2, FinishReason.LINE_LIMIT)


def test_the_token_limit_trims_the_block() -> None:
    sequence = opened(stop=StopRules(max_tokens=2))
    assert len(sequence.block(Draft(position=2, tokens=(A,) * 5, sampling_fingerprint=""))) == 2
    script = Script(A, A, A, A, A, A)
    verdict = judge(sequence, script, A, A, A, A, A)
    assert (verdict.drafted, verdict.judged, verdict.accepted, verdict.tokens) == (5, 2, 2, (A, A))
    assert verdict.finish is FinishReason.TOKEN_LIMIT
    assert script.asked == 2


def test_the_context_fills_up() -> None:
    sequence = opened(prompt=(1, 2, 3), context_length=5)
    block = sequence.block(Draft(position=3, tokens=(A,) * 9, sampling_fingerprint=""))
    assert sequence.position - 1 + len(block) <= 5
    verdict = judge(sequence, Script(*[A] * 10), *[A] * 9)
    assert (verdict.tokens, verdict.finish) == ((A, A), FinishReason.CONTEXT_FULL)
    assert sequence.position == 5


def test_the_token_limit_is_named_before_a_full_context() -> None:
    sequence = opened(prompt=(1, 2, 3), context_length=5, stop=StopRules(max_tokens=2))
    assert judge(sequence, Script(A, A, A), A, A).finish is FinishReason.TOKEN_LIMIT


def test_statistics_are_the_sums_of_the_verdicts() -> None:
    sequence, script = opened(prompt=(1, 2, 3)), Script(A, X, A, A, AB, END)
    sequence.cached(2)
    verdicts = [judge(sequence, script, *drafted) for drafted in ((A, A), (), (A, AB, END))]
    statistics = sequence.statistics
    assert (statistics.prompt_tokens, statistics.cached_tokens, statistics.verify_steps) == (3, 2, 3)
    assert statistics.drafted_tokens == sum(verdict.drafted for verdict in verdicts) == 5
    assert statistics.judged_tokens == sum(verdict.judged for verdict in verdicts)
    assert statistics.accepted_tokens == sum(verdict.accepted for verdict in verdicts)
    assert statistics.emitted_tokens == sum(len(verdict.tokens) for verdict in verdicts)
    assert statistics.acceptance_rate is not None
    assert statistics.acceptance_rate <= 1


def test_sources_name_who_proposed_each_token() -> None:
    sequence = opened()
    draft = Draft(position=2, tokens=(A, AB, X), sampling_fingerprint="", sources=("lookup", "ngram", "ngram"))
    assert sequence.judge(draft, Script(A, AB, A)).sources == ("lookup", "ngram", "target")
    assert sequence.judge(Draft(position=5, tokens=(A,), sampling_fingerprint=""), Script(A, A)).sources == ()


def test_padding_is_never_emitted() -> None:
    row = np.zeros(20, dtype=np.float32)
    row[15] = 100
    verdict = opened().judge(Draft(position=2, tokens=(), sampling_fingerprint=""), [row])
    assert verdict.finish is FinishReason.END_OF_TEXT  # id 0, the lowest of the equal ones that exist


def test_rows_of_a_torch_tensor_give_the_same_verdict() -> None:
    config = SamplingConfig(temperature=0.9, top_p=0.95, repetition_penalty=1.1, seed=5)
    rows = torch.randn(4, 20, generator=torch.Generator().manual_seed(2)).to(torch.bfloat16)
    draft = Draft(position=2, tokens=(A,), sampling_fingerprint=config.fingerprint())
    theirs = opened(sampling=config, arithmetic=TorchArithmetic()).judge(draft, rows)  # type: ignore[arg-type]
    ours = opened(sampling=config).judge(draft, list(rows.float().numpy()))
    assert theirs.tokens == ours.tokens
    assert theirs.log_probabilities == pytest.approx(ours.log_probabilities, abs=1e-12)


def test_what_a_draft_may_not_be() -> None:
    sequence = opened()
    with pytest.raises(StalePosition) as stale:
        sequence.block(Draft(position=1, tokens=(A,), sampling_fingerprint=""))
    assert (stale.value.expected, stale.value.got) == ("2", "1")
    other = SamplingConfig(top_k=50).fingerprint()
    with pytest.raises(Mismatch) as mismatch:
        sequence.judge(Draft(position=2, tokens=(A,), sampling_fingerprint=other), Script(A, A))
    assert (mismatch.value.what, mismatch.value.got) == ("sampling fingerprint", other)
    sequence.block(Draft(position=2, tokens=(A,), sampling_fingerprint=SamplingConfig().fingerprint()))
    for token in (-1, 12):
        with pytest.raises(InvalidSetting, match=r"draft\.tokens"):
            sequence.block(Draft(position=2, tokens=(A, token), sampling_fingerprint=""))
    assert sequence.position == 2
    assert sequence.statistics.verify_steps == 0


def test_nothing_goes_on_after_the_finish() -> None:
    sequence = opened()
    judge(sequence, Script(END))
    assert sequence.finish is FinishReason.END_OF_TEXT
    with pytest.raises(ContractViolation):
        sequence.block(Draft(position=2, tokens=(), sampling_fingerprint=""))
    with pytest.raises(ContractViolation):
        judge(sequence, Script(A))


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("prompt", {"prompt": ()}),
        ("prompt", {"prompt": (1, 12)}),
        ("sampling.logit_bias", {"sampling": SamplingConfig(logit_bias=((12, 1.0),))}),
        ("sampling.banned", {"sampling": SamplingConfig(banned=(12,))}),
        ("stop.token_ids", {"stop": StopRules(token_ids=(12,))}),
    ],
)
def test_ids_outside_the_vocabulary_are_refused_by_field(field: str, changes: dict[str, object]) -> None:
    with pytest.raises(InvalidSetting) as raised:
        opened(**changes)
    assert raised.value.field == field


def test_a_prompt_must_leave_room_for_a_token() -> None:
    with pytest.raises(LimitExceeded) as raised:
        opened(prompt=(1, 2, 3), context_length=3)
    assert (raised.value.limit, raised.value.got) == (2, 3)
    assert opened(prompt=(1, 2), context_length=3).position == 2


def test_broken_logits_are_the_targets_failure() -> None:
    with pytest.raises(TargetFailed):
        opened().judge(Draft(position=2, tokens=(), sampling_fingerprint=""), [np.full(12, np.nan)])
