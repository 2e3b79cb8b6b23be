"""Hypothesis strategies for all that crosses the wire: every value that its sender may make."""

from __future__ import annotations

from hypothesis import strategies as st

from decoding.drafting import Draft
from decoding.errors import (
    ContractViolation,
    DeadlineExceeded,
    InvalidSetting,
    LimitExceeded,
    Mismatch,
    SlipstreamError,
    StalePosition,
    TargetFailed,
    TargetUnavailable,
)
from decoding.gate import GateReason, GateState
from decoding.prompt import FimTemplate
from decoding.sampling import SamplingConfig
from decoding.stopping import FinishReason, StopRules
from decoding.verdict import DecodeRequest, Finished, Opened, Statistics, Verdict
from slipstream.completion import CompletionDelta, CompletionRequest, CompletionStarted
from slipstream.description import Limits, TargetDescription
from slipstream.opening import GateReport, GateTransition, OpenMessage, RunMessage

u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
ids = st.lists(u32, max_size=8).map(tuple)
text = st.text(max_size=40)
labels = st.text(st.characters(categories=["L", "N", "P"]), max_size=64)
request_ids = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=64)
reals = st.floats(allow_nan=False)


@st.composite
def samplings(draw: st.DrawFn) -> tuple[SamplingConfig, bool]:
    """A config and whether its seed was given."""
    given_seed = draw(st.booleans())
    biases = draw(st.dictionaries(u32, st.floats(-100, 100), max_size=4))
    config = SamplingConfig(
        temperature=draw(st.just(0.0) | st.floats(1e-3, 100)),
        top_k=draw(u32),
        top_p=draw(st.floats(0, 1, exclude_min=True)),
        min_p=draw(st.floats(0, 1, exclude_max=True)),
        repetition_penalty=draw(st.floats(0.1, 10)),
        logit_bias=tuple(biases.items()),
        banned=draw(ids),
        seed=draw(u64) if given_seed else 0,
    )
    return config, given_seed


stops = st.builds(
    StopRules,
    max_tokens=st.integers(1, 4096),
    max_lines=u32,
    token_ids=ids,
    strings=st.lists(st.text(min_size=1, max_size=256), max_size=3).map(tuple),
)
states = st.sampled_from(GateState)
transitions = st.builds(GateTransition, before=states, after=states, reason=st.sampled_from(GateReason) | labels)
reports = st.builds(GateReport, state=states, transitions=st.lists(transitions, max_size=16).map(tuple))


@st.composite
def openings(draw: st.DrawFn) -> OpenMessage:
    sampling, seed_given = draw(samplings())
    request = DecodeRequest(
        prompt=draw(st.lists(u32, min_size=1, max_size=20).map(tuple)),
        sampling=sampling,
        stop=draw(stops),
        language=draw(labels),
        drafter=draw(labels),
        tokenizer_fingerprint=draw(st.text("0123456789abcdef", max_size=64)),
        request_id=draw(request_ids),
    )
    return OpenMessage(request=request, seed_given=seed_given, gate=draw(st.none() | reports))


drafts = st.builds(
    Draft, position=u32, tokens=ids, sampling_fingerprint=st.sampled_from(["", SamplingConfig().fingerprint()])
)
runs = st.builds(RunMessage, limit=st.integers(1, 4096), drafter=labels)
openeds = st.builds(Opened, prompt_tokens=st.just(2**32 - 1), cached_tokens=u32, seed=u64, noise_version=text)


@st.composite
def verdicts(draw: st.DrawFn) -> Verdict:
    accepted, rejected, unjudged = draw(st.integers(0, 9)), draw(st.booleans()), draw(st.integers(0, 9))
    tokens = draw(ids)
    each = len(tokens)
    return Verdict(
        position=draw(u32),
        drafted=accepted + rejected + unjudged,
        judged=accepted + rejected,
        accepted=accepted,
        tokens=tokens,
        log_probabilities=draw(st.lists(reals, min_size=each, max_size=each).map(tuple)),
        sources=draw(st.just(()) | st.lists(text, min_size=each, max_size=each).map(tuple)),
        queue_us=draw(u64),
        verify_us=draw(u64),
        finish=draw(st.none() | st.sampled_from(FinishReason)),
    )


@st.composite
def finisheds(draw: st.DrawFn) -> Finished:
    cached, prompt = sorted(draw(st.tuples(u32, u32)))
    accepted, judged, drafted = sorted(draw(st.tuples(u32, u32, u32)))
    return Finished(
        reason=draw(st.sampled_from(FinishReason)),
        statistics=Statistics(
            prompt_tokens=prompt,
            cached_tokens=cached,
            drafted_tokens=drafted,
            judged_tokens=judged,
            accepted_tokens=accepted,
            emitted_tokens=draw(u32),
            verify_steps=draw(u32),
        ),
        queue_us=draw(u64),
        first_token_us=draw(u64),
        total_us=draw(u64),
    )


descriptions = st.builds(
    TargetDescription,
    model_id=text,
    model_revision=text,
    tokenizer_fingerprint=st.text("0123456789abcdef", min_size=64, max_size=64),
    vocabulary_size=u32,
    end_of_text_ids=st.lists(u32, min_size=1, max_size=3).map(tuple),
    fim=st.none() | st.builds(FimTemplate, prefix_id=u32, suffix_id=u32, middle_id=u32, suffix_first=st.booleans()),
    context_length=u32,
    dtype=text,
    device=text,
    noise_version=text,
    limits=st.builds(
        Limits,
        sessions=u32,
        queued_requests=u32,
        prompt_tokens=u32,
        block_rows=st.integers(1, 2**32 - 1),
        message_bytes=u32,
    ),
    drafters=st.lists(st.tuples(text, text), max_size=3).map(tuple),
    server_version=text,
)


@st.composite
def completions(draw: st.DrawFn) -> CompletionRequest:
    sampling, seed_given = draw(samplings())
    return CompletionRequest(
        prefix=draw(text),
        suffix=draw(text),
        language=draw(labels),
        path=draw(text),
        sampling=sampling,
        seed_given=seed_given,
        stop=draw(stops),
        plain=draw(st.booleans()),
        request_id=draw(request_ids),
    )


starteds = st.builds(CompletionStarted, language=text, drafter=text, seed=u64, noise_version=text, request_id=text)
deltas = st.builds(
    lambda text, tokens, named: CompletionDelta(text=text, tokens=tokens, sources=("ngram",) * len(tokens) * named),
    text,
    ids,
    st.booleans(),
)

# Short enough that none is clipped, of any character but half a surrogate pair.
said = st.text(max_size=60)
numbers = st.integers(0, 2**63)
errors: st.SearchStrategy[SlipstreamError] = st.one_of(
    st.builds(InvalidSetting, said, said),
    st.builds(Mismatch, said, expected=said, got=said, remedy=said),
    st.builds(StalePosition, expected=numbers, got=numbers),
    st.builds(
        LimitExceeded,
        said,
        limit=numbers,
        unit=said,
        got=st.none() | numbers,
        retry_after_ms=st.none() | numbers,
    ),
    *(st.builds(kind, said) for kind in (DeadlineExceeded, TargetUnavailable, TargetFailed, ContractViolation)),
)
