"""Whatever drafts, however long, wherever it stops: the tokens, the text and the end are plain decoding's."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from drafter_records import record
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_target import END, ToyTarget, token_bytes
from toy_verifier import PROMPT, ToyDrafting, ToyVerifier, reference, request, session

from decoding.draft_length import DraftLength
from decoding.drafter_record import DrafterRecord
from decoding.sampling import SamplingConfig
from decoding.session import Chunk, DraftStop, Mode, Session
from decoding.stopping import StopRules, StopScanner
from decoding.verdict import DecodeRequest, Verdict
from drafts.speculation import speculate

STOPS = st.builds(
    StopRules,
    max_tokens=st.integers(1, 40),
    max_lines=st.integers(0, 3),
    token_ids=st.lists(st.integers(1, 11), max_size=1).map(tuple),
    strings=st.lists(st.sampled_from(["b\n", "é", "abx", "\n\n", "�", "xx c"]), max_size=2).map(tuple),
)
SAMPLINGS = st.builds(
    SamplingConfig,
    temperature=st.sampled_from([0.0, 0.5, 1.0]),
    top_k=st.sampled_from([0, 3]),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
    banned=st.sampled_from([(), (END,)]),
    seed=st.integers(0, 2**64 - 1),
)
# What each round drafts: so many of the target's own tokens, then so many wrong ones.
SCHEDULES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=30)


@dataclass(frozen=True)
class Case:
    opening: DecodeRequest
    target: ToyTarget
    block_rows: int
    context_length: int
    schedule: Sequence[tuple[int, int]]
    stop_after: int  # chunks before the gate falls back


CASES = st.builds(
    Case,
    opening=st.builds(lambda sampling, stop: request(sampling=sampling, stop=stop), SAMPLINGS, STOPS),
    target=st.builds(ToyTarget, salt=st.integers(0, 1000), order=st.integers(1, 4)),
    block_rows=st.integers(1, 9),
    context_length=st.sampled_from([3, 8, 20, 1000]),
    schedule=SCHEDULES,
    stop_after=st.integers(0, 40),
)


class Schedule:
    """Guesses that know the truth, and tell it only as often as a schedule says."""

    def __init__(self, truth: tuple[int, ...], schedule: Sequence[tuple[int, int]], size: int) -> None:
        self._truth = truth
        self._schedule = schedule
        self._size = size
        self._round = 0

    def __call__(self, history: tuple[int, ...], limit: int) -> tuple[int, ...]:
        right, wrong = self._schedule[self._round % len(self._schedule)]
        self._round += 1
        known = self._truth[len(history) - len(PROMPT) :]
        off = [(token + 1) % self._size for token in known[right : right + wrong]]
        return (*known[:right], *off)[: max(0, limit)]


async def drive(
    case: Case, mode: Mode, truth: tuple[int, ...], known: DrafterRecord | None = None
) -> tuple[Session, ToyVerifier, list[Chunk]]:
    guess = Schedule(truth, case.schedule, case.target.size)
    verifier = ToyVerifier(case.target, case.opening, context_length=case.context_length, guess=guess)
    subject = session(
        case.opening,
        mode,
        block_rows=case.block_rows,
        context_length=case.context_length,
        length=None if known is None else DraftLength(known),
    )
    chunks: list[Chunk] = []
    async for chunk in speculate(subject, ToyDrafting(guess), verifier, clock=lambda: 0):
        chunks.append(chunk)
        if len(chunks) == case.stop_after:
            subject.stop_drafting(DraftStop.GATE)
    return subject, verifier, chunks


def whole_text(case: Case, verdicts: list[Verdict]) -> str:
    scanner = StopScanner(case.opening.stop, token_bytes=token_bytes, end_of_text={END})
    tokens = [token for verdict in verdicts for token in verdict.tokens]
    text = "".join(scanner.push(token).text for token in tokens)
    finish = verdicts[-1].finish
    assert finish is not None
    return text + scanner.flush(finish)


# What makes drafts long, short or not worth while: rows that cost nothing, or as much as steps, and a long way.
KNOWN = st.one_of(
    st.none(),
    st.builds(
        lambda row_us, trip_us: record(steps=[(1, 50_000), (8, 50_000 + 7 * row_us)], trip_us=trip_us),
        row_us=st.integers(0, 60_000),
        trip_us=st.integers(0, 300_000),
    ),
)


@settings(max_examples=200, deadline=None)
@given(case=CASES, mode=st.sampled_from(Mode), known=KNOWN)
def test_every_path_gives_plain_decodings_output(case: Case, mode: Mode, known: DrafterRecord | None) -> None:
    plain = asyncio.run(reference(case.target, case.opening, context_length=case.context_length))
    tokens = tuple(token for verdict in plain for token in verdict.tokens)
    # The drafter also drafts the id that ends the text, and on beyond it.
    truth = (*tokens, END, 1, 2)
    subject, verifier, chunks = asyncio.run(drive(case, mode, truth, known))

    assert tuple(token for chunk in chunks for token in chunk.tokens) == tokens
    assert "".join(chunk.text for chunk in chunks) == whole_text(case, plain)
    assert subject.finish is chunks[-1].finish is plain[-1].finish
    expected = [value for verdict in plain for value in verdict.log_probabilities]
    assert [value for chunk in chunks for value in chunk.log_probabilities] == expected
    assert all(chunk.finish is None for chunk in chunks[:-1])
    assert all(len(chunk.tokens) == len(chunk.sources) for chunk in chunks)
    assert [chunk.position for chunk in chunks] == [
        len(PROMPT) + sum(len(earlier.tokens) for earlier in chunks[:index]) for index in range(len(chunks))
    ]
    assert subject.statistics.emitted_tokens == verifier.sequence.statistics.emitted_tokens == len(tokens)
    assert subject.statistics.acceptance_rate == verifier.sequence.statistics.acceptance_rate
    assert subject.statistics.verify_steps == verifier.sequence.statistics.verify_steps == len(chunks)
    assert mode is not Mode.PLAIN or subject.statistics.drafted_tokens == 0


@settings(max_examples=60, deadline=None)
@given(case=CASES)
def test_a_perfect_drafter_fills_every_block_and_wastes_nothing(case: Case) -> None:
    plain = asyncio.run(reference(case.target, case.opening, context_length=case.context_length))
    tokens = tuple(token for verdict in plain for token in verdict.tokens)
    perfect = Case(case.opening, case.target, case.block_rows, case.context_length, [(99, 0)], -1)
    subject, _, chunks = asyncio.run(drive(perfect, Mode.EDGE, tokens))
    assert subject.statistics.accepted_tokens == subject.statistics.drafted_tokens
    assert all(len(chunk.tokens) == case.block_rows for chunk in chunks[:-1])
