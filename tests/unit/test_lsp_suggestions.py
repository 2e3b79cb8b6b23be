"""Text to text, without an editor: the gate, the drafters, and what is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog
from toy_serving import ToyDrafter, ToyDrafters, ToyTarget, toy_served, toy_vocabulary

from decoding.errors import DeadlineExceeded, TargetUnavailable
from decoding.gate import GateState
from decoding.rules import GateRules
from decoding.sampling import SamplingConfig
from decoding.session import Mode
from decoding.stopping import FinishReason, StopRules
from decoding.verdict import DecodeRequest, Verifier
from drafts.settings import DraftSettings
from drafts.vocabulary import Vocabulary
from lsp_server.completion import CompletionService
from lsp_server.suggestion import Buffer, CompletionRequest, Progress
from slipstream.description import TargetDescription
from slipstream.opening import GateReport

CODE = "def total(values):\n    result = 0\n    for value in values:\n        result += value\n    return "


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    return toy_vocabulary(tmp_path_factory.mktemp("vocabulary"))


class Near:
    """The toy target as the editor's side sees one; keeps what it was told.

    away: can't be reached. shut: opens nothing.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.toy = ToyTarget(vocabulary)
        self.described = 0
        self.away = False
        self.shut = False
        self.requests: list[DecodeRequest] = []
        self.gates: list[GateReport | None] = []
        self.timeouts: list[float | None] = []

    async def describe(self) -> TargetDescription:
        self.described += 1
        await asyncio.sleep(0)
        if self.away:
            raise TargetUnavailable("away")
        return toy_served(self.toy.vocabulary, self.toy).description

    async def vocabulary(self) -> Vocabulary:
        return self.toy.vocabulary

    @asynccontextmanager
    async def open(
        self, request: DecodeRequest, *, gate: GateReport | None = None, timeout_s: float | None = None
    ) -> AsyncIterator[Verifier]:
        if self.shut:
            raise TargetUnavailable("shut")
        self.requests.append(request)
        self.gates.append(gate)
        self.timeouts.append(timeout_s)
        async with self.toy.open(request) as verifier:
            yield verifier


def service_of(target: Near, drafter: ToyDrafter | None = None, rules: GateRules | None = None) -> CompletionService:
    drafters = ToyDrafters(drafter or ToyDrafter())
    return CompletionService(
        target, drafts=DraftSettings(), gate=rules or GateRules(), registry=lambda _settings, _vocabulary: drafters
    )


def request(number: int = 0, **fields: object) -> CompletionRequest:
    defaults: dict[str, object] = {
        "request_id": f"r-{number}",
        "prefix": CODE,
        "language_id": "python",
        "sampling": SamplingConfig(seed=number),
        "stop": StopRules(max_tokens=32),
        "prompt_tokens": 100,
        "deadline_s": 5.0,
    }
    return CompletionRequest(**(defaults | fields))  # type: ignore[arg-type]


async def test_a_result_says_everything(vocabulary: Vocabulary) -> None:
    target = Near(vocabulary)
    told: list[Progress] = []
    result = await service_of(target).complete(request(), deliver=told.append)
    assert result.finish is FinishReason.TOKEN_LIMIT
    assert result.mode is Mode.EDGE
    assert (result.language, result.drafter, result.gate) == ("python", "mix", GateState.SPECULATING)
    assert len(result.tokens) == len(result.sources) == result.statistics.emitted_tokens == 32
    assert set(result.sources) == {"toy", "target"}
    assert result.sources.count("toy") == result.statistics.accepted_tokens
    assert result.raw_text == vocabulary.decode(result.tokens)
    assert result.raw_text.startswith(result.text)
    assert "".join(progress.text for progress in told) == result.raw_text
    assert tuple(piece.token for progress in told for piece in progress.pieces) == result.tokens
    assert told[0].position == result.statistics.prompt_tokens
    assert result.first_token_ms is not None
    assert 0 < result.first_token_ms <= result.total_ms
    (timeout,) = target.timeouts
    assert timeout is not None
    assert 0 < timeout <= 5.0
    assert target.toy.open_now == 0


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize(
    "drafter", [ToyDrafter(), ToyDrafter(hostile=True), ToyDrafter(fails=True)], ids=["good", "hostile", "failing"]
)
@pytest.mark.parametrize("placement", ["edge", "server"])
async def test_no_drafter_changes_the_output(
    vocabulary: Vocabulary, drafter: ToyDrafter, placement: str, temperature: float
) -> None:
    sampling = SamplingConfig(temperature=temperature, seed=11)
    service = service_of(Near(vocabulary), drafter)
    plain = await service.complete(request(sampling=sampling, drafting=False))
    drafted = await service.complete(request(sampling=sampling, placement=placement))
    assert (plain.mode, plain.drafter, plain.gate) == (Mode.PLAIN, "", None)
    assert drafted.mode is Mode(placement)
    assert (drafted.tokens, drafted.text) == (plain.tokens, plain.text)


async def test_a_drafter_that_cannot_open_is_dropped_for_the_request(vocabulary: Vocabulary) -> None:
    class Shut(ToyDrafter):
        def open(self, request: object) -> object:  # type: ignore[override]
            raise RuntimeError("no table")

    service = service_of(Near(vocabulary), Shut())
    with structlog.testing.capture_logs() as log:
        result = await service.complete(request())
    assert result.finish is FinishReason.TOKEN_LIMIT
    assert result.statistics.drafted_tokens == 0
    assert [line["event"] for line in log] == ["drafter dropped"]


