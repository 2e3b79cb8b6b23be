"""Where suggestions are drafted: as settings say, or as measurements do. A clock stands for the way to the target."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import structlog
from toy_serving import ToyDrafter, ToyDrafters, ToyTarget, toy_served, toy_vocabulary

from decoding.drafting import Draft
from decoding.gate import GateState
from decoding.rules import GateRules, LengthRules
from decoding.sampling import SamplingConfig
from decoding.session import Mode
from decoding.stopping import StopRules
from decoding.verdict import DecodeRequest, Finished, Opened, Verdict, Verifier
from drafts.settings import DraftSettings
from drafts.vocabulary import Vocabulary
from lsp_server.completion import CompletionService
from lsp_server.suggestion import CompletionRequest, CompletionResult
from slipstream.description import TargetDescription
from slipstream.opening import GateReport

STEP_US = 50_000
CODE = "def total(values):\n    result = 0\n    for value in values:\n        result += value\n    return "
# Only speed would send this gate back, and the way is what is looked at here.
NEVER_BACK = GateRules(threshold=0, floor=0, slower_margin=1e6, plain_every=0)


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    return toy_vocabulary(tmp_path_factory.mktemp("vocabulary"))


class Far:
    """The toy target behind a way that takes time, on a clock of its own.

    offered: (language, drafter) pairs that the target says it can draft by; None leaves what it says.
    """

    def __init__(self, vocabulary: Vocabulary, *, trip_us: int, offered: tuple[tuple[str, str], ...] | None = None):
        self.toy = ToyTarget(vocabulary)
        self.trip_us = trip_us
        self.now_us = 0
        description = toy_served(vocabulary, self.toy).description
        self.description = description if offered is None else replace(description, drafters=offered)

    def clock(self) -> int:
        return self.now_us * 1000

    async def describe(self) -> TargetDescription:
        return self.description

    async def vocabulary(self) -> Vocabulary:
        return self.toy.vocabulary

    @asynccontextmanager
    async def open(
        self, request: DecodeRequest, *, gate: GateReport | None = None, timeout_s: float | None = None
    ) -> AsyncIterator[Verifier]:
        async with self.toy.open(request) as verifier:
            yield FarVerifier(self, verifier)


class FarVerifier:
    def __init__(self, far: Far, near: Verifier) -> None:
        self._far = far
        self._near = near

    @property
    def opened(self) -> Opened:
        return self._near.opened

    async def verify(self, draft: Draft) -> Verdict:
        self._far.now_us += self._far.trip_us
        return self._timed(await self._near.verify(draft))

    async def run(self, limit: int, *, drafter: str = "") -> AsyncIterator[Verdict]:
        self._far.now_us += self._far.trip_us
        async for verdict in self._near.run(limit, drafter=drafter):
            yield self._timed(verdict)

    async def finish(self) -> Finished:
        return await self._near.finish()

    def _timed(self, verdict: Verdict) -> Verdict:
        self._far.now_us += STEP_US
        return replace(verdict, verify_us=STEP_US)


def service_of(target: Far, drafter: ToyDrafter | None = None) -> CompletionService:
    drafters = ToyDrafters(drafter or ToyDrafter())
    return CompletionService(
        target,
        drafts=DraftSettings(),
        gate=NEVER_BACK,
        clock=target.clock,
        registry=lambda _settings, _vocabulary: drafters,
    )


async def completed(service: CompletionService, number: int, **fields: object) -> CompletionResult:
    asked: dict[str, object] = {
        "request_id": f"r-{number}",
        "prefix": CODE,
        "language_id": "python",
        "sampling": SamplingConfig(seed=number, temperature=0.7),
        "stop": StopRules(max_tokens=32),
        "prompt_tokens": 100,
        "deadline_s": 1e6,
    }
    return await service.complete(CompletionRequest(**(asked | fields)))  # type: ignore[arg-type]


async def test_auto_goes_to_the_target_where_the_way_is_long_and_says_so(vocabulary: Vocabulary) -> None:
    service = service_of(Far(vocabulary, trip_us=100_000))
    with structlog.testing.capture_logs() as log:
        results = [await completed(service, number) for number in range(12)]
    modes = [result.mode for result in results]
    assert modes[0] is Mode.EDGE
    assert modes == sorted(modes, key=[Mode.EDGE, Mode.SERVER].index)
    assert modes[-1] is Mode.SERVER
    (line,) = [line for line in log if line["event"] == "placement"]
    assert (line["language"], line["drafter"], line["before"], line["after"]) == ("python", "mix", "edge", "server")
    assert line["edge_ms_per_token"] > line["server_ms_per_token"] > 0
    assert line["round_trip_ms"] == 100
    plain = [await completed(service, number, drafting=False) for number in range(12)]
    assert [result.tokens for result in results] == [result.tokens for result in plain]


async def test_auto_stays_beside_the_editor_where_the_way_is_short(vocabulary: Vocabulary) -> None:
    service = service_of(Far(vocabulary, trip_us=1_000))
    modes = {(await completed(service, number)).mode for number in range(12)}
    assert modes == {Mode.EDGE}


async def test_auto_comes_back_when_the_way_gets_short_and_the_target_drafts_worse(vocabulary: Vocabulary) -> None:
    far = Far(vocabulary, trip_us=100_000)
    service = service_of(far)
    while service.gating.records.of("python", "mix").placement.side is Mode.EDGE:
        await completed(service, 0)
    far.trip_us = 0
    placement = service.gating.records.of("python", "mix").placement
    modes = [(await completed(service, number)).mode for number in range(120)]
    assert Mode.EDGE in modes  # it looked
    assert placement.edge_us_per_token is not None
    assert placement.server_us_per_token is not None
    assert placement.edge_us_per_token <= placement.server_us_per_token * 1.1  # and knows


async def test_a_language_that_the_target_cannot_draft_is_drafted_here_which_is_said_once(
    vocabulary: Vocabulary,
) -> None:
    service = service_of(Far(vocabulary, trip_us=0, offered=(("rust", "mix"),)))
    with structlog.testing.capture_logs() as log:
        results = [await completed(service, number, placement="server") for number in range(3)]
    assert [result.mode for result in results] == [Mode.EDGE] * 3
    (line,) = [line for line in log if line["event"] == "placement"]
    assert (line["log_level"], line["language"]) == ("warning", "python")


async def test_the_target_drafts_with_what_it_has_where_that_is_wanted_but_auto_compares_like_with_like(
    vocabulary: Vocabulary,
) -> None:
    service = service_of(Far(vocabulary, trip_us=100_000, offered=(("python", "lookup"),)))
    results = [await completed(service, number, placement="server") for number in range(3)]
    assert {(result.mode, result.drafter) for result in results} == {(Mode.SERVER, "lookup")}
    results = [await completed(service, number) for number in range(6)]
    assert {(result.mode, result.drafter) for result in results} == {(Mode.EDGE, "mix")}


async def test_auto_says_nothing_of_what_the_target_lacks(vocabulary: Vocabulary) -> None:
    service = service_of(Far(vocabulary, trip_us=100_000, offered=()))
    with structlog.testing.capture_logs() as log:
        results = [await completed(service, number) for number in range(6)]
    assert {result.mode for result in results} == {Mode.EDGE}
    assert [line for line in log if line["event"] == "placement"] == []


async def test_over_a_way_that_no_draft_makes_up_for_the_target_runs_alone(vocabulary: Vocabulary) -> None:
    """Placed here for good, as by hand: drafting costs round trips that it doesn't earn."""
    far = Far(vocabulary, trip_us=2_000_000)
    service = service_of(far)
    first, *_, last = [await completed(service, number, placement="edge") for number in range(8)]
    assert first.mode is last.mode is Mode.EDGE
    assert first.statistics.drafted_tokens > 0
    assert last.statistics.drafted_tokens == 0
    assert last.total_ms < first.total_ms
    assert last.total_ms <= (32 * STEP_US + (32 / LengthRules().run_tokens) * far.trip_us) / 1000
    assert last.gate is GateState.SPECULATING
