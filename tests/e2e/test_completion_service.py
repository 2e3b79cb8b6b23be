"""Completion through a real server: text in, streamed text out, drafts and gate at the server."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from grpc import aio
from serving import Serving, eventually, serving
from toy_serving import CONTEXT_LENGTH, PROMPT_TOKENS, ToyDrafter, ToyTarget, toy_served

from decoding.errors import InvalidSetting
from decoding.gate import GateRules
from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules
from decoding.verdict import FinishReason
from drafts.vocabulary import Vocabulary
from slipstream import services, wire
from slipstream.completion import CompletionRequest
from slipstream.statuses import from_rpc_error

PREFIX = "def square(number):\n    return "


def asking(
    *,
    prefix: str = PREFIX,
    language: str = "",
    path: str = "square.py",
    plain: bool = False,
    seed: int | None = 0,
    temperature: float = 0.0,
    max_tokens: int = 48,
    request_id: str = "",
) -> CompletionRequest:
    return CompletionRequest(
        prefix=prefix,
        language=language,
        path=path,
        sampling=SamplingConfig(temperature=temperature, seed=seed or 0),
        seed_given=seed is not None,
        stop=StopRules(max_tokens=max_tokens),
        plain=plain,
        request_id=request_id,
    )


@pytest.mark.parametrize("temperature", [0.0, 1.0])
async def test_speculation_changes_no_token_and_saves_steps(running: Serving, temperature: float) -> None:
    outputs = []
    for plain in (True, False):
        started, deltas, finished = await running.complete(
            asking(plain=plain, temperature=temperature, seed=7, max_tokens=100)
        )
        assert started.language == "python"
        assert started.drafter == ("" if plain else "mix")
        tokens = [token for delta in deltas for token in delta.tokens]
        assert finished.statistics.emitted_tokens == len(tokens) == 100
        assert finished.reason is FinishReason.TOKEN_LIMIT
        outputs.append(("".join(delta.text for delta in deltas), tokens))
        if plain:
            assert finished.statistics.drafted_tokens == 0
            assert finished.statistics.verify_steps == 100
            assert {source for delta in deltas for source in delta.sources} == {"target"}
        elif temperature == 0:
            assert finished.statistics.verify_steps < 50
            assert {source for delta in deltas for source in delta.sources} == {"target", "toy"}
    assert outputs[0] == outputs[1]


async def test_the_text_is_that_of_the_tokens(running: Serving, vocabulary: Vocabulary) -> None:
    _, deltas, _ = await running.complete(asking(temperature=1.5, max_tokens=120))
    tokens = [token for delta in deltas for token in delta.tokens]
    assert "".join(delta.text for delta in deltas) == vocabulary.decode(tokens)


async def test_a_drawn_seed_is_said_and_replays(running: Serving) -> None:
    started, deltas, _ = await running.complete(asking(temperature=1.0, seed=None))
    again, same, _ = await running.complete(asking(temperature=1.0, seed=started.seed))
    other, different, _ = await running.complete(asking(temperature=1.0, seed=None))
    assert again.seed == started.seed != other.seed
    text = "".join(delta.text for delta in deltas)
    assert text == "".join(delta.text for delta in same) != "".join(delta.text for delta in different)


@pytest.mark.parametrize(
    ("max_tokens", "most", "reason"),
    [
        (10, PROMPT_TOKENS, FinishReason.TOKEN_LIMIT),  # the prompt limit
        (100, CONTEXT_LENGTH - 100, FinishReason.TOKEN_LIMIT),  # room for the output
        (1000, CONTEXT_LENGTH // 2, FinishReason.CONTEXT_FULL),  # but no more than half of the context
    ],
)
async def test_a_long_prefix_is_cut_to_leave_room_for_the_output(
    running: Serving, max_tokens: int, most: int, reason: FinishReason
) -> None:
    _, _, finished = await running.complete(asking(prefix="x = 1\n" * 5000, max_tokens=max_tokens))
    assert most // 2 < finished.statistics.prompt_tokens <= most  # it is cut in steps
    assert finished.reason is reason


async def test_an_empty_file_is_completed(running: Serving) -> None:
    started, _, finished = await running.complete(asking(prefix="", path=""))
    assert started.language == "plaintext"
    assert finished.statistics.emitted_tokens == 48


async def test_the_gate_falls_back_probes_and_recovers_without_a_changed_token(
    vocabulary: Vocabulary, target: ToyTarget
) -> None:
    drafter = ToyDrafter(hostile=True)
    rules = GateRules(consecutive=2, threshold_evidence=4, floor_evidence=1000, probe_every=2, good_probes=1)
    async with serving(toy_served(vocabulary, target, drafter), rules=rules) as running:
        _, plain, _ = await running.complete(asking(plain=True))
        used = []
        for number in range(6):
            drafter.hostile = number < 3
            started, deltas, _ = await running.complete(asking())
            used.append(started.drafter)
            assert [delta.tokens for delta in deltas if delta.tokens]
            assert "".join(delta.text for delta in deltas) == "".join(delta.text for delta in plain)
        # Two hostile requests fall back; one plain, one probe that is good again; then drafts as before.
        assert used == ["mix", "mix", "", "mix", "mix", "mix"]
        gate = {"side": "server", "language": "python", "drafter": "mix"}
        assert running.total("gate_transitions_total", **gate, to="fallen_back", reason="low_rate") == 1
        assert running.total("gate_transitions_total", **gate, to="speculating", reason="recovered") == 1
        assert running.total("gate_state", **gate, state="speculating") == 1
        assert running.total("requests_total", language="python", drafter="none") == 2


@pytest.mark.parametrize("fails", ["propose", "open"])
async def test_a_drafter_that_breaks_costs_its_drafts_only(
    vocabulary: Vocabulary, target: ToyTarget, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    drafter = ToyDrafter(fails=fails == "propose")
    if fails == "open":
        monkeypatch.setattr(ToyDrafter, "open", lambda self, request: 1 / 0)
    async with serving(toy_served(vocabulary, target, drafter)) as running:
        _, _, finished = await running.complete(asking())
    assert finished.statistics.emitted_tokens == 48
    assert finished.statistics.drafted_tokens == 0


async def test_a_client_that_goes_away_frees_the_sequence(running: Serving, target: ToyTarget) -> None:
    permits = asyncio.Semaphore(2)
    target.before_step = permits.acquire
    stub = services.completion_stub(running.channel)
    call = stub.Complete(wire.completion_request_message(asking()))
    for _ in range(3):
        await call.read()
    call.cancel()
    await target.until(lambda: target.open_now == 0)
    permits.release()
    assert target.steps == 2
    await eventually(lambda: running.total("errors_total", status="CANCELLED") == 1)
    assert running.total("verify_steps_total") == 2


async def test_a_deadline_is_kept(running: Serving, target: ToyTarget) -> None:
    target.before_step = asyncio.Event().wait
    with pytest.raises(aio.AioRpcError) as raised:
        await running.complete(asking(), timeout_s=0.3)
    assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await target.until(lambda: target.open_now == 0)


async def test_wrong_fields_are_named(running: Serving) -> None:
    message = wire.completion_request_message(asking())
    message.sampling.temperature = -1
    with pytest.raises(aio.AioRpcError) as raised:
        await services.completion_stub(running.channel).Complete(message).read()
    error = from_rpc_error(raised.value)
    assert isinstance(error, InvalidSetting)
    assert error.field == "sampling.temperature"


async def test_counters_are_the_sums_of_the_requests_own_statistics(running: Serving) -> None:
    answers = await asyncio.gather(
        *(running.complete(asking(plain=number % 3 == 0, max_tokens=20 + number)) for number in range(6))
    )
    finished = [answer[2] for answer in answers]
    for field in ("prompt", "cached", "drafted", "judged", "accepted", "emitted"):
        expected = sum(getattr(each.statistics, f"{field}_tokens") for each in finished)
        assert running.total(f"{field}_tokens_total") == expected, field
    assert running.total("verify_steps_total") == sum(each.statistics.verify_steps for each in finished)
    assert running.total("requests_total") == 6
    assert running.total("open_sessions") == 0
