"""Speculation cannot change a token: any drafts, any lengths, any point of falling back give the plain output.

The plain output itself is replayed by a reference in plain Python that shares no code with ours but the published
generator, so that a mistake both paths make alike, such as noise one position off, shows too.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_target import END, PIECES, ToyTarget, token_bytes

from decoding import acceptance
from decoding.noise import splitmix
from decoding.sampling import SamplingConfig
from decoding.stopping import FinishReason, StopRules, StopScanner
from decoding.verdict import Statistics, Verdict

pytestmark = pytest.mark.arithmetic

SIZE = len(PIECES)
PROMPT = (1, 2, 3)
TOKENS = st.integers(0, SIZE - 1)
CONFIGS = st.builds(
    SamplingConfig,
    temperature=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    top_k=st.sampled_from([0, 1, 5]),
    top_p=st.sampled_from([1.0, 0.9, 0.5]),
    min_p=st.sampled_from([0.0, 0.1]),
    repetition_penalty=st.sampled_from([1.0, 1.4]),
    logit_bias=st.sampled_from([(), ((3, 2.0), (0, -3.0))]),
    banned=st.sampled_from([(), (END,), (END, 1, 4)]),
    seed=st.integers(0, 2**64 - 1),
)
RULES = st.builds(
    StopRules,
    max_tokens=st.sampled_from([24, 24, 24, 7, 2, 1]),
    max_lines=st.sampled_from([0, 0, 0, 1, 4]),
    token_ids=st.sampled_from([(), (), (11,)]),
    strings=st.sampled_from([(), (), ("aab",), ("b\n\n", "🙂 c"), ("é", "\r\n")]),
)


def run(
    target: ToyTarget,
    config: SamplingConfig,
    rules: StopRules,
    context_length: int = 1000,
    *,
    known: list[int] | None = None,
    schedule: list[tuple[int, tuple[int, ...]]] | None = None,
) -> tuple[list[Verdict], Statistics]:
    """Verify with a draft for each entry of the schedule, then plainly, until a rule ends it.

    An entry (right, wrong) drafts the next `right` tokens of the known output, then the tokens `wrong`.
    """
    sequence = target.open(prompt=PROMPT, sampling=config, stop=rules, context_length=context_length)
    history, verdicts = PROMPT, []
    entries = iter(schedule or [])
    while sequence.finish is None:
        right, wrong = next(entries, (0, ()))
        done = len(history) - len(PROMPT)
        verdicts.append(target.judge(sequence, history, tuple((known or [])[done : done + right]) + wrong))
        history += verdicts[-1].tokens
    return verdicts, sequence.statistics


def joined(verdicts: list[Verdict]) -> tuple[list[int], list[float], FinishReason | None]:
    tokens = [token for verdict in verdicts for token in verdict.tokens]
    log_probabilities = [value for verdict in verdicts for value in verdict.log_probabilities]
    return tokens, log_probabilities, verdicts[-1].finish


SCHEDULES = st.lists(st.tuples(st.integers(0, 7), st.lists(TOKENS, max_size=3).map(tuple)), max_size=12)


@given(
    salt=st.integers(0, 10**6),
    config=CONFIGS,
    rules=RULES,
    context_length=st.sampled_from([1000, 1000, 12]),
    schedule=SCHEDULES,
)
@settings(max_examples=250, deadline=None)
def test_any_drafts_give_the_plain_output(
    salt: int,
    config: SamplingConfig,
    rules: StopRules,
    context_length: int,
    schedule: list[tuple[int, tuple[int, ...]]],
) -> None:
    """Right for a while, then wrong, in every mixture of lengths; past the schedule's end it has fallen back."""
    target = ToyTarget(salt=salt)
    plain, plain_statistics = run(target, config, rules, context_length)
    speculative, statistics = run(target, config, rules, context_length, known=joined(plain)[0], schedule=schedule)
    assert joined(speculative) == joined(plain)
    position = len(PROMPT)
    for verdict in speculative:
        assert 0 <= verdict.accepted <= verdict.judged <= min(verdict.drafted, verdict.accepted + 1)
        assert len(verdict.tokens) == len(verdict.log_probabilities)
        assert verdict.position == position
        position += len(verdict.tokens)
    assert statistics.emitted_tokens == plain_statistics.emitted_tokens == len(joined(plain)[0])
    assert statistics.accepted_tokens == sum(verdict.accepted for verdict in speculative)
    assert statistics.verify_steps == len(speculative) <= plain_statistics.verify_steps


