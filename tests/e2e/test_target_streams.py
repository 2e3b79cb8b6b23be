"""Decode, Describe and Tokenizer through a real server: what is answered, and what is counted."""

from __future__ import annotations

import asyncio
import json

import grpc
import pytest
from serving import PROMPT, Serving, Stream, opening
from toy_serving import CONTEXT_LENGTH, ToyTarget

from decoding.drafting import Draft
from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules
from decoding.verdict import Finished, FinishReason, Opened, Verdict
from drafts.vocabulary import Vocabulary
from slipstream import wire
from slipstream.opening import GateReport, GateTransition, RunMessage


async def test_describe_and_tokenizer_give_a_client_all_it_needs(running: Serving, vocabulary: Vocabulary) -> None:
    description = wire.description_value(await running.target.Describe(wire.describe_request()))
    assert description.tokenizer_fingerprint == vocabulary.fingerprint
    assembly = wire.FileAssembly(2**24)
    sizes = []
    async for chunk in running.target.Tokenizer(wire.tokenizer_request()):
        sizes.append(len(chunk.data))
        assembly.push(chunk)
    assert max(sizes) <= 256 * 1024
    assert Vocabulary.from_files(assembly.files()).fingerprint == vocabulary.fingerprint


async def test_drafts_get_one_verdict_each_and_the_plain_run_is_the_same_text(
    running: Serving, vocabulary: Vocabulary
) -> None:
    plain = Stream(running.target)
    await plain.send(opening(PROMPT, vocabulary.fingerprint))
    await plain.send(RunMessage(limit=64))
    opened, *verdicts, finished = await plain.rest()
    assert isinstance(opened, Opened)
    assert isinstance(finished, Finished)
    tokens = [token for verdict in verdicts if isinstance(verdict, Verdict) for token in verdict.tokens]
    assert len(tokens) == 24
    assert finished.reason is FinishReason.TOKEN_LIMIT
    assert finished.statistics.verify_steps == len(verdicts) == 24

    drafted = Stream(running.target)
    await drafted.send(opening(PROMPT, vocabulary.fingerprint, drafter="mix"))
    assert isinstance(await drafted.answer(), Opened)
    position, got = len(PROMPT), []
    while True:
        right = tokens[len(got) : len(got) + 3]
        await drafted.send(Draft(position=position, tokens=(*right, 300), sampling_fingerprint=""))
        verdict = await drafted.answer()
        assert isinstance(verdict, Verdict)
        got.extend(verdict.tokens)
        position += len(verdict.tokens)
        if verdict.finish is not None:
            break
    (finished,) = await drafted.rest()
    assert got == tokens
    assert isinstance(finished, Finished)
    assert finished.statistics.accepted_tokens > finished.statistics.verify_steps
    assert await drafted.status() is grpc.StatusCode.OK


async def test_a_named_drafter_of_the_servers_gives_the_same_tokens_in_fewer_steps(
    running: Serving, vocabulary: Vocabulary
) -> None:
    outputs, steps = [], []
    for drafter in ("", "mix"):
        stream = Stream(running.target)
        await stream.send(opening(PROMPT, vocabulary.fingerprint, stop=StopRules(max_tokens=100)))
        await stream.send(RunMessage(limit=100, drafter=drafter))
        _, *verdicts, finished = await stream.rest()
        outputs.append([token for verdict in verdicts if isinstance(verdict, Verdict) for token in verdict.tokens])
        assert isinstance(finished, Finished)
        steps.append(finished.statistics.verify_steps)
    assert outputs[0] == outputs[1]
    assert steps[1] < steps[0]
    assert running.total("requests_total", drafter="mix") == 1  # the run's drafter names the request's


async def test_a_client_that_closes_early_gets_its_statistics(running: Serving, vocabulary: Vocabulary) -> None:
    stream = Stream(running.target)
    await stream.send(opening(PROMPT, vocabulary.fingerprint))
    await stream.send(RunMessage(limit=5))
    await stream.close()
    _, *verdicts, finished = await stream.rest()
    assert len(verdicts) == 5
    assert isinstance(finished, Finished)
    assert finished.reason is FinishReason.CLOSED
    assert finished.statistics.emitted_tokens == 5


async def test_messages_after_the_finish_are_ignored(
    running: Serving, vocabulary: Vocabulary, target: ToyTarget
) -> None:
    stream = Stream(running.target)
    await stream.send(opening(PROMPT, vocabulary.fingerprint, stop=StopRules(max_tokens=2)))
    await stream.send(RunMessage(limit=10))
    await stream.send(RunMessage(limit=10))
    await stream.send(Draft(position=0, tokens=(), sampling_fingerprint=""))
    answers = await stream.rest()
    assert isinstance(answers[-1], Finished)
    assert await stream.status() is grpc.StatusCode.OK
    assert target.steps == 2