async def test_the_gate_falls_back_is_told_once_and_recovers(vocabulary: Vocabulary) -> None:
    target = Near(vocabulary)
    drafter = ToyDrafter(hostile=True)
    rules = GateRules(floor_evidence=20, probe_every=2, good_probes=2, slower_margin=1e6)
    service = service_of(target, drafter, rules)
    plain = [await service.complete(request(number, drafting=False)) for number in range(30)]
    results = []
    for number in range(30):
        if service.gating.book.gate("python", "mix").state is not GateState.SPECULATING:
            drafter.hostile = False
        results.append(await service.complete(request(number)))
    changes = [(event.before, event.after) for result in results for event in result.transitions]
    assert changes == [
        (GateState.SPECULATING, GateState.FALLEN_BACK),
        (GateState.FALLEN_BACK, GateState.PROBING),
        (GateState.PROBING, GateState.SPECULATING),
    ]
    assert Mode.PLAIN in {result.mode for result in results}
    assert [result.tokens for result in results] == [result.tokens for result in plain]
    reports = [gate for gate in target.gates[30:] if gate is not None]
    assert len(reports) == 30
    assert [(move.before, move.after) for report in reports for move in report.transitions] == changes
    assert {request.drafter for request in target.requests[30:]} == {"mix"}


async def test_what_an_unreached_target_was_not_told_is_told_the_next(vocabulary: Vocabulary) -> None:
    target = Near(vocabulary)
    service = service_of(target, ToyDrafter(hostile=True), GateRules(floor_evidence=5, slower_margin=1e6))
    result = await service.complete(request(1))
    while not result.transitions:
        result = await service.complete(request(2))
    target.shut = True
    for _ in range(2):
        with pytest.raises(TargetUnavailable):
            await service.complete(request(3))
    target.shut = False
    target.gates.clear()
    for number in (4, 5):
        await service.complete(request(number))
    assert [[move.reason for move in gate.transitions] for gate in target.gates if gate is not None] == [
        [move.reason for move in result.transitions],
        [],
    ]


async def test_a_fallback_reaches_requests_that_are_under_way(vocabulary: Vocabulary) -> None:
    target = Near(vocabulary)
    service = service_of(target, ToyDrafter(), GateRules(slower_margin=1e6))
    gate = service.gating.book.gate("python", "mix")

    def fall(progress: Progress) -> None:
        gate.state = GateState.FALLEN_BACK

    plain = await service.complete(request(drafting=False))
    result = await service.complete(request(), deliver=fall)
    assert result.tokens == plain.tokens
    assert result.statistics.drafted_tokens <= 7  # at most the first draft


async def test_cancelling_frees_the_sequence_and_counts_what_came(vocabulary: Vocabulary) -> None:
    target = Near(vocabulary)
    target.toy.before_step = lambda: asyncio.Event().wait() if target.toy.steps == 4 else None
    service = service_of(target)
    told: list[Progress] = []
    running = asyncio.create_task(service.complete(request(prefix=CODE * 3), deliver=told.append))
    await target.toy.until(lambda: target.toy.steps == 4)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert target.toy.open_now == 0
    assert told
    assert service.gating.book.gate("python", "mix").rate is not None


async def test_requests_that_are_cancelled_do_not_ask_the_target_anew(vocabulary: Vocabulary) -> None:
    target = Near(vocabulary)
    service = service_of(target)
    service.warm()
    for _ in range(3):
        running = asyncio.create_task(service.complete(request()))
        await asyncio.sleep(0)
        running.cancel()
    await service.complete(request())
    assert target.described <= 2  # the last may come after the first answer


async def test_an_absent_target_is_said_and_asked_again(vocabulary: Vocabulary) -> None:
    target = Near(vocabulary)
    service = service_of(target)
    target.away = True
    service.warm()
    for _ in range(2):
        with pytest.raises(TargetUnavailable):
            await service.complete(request())
    target.away = False
    assert (await service.complete(request())).tokens


async def test_no_time_left_is_said_by_the_target(vocabulary: Vocabulary) -> None:
    target = Near(vocabulary)

    def late() -> None:
        raise DeadlineExceeded("late")

    target.toy.before_step = late
    with pytest.raises(DeadlineExceeded):
        await service_of(target).complete(request(deadline_s=0.001))
    assert target.toy.open_now == 0


async def test_buffers_and_what_follows_are_there_to_draft_from(vocabulary: Vocabulary) -> None:
    seen = []

    class Curious(ToyDrafter):
        def open(self, request):  # type: ignore[no-untyped-def]
            seen.append(request)
            return super().open(request)

    buffers = tuple(Buffer(key=name, text=f"{name} = 1\n") for name in ("near", "far"))
    asked = request(buffers=buffers, suffix="\nrest = 1\n", buffer_tokens=1000)
    await service_of(Near(vocabulary), Curious()).complete(asked)
    texts = [vocabulary.decode(tokens) for tokens in seen[0].buffers]
    assert texts == ["\nrest = 1\n", "near = 1\n", "far = 1\n"]
    assert vocabulary.decode(seen[0].prompt) == CODE[-len(vocabulary.decode(seen[0].prompt)) :]


async def test_languages_without_drafters_run_plainly(vocabulary: Vocabulary) -> None:
    service = CompletionService(Near(vocabulary), drafts=DraftSettings(kind="none"), gate=GateRules())
    result = await service.complete(request())
    assert (result.mode, result.drafter, result.gate) == (Mode.PLAIN, "", None)