@given(salt=st.integers(0, 10**6), config=CONFIGS, rules=RULES)
@settings(max_examples=50, deadline=None)
def test_a_perfect_drafter_is_accepted_wholly_and_saves_the_steps_it_should(
    salt: int, config: SamplingConfig, rules: StopRules
) -> None:
    target = ToyTarget(salt=salt)
    plain, _ = run(target, config, rules)
    tokens = joined(plain)[0]
    verdicts, statistics = run(target, config, rules, known=tokens, schedule=[(3, ())] * 30)
    assert joined(verdicts) == joined(plain)
    assert statistics.acceptance_rate in (1, None)
    assert statistics.verify_steps <= len(tokens) // 4 + 1


@given(salt=st.integers(0, 10**6), config=CONFIGS, rules=RULES)
@settings(max_examples=100, deadline=None)
def test_a_client_that_scans_the_verdicts_agrees_with_the_target(
    salt: int, config: SamplingConfig, rules: StopRules
) -> None:
    """The emitted ids alone tell the client the text and, but for unseen ids and the context, the finish."""
    target = ToyTarget(salt=salt)
    verdicts, _ = run(target, config, rules, schedule=[(0, (1, 2, 3))] * 30)
    client = StopScanner(rules, token_bytes=token_bytes, end_of_text={END})
    tokens, _, finish = joined(verdicts)
    text = ""
    for index, token in enumerate(tokens):
        scanned = client.push(token)
        assert scanned.emitted
        assert scanned.finish is None or index == len(tokens) - 1
        text += scanned.text
    assert finish is not None
    text += client.flush(finish)
    assert client.finish == finish
    whole = b"".join(map(token_bytes, tokens)).decode(errors="replace")
    assert whole.startswith(text)
    assert not any(string in text for string in rules.strings)


def replayed(target: ToyTarget, config: SamplingConfig, count: int) -> list[int]:
    """The rule of acceptance in plain Python: argmax of log p + Gumbel noise of (seed, absolute position, id)."""
    history = PROMPT
    for position in range(len(PROMPT), len(PROMPT) + count):
        logits = [value / config.temperature for value in target.logits(history)[: target.size].tolist()]
        key = splitmix(splitmix(config.seed, 0), position)
        noise = [-math.log(-math.log(((splitmix(key, x) >> 12) + 0.5) / 2**52)) for x in range(target.size)]
        allowed = [x for x in range(target.size) if x not in config.banned]
        history += (max(allowed, key=lambda x: logits[x] + noise[x]),)
    return list(history[len(PROMPT) :])


def speculated(target: ToyTarget, config: SamplingConfig, count: int) -> list[int]:
    """Drafts that are right for two tokens, then probably wrong."""
    known, rules = replayed(target, config, count), StopRules(max_tokens=count)
    return joined(run(target, config, rules, known=known, schedule=[(2, (1,)), (0, (2,)), (2, ())] * count)[0])[0]


REPLAY = SamplingConfig(temperature=1.0, seed=2**64 - 3, banned=(END,))


@given(salt=st.integers(0, 10**6), seed=st.integers(0, 2**64 - 1))
@settings(max_examples=60, deadline=None)
def test_the_reference_replays_the_output_from_seed_and_positions(salt: int, seed: int) -> None:
    config = SamplingConfig(temperature=1.0, seed=seed, banned=(END,))
    target = ToyTarget(salt=salt)
    assert speculated(target, config, 12) == replayed(target, config, 12)


class BlockTarget(ToyTarget):
    """Remembers where the block that is being judged starts."""

    start = 0

    def judge(self, sequence, history, drafted=()):  # type: ignore[no-untyped-def]
        self.start = sequence.position
        return super().judge(sequence, history, drafted)


@pytest.mark.parametrize("planted", ["next position", "start of the block", "next id"])
def test_noise_that_is_one_off_is_caught(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks above have teeth: with each of these mistakes in place they fail."""
    target, real = BlockTarget(salt=1), acceptance.gumbel
    rules = StopRules(max_tokens=24)

    def mistaken(seed, positions, ids, arithmetic):  # type: ignore[no-untyped-def]
        wrong = {
            "next position": ([position + 1 for position in positions], ids),
            "start of the block": ([target.start] * len(positions), ids),
            "next id": (positions, ids + 1),
        }
        return real(seed, *wrong[planted], arithmetic)

    def plain_and_speculative() -> tuple[list[int], list[int]]:
        plain = joined(run(target, REPLAY, rules)[0])[0]
        return plain, joined(run(target, REPLAY, rules, known=plain, schedule=[(3, ())] * 6)[0])[0]

    reference = replayed(target, REPLAY, 40)
    assert speculated(target, REPLAY, 40) == reference
    monkeypatch.setattr(acceptance, "gumbel", mistaken)
    assert speculated(target, REPLAY, 40) != reference
    plain, speculative = plain_and_speculative()
    # Only a mistake that depends on the block sets the two apart; the others need the reference.
    assert (plain != speculative) == (planted == "start of the block")
