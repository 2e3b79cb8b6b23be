"""The promise: whatever is drafted, in whatever lengths, whoever else decodes, the output is the plain one."""

from __future__ import annotations

import asyncio

from engines import decode_plainly, decode_with, noisy_oracle, request_for, settings, tokens_of
from hypothesis import HealthCheck, given
from hypothesis import settings as runs
from hypothesis import strategies as st

from decoding.sampling import SamplingConfig
from decoding.verdict import Verdict
from target_server.engine import Engine
from target_server.loader import LoadedModel

SAMPLING = st.one_of(
    st.just(SamplingConfig()),
    st.builds(
        SamplingConfig,
        temperature=st.sampled_from([0.3, 1.0, 1.7]),
        top_k=st.sampled_from([0, 5]),
        top_p=st.sampled_from([1.0, 0.8]),
        min_p=st.sampled_from([0.0, 0.05]),
        repetition_penalty=st.sampled_from([1.0, 1.3]),
        seed=st.integers(0, 2**64 - 1),
    ),
)
PROMPTS = st.lists(st.integers(0, 511), min_size=1, max_size=70)
MANY = runs(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def log_probabilities(verdicts: list[Verdict]) -> list[float]:
    return [value for verdict in verdicts for value in verdict.log_probabilities]


@MANY
@given(prompt=PROMPTS, sampling=SAMPLING, right=st.sampled_from([0.0, 0.6, 0.95, 1.0]), seed=st.integers(0, 999))
def test_any_drafts_of_any_length_give_the_plain_tokens(
    tiny_loaded: LoadedModel, prompt: list[int], sampling: SamplingConfig, right: float, seed: int
) -> None:
    async def both() -> None:
        engine = Engine(tiny_loaded, settings())
        request = request_for(tiny_loaded, prompt, sampling=sampling, max_tokens=24)
        plain, finished = await decode_plainly(engine, request)
        output = tokens_of(plain)
        guess = noisy_oracle(output, right=right, vocabulary=512, longest=7, seed=seed)
        drafted, speculated = await decode_with(engine, request, guess)
        assert tokens_of(drafted) == output
        assert log_probabilities(drafted) == log_probabilities(plain)  # bitwise, not nearly
        assert speculated.reason == finished.reason
        if right == 1.0 and speculated.statistics.drafted_tokens:
            assert speculated.statistics.acceptance_rate == 1.0
        engine.close()

    asyncio.run(both())


@runs(MANY, max_examples=5)
@given(prompts=st.lists(PROMPTS, min_size=2, max_size=4), sampling=SAMPLING, seed=st.integers(0, 999))
def test_sequences_that_take_turns_do_not_touch_each_other(
    tiny_loaded: LoadedModel, prompts: list[list[int]], sampling: SamplingConfig, seed: int
) -> None:
    async def together() -> None:
        engine = Engine(tiny_loaded, settings())  # two slots: the rest waits, and takes slots that others used
        requests = [request_for(tiny_loaded, prompt, sampling=sampling, max_tokens=16) for prompt in prompts]
        alone = [tokens_of((await decode_plainly(engine, request))[0]) for request in requests]
        guesses = [noisy_oracle(known, right=0.7, vocabulary=512, longest=7, seed=seed) for known in alone]
        at_once = await asyncio.gather(
            *(decode_with(engine, *pair) for pair in zip(requests, guesses, strict=True)),
            *(decode_plainly(engine, request) for request in requests),
        )
        assert [tokens_of(verdicts) for verdicts, _ in at_once] == alone * 2
        assert engine.free_sessions == 2
        engine.close()

    asyncio.run(together())
