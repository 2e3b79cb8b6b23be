"""Requests left at random moments, and more of them than a target takes: nothing stays, and nobody is locked out."""

from __future__ import annotations

import asyncio
import gc
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc
import pytest
from command_line import CommandLine
from grpc import aio
from serving import PROMPT, Serving, Stream, eventually, local, opening, refusal, serving
from tiny_serving import engine_of, run_to_end, tiny_served
from toy_serving import ToyTarget

from decoding.errors import LimitExceeded
from decoding.verdict import Opened
from drafts.vocabulary import Vocabulary
from evaluation.storm import StormSettings, storm
from evaluation.storm_cases import Ending, Moment
from evaluation.storm_client import FINISHED, LEFT, TOO_LATE
from evaluation.storm_remains import resident_bytes
from evaluation.storm_report import Report
from slipstream import services
from target_server.lifecycle import Served
from target_server.prefixes import Prefixes
from target_server.settings import TargetSettings

OVERLOAD = {"sessions": 2, "queued_requests": 4, "queue_wait_ms": 60_000}
ROOMY = OVERLOAD | {"queued_requests": 64}
LEAKED = (60, 65, 70)  # after what comes before the storm
MEBIBYTE = 2**20


async def stormed(model_folder: Path, cache_folder: Path, *, requests: int) -> Report:
    return await storm(
        StormSettings(requests=requests, at_once=12, seed=3, prompt_tokens=128),
        target=TargetSettings(model=str(model_folder), threads=1, context_tokens=256, prompt_tokens=160, sessions=4),
        cache_folder=cache_folder,
    )


@pytest.mark.timeout(300)  # on a busy machine
async def test_nothing_stays_behind_of_500_requests_and_no_token_beside_them_changes(
    tiny_model_folder: Path, tmp_path: Path
) -> None:
    report = await stormed(tiny_model_folder, tmp_path, requests=500)
    assert report.complaints() == []
    assert report.after.open_sessions == report.after.waiting_requests == report.after.open_calls == 0
    assert report.after.free_slots == report.before.free_slots > 4
    assert (report.controls_differing, report.controls_after_differing) == (0, 0)
    assert report.controls > 4
    assert report.controls_after == report.after.free_slots
    ended: Counter[str] = Counter()
    for moment in Moment:
        for ending in Ending:
            found = report.outcome(moment, ending)
            assert found.get(TOO_LATE if ending is Ending.DEADLINE else LEFT, 0) > 0, (moment, ending)
            ended.update(found)
    assert set(ended) == {LEFT, TOO_LATE, FINISHED}
    assert ended.total() == 500
    assert report.counted.statuses["CANCELLED"] > 200
    assert report.grown_bytes < 64 * MEBIBYTE  # the clients' side included