async def test_a_missing_seed_is_drawn_and_said_and_replays(running: Serving, vocabulary: Vocabulary) -> None:
    sampling = SamplingConfig(temperature=1.0)

    async def output(seed: int | None) -> tuple[int, list[int]]:
        stream = Stream(running.target)
        config = sampling if seed is None else SamplingConfig(temperature=1.0, seed=seed)
        await stream.send(opening(PROMPT, vocabulary.fingerprint, sampling=config, seed_given=seed is not None))
        await stream.send(RunMessage(limit=24))
        opened, *verdicts, _ = await stream.rest()
        assert isinstance(opened, Opened)
        return opened.seed, [token for v in verdicts if isinstance(v, Verdict) for token in v.tokens]

    seed, tokens = await output(None)
    other_seed, other_tokens = await output(None)
    assert seed != other_seed
    assert tokens != other_tokens
    assert await output(seed) == (seed, tokens)


async def test_the_request_id_travels_back_in_metadata(running: Serving, vocabulary: Vocabulary) -> None:
    async def said(request_id: str, metadata: tuple[tuple[str, str], ...]) -> str:
        stream = Stream(running.target, metadata=metadata)
        await stream.send(opening(PROMPT, vocabulary.fingerprint, request_id=request_id))
        await stream.close()
        initial = dict(await stream.call.initial_metadata())
        await stream.rest()
        return str(initial["x-request-id"])

    assert await said("mine", (("x-request-id", "theirs"),)) == "mine"
    assert await said("", (("x-request-id", "theirs"),)) == "theirs"
    assert len(await said("", ())) == 16


async def test_a_context_that_fills_up_ends_the_sequence(running: Serving, vocabulary: Vocabulary) -> None:
    stream = Stream(running.target)
    await stream.send(opening(PROMPT, vocabulary.fingerprint, stop=StopRules(max_tokens=4096)))
    await stream.send(RunMessage(limit=4096, drafter="mix"))
    finished = (await stream.rest())[-1]
    assert isinstance(finished, Finished)
    assert finished.reason is FinishReason.CONTEXT_FULL
    assert finished.statistics.emitted_tokens == CONTEXT_LENGTH - len(PROMPT)


async def test_counters_are_the_sums_of_the_requests_own_statistics(running: Serving, vocabulary: Vocabulary) -> None:
    async def one(number: int) -> Finished:
        stream = Stream(running.target)
        drafter = ("", "mix")[number % 2]
        language = ("python", "rust", "nobody-speaks-this")[number % 3]
        await stream.send(
            opening((50 + number, 51), vocabulary.fingerprint, language=language, stop=StopRules(max_tokens=5 + number))
        )
        await stream.send(RunMessage(limit=64, drafter=drafter if language != "nobody-speaks-this" else ""))
        finished = (await stream.rest())[-1]
        assert isinstance(finished, Finished)
        return finished

    finished = await asyncio.gather(*(one(number) for number in range(6)))
    for field in ("prompt", "cached", "drafted", "judged", "accepted", "emitted"):
        expected = sum(getattr(each.statistics, f"{field}_tokens") for each in finished)
        assert running.total(f"{field}_tokens_total") == expected, field
    assert running.total("verify_steps_total") == sum(each.statistics.verify_steps for each in finished)
    assert running.total("requests_total", reason="token_limit") == 6
    assert running.total("requests_total", language="other") == 2
    assert running.total("request_seconds_sum") == pytest.approx(sum(each.total_us for each in finished) / 1e6)
    status, text = await running.get("/metrics")
    assert status == 200
    emitted = sum(
        float(line.split()[-1]) for line in text.splitlines() if line.startswith("slipstream_emitted_tokens_total{")
    )
    assert emitted == sum(each.statistics.emitted_tokens for each in finished)
    board = json.loads((await running.get("/languages.json"))[1])
    assert sum(row["emitted_tokens"] for row in board["languages"]) == emitted


async def test_a_clients_gate_is_shown(running: Serving, vocabulary: Vocabulary) -> None:
    moved = GateTransition(before="speculating", after="fallen_back", reason="low_rate")
    stream = Stream(running.target)
    await stream.send(
        opening(
            PROMPT, vocabulary.fingerprint, drafter="mix", gate=GateReport(state="fallen_back", transitions=(moved,))
        )
    )
    await stream.close()
    await stream.rest()
    assert running.total("gate_state", side="client", language="python", drafter="mix", state="fallen_back") == 1
    assert running.total("gate_state", side="client", language="python", drafter="mix", state="speculating") == 0
    assert running.total("gate_transitions_total", side="client", reason="low_rate", to="fallen_back") == 1