async def test_a_planted_leak_is_found(
    tiny_model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluation.storm._SETTLING_S", 1)
    release, released = Prefixes.release, 0

    def forgetful(prefixes: Prefixes, slot: int, *, sound: bool) -> None:
        nonlocal released
        released += 1
        if released not in LEAKED:
            release(prefixes, slot, sound=sound)

    monkeypatch.setattr(Prefixes, "release", forgetful)
    report = await stormed(tiny_model_folder, tmp_path, requests=60)
    assert f"leaked: {len(LEAKED)} lost_slots" in report.complaints()


async def test_the_command_says_what_it_found(tiny_model_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "slipstream.toml").write_text("[target]\ncontext_tokens = 256\nprompt_tokens = 160\nthreads = 1\n")
    outcome = await CommandLine(tmp_path)(
        *("audit", "cancels", "--requests", 60, "--at-once", 8, "--prompt-tokens", 100),
        *("--model", tiny_model_folder, "--json", "out.json"),
    )
    written = json.loads((tmp_path / "out.json").read_text())
    assert outcome.code == 0, outcome.out
    assert "nothing leaked, nothing differed" in outcome.out
    assert "between steps" in outcome.out
    assert (written["complaints"], written["leaked"], written["requests"]) == ([], {}, 60)
    assert sum(written["outcomes"].values()) == 60
    assert written["controls"] > 0


async def test_a_call_that_is_cancelled_before_it_says_anything_or_between_steps_counts_as_that(
    running: Serving, vocabulary: Vocabulary, target: ToyTarget
) -> None:
    """Its messages are seen to end before the cancel is: that is neither a wrong request nor one that ended well."""
    for number in range(40):
        stream = Stream(running.target)
        if number % 2:
            await stream.send(opening(PROMPT, vocabulary.fingerprint))
            await stream.answer()
        else:
            await asyncio.sleep(0.001 * (number % 5))
        stream.call.cancel()
    await eventually(lambda: running.server.lifecycle.open_calls == 0)
    await target.until(lambda: target.open_now == 0)
    cancelled = running.total("errors_total", status="CANCELLED")
    assert 20 <= cancelled <= 40  # of the others, some were gone before the server had heard of them
    assert running.total("requests_total") == running.total("errors_total") == cancelled


@pytest.fixture(scope="module")
def small(tiny_model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with tiny_served(tiny_model_folder, tmp_path_factory.mktemp("cache"), **OVERLOAD) as served:
        yield served


@pytest.fixture
async def full(small: Served) -> AsyncIterator[tuple[Serving, list[Stream]]]:
    """A server that can take no more: two sequences are open and idle, four requests wait."""
    async with serving(small, settings=local(**OVERLOAD)) as started:
        streams = [Stream(started.target) for _ in range(6)]
        for stream in streams:
            await stream.send(opening(PROMPT, small.vocabulary.fingerprint))
        await eventually(lambda: engine_of(small).waiting_requests == 4)
        yield started, streams
        for stream in streams:
            stream.call.cancel()
        await eventually(lambda: engine_of(small).open_sessions == 0)


@pytest.mark.timeout(240)
async def test_what_is_beyond_capacity_is_refused_with_a_hint_and_takes_no_memory(
    full: tuple[Serving, list[Stream]], small: Served
) -> None:
    running, held = full
    engine = engine_of(small)

    async def refused() -> int:
        """The hint."""
        error = await refusal(stream := Stream(running.target), opening(PROMPT * 20, small.vocabulary.fingerprint))
        assert isinstance(error, LimitExceeded)
        assert await stream.status() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert error.retry_after_ms is not None
        return error.retry_after_ms

    async def many(count: int) -> None:
        for _ in range(count // 20):
            assert min(await asyncio.gather(*(refused() for _ in range(20)))) >= 50
            assert (engine.open_sessions, engine.waiting_requests) == (2, 4)

    async def objects() -> int:
        for _ in range(2):  # generators that are collected end on the event loop
            gc.collect()
            await asyncio.sleep(0.1)
        gc.collect()
        return len(gc.get_objects())

    await many(1000)  # so that whatever grows once has grown
    objects_before, growths = await objects(), []
    for _ in range(4):
        before = resident_bytes()
        await many(500)
        growths.append(resident_bytes() - before)
    assert await objects() - objects_before < 1000  # not even half an object for each
    # Memory goes up and down by itself, the more so late in a long process; what each refusal left would always add.
    assert min(growths) < 2 * MEBIBYTE
    assert running.total("errors_total", status="RESOURCE_EXHAUSTED") == 3000

    async def leaves(stream: Stream) -> None:
        assert isinstance(await stream.answer(), Opened)
        await stream.close()
        await stream.rest()

    await asyncio.gather(*(leaves(stream) for stream in held))  # who waited gets a turn when one has left
    assert len(await run_to_end(running.target, small)) == 24


@pytest.fixture(scope="module")
def roomy(tiny_model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with tiny_served(tiny_model_folder, tmp_path_factory.mktemp("cache"), **ROOMY) as served:
        yield served


async def test_a_crowd_of_one_clients_requests_does_not_lock_another_client_out(roomy: Served) -> None:
    async with (
        serving(roomy, settings=local(**ROOMY)) as running,
        aio.insecure_channel(running.addresses.grpc, options=(("grpc.use_local_subchannel_pool", 1),)) as other,
    ):
        done = 0

        async def one() -> None:
            nonlocal done
            await run_to_end(running.target, roomy)
            done += 1

        crowd = [asyncio.create_task(one()) for _ in range(50)]
        await eventually(lambda: engine_of(roomy).waiting_requests > 40 and done > 0)
        already = done
        assert len(await run_to_end(services.target_stub(other), roomy)) == 24
        # Two held the sessions when it came, and a few may have followed on the other while it ran.
        assert done - already <= 8
        assert done < 50
        await asyncio.gather(*crowd)
        assert running.total("requests_total", reason="token_limit") == 51
