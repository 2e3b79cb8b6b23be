"""The server around the services: loading, health, reflection, draining."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from serving import PROMPT, Serving, Stream, eventually, local, opening, refusal, serving
from toy_serving import ToyTarget, toy_served

from decoding.errors import TargetUnavailable
from decoding.gate import GateRules
from decoding.stopping import StopRules
from decoding.verdict import Finished
from drafts.vocabulary import Vocabulary
from slipstream import services, wire
from slipstream.opening import RunMessage
from target_server.errors import ModelUnavailable
from target_server.lifecycle import Served
from target_server.server import SPARE_CALLS, serve


async def test_while_loading_calls_are_unavailable_and_health_says_so(
    vocabulary: Vocabulary, target: ToyTarget
) -> None:
    async with serving(toy_served(vocabulary, target), load=False) as running:
        health = health_pb2_grpc.HealthStub(running.channel)
        check = health_pb2.HealthCheckRequest(service=services.TARGET_SERVICE)
        assert (await health.Check(check)).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert await running.get("/healthz") == (503, "loading\n")
        with pytest.raises(aio.AioRpcError) as raised:
            await running.target.Describe(wire.describe_request())
        assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
        assert isinstance(
            await refusal(Stream(running.target), opening(PROMPT, vocabulary.fingerprint)), TargetUnavailable
        )
        watch = health.Watch(health_pb2.HealthCheckRequest(service=""))
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        await running.server.load()
        assert (await asyncio.wait_for(watch.read(), 20)).status == health_pb2.HealthCheckResponse.SERVING
        assert (await health.Check(check)).status == health_pb2.HealthCheckResponse.SERVING
        assert await running.get("/healthz") == (200, "serving\n")
        await running.target.Describe(wire.describe_request())


async def test_reflection_lists_and_describes_the_contract(running: Serving) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(running.channel)
    ask = reflection_pb2.ServerReflectionRequest
    call = stub.ServerReflectionInfo(
        iter([ask(list_services=""), ask(file_containing_symbol=services.COMPLETION_SERVICE)])
    )
    listed, described = [answer async for answer in call]
    names = {service.name for service in listed.list_services_response.service}
    assert {services.TARGET_SERVICE, services.COMPLETION_SERVICE, "grpc.health.v1.Health"} <= names
    file = FileDescriptorProto.FromString(described.file_descriptor_response.file_descriptor_proto[0])
    assert file.service[0].method[0].name == "Complete"


async def test_draining_refuses_new_calls_and_lets_open_ones_end(vocabulary: Vocabulary, target: ToyTarget) -> None:
    async with serving(toy_served(vocabulary, target)) as running:
        permits = asyncio.Semaphore(1)
        target.before_step = permits.acquire
        open_one = Stream(running.target)
        await open_one.send(opening(PROMPT, vocabulary.fingerprint, stop=StopRules(max_tokens=4)))
        await open_one.send(RunMessage(limit=4))
        await open_one.answer()
        await open_one.answer()
        draining = asyncio.create_task(running.server.drain())
        health = health_pb2_grpc.HealthStub(running.channel)
        watch = health.Watch(health_pb2.HealthCheckRequest(service=""))
        while (await watch.read()).status != health_pb2.HealthCheckResponse.NOT_SERVING:
            pass
        assert await running.get("/healthz") == (503, "draining\n")
        assert isinstance(
            await refusal(Stream(running.target), opening(PROMPT, vocabulary.fingerprint)), TargetUnavailable
        )
        for _ in range(3):
            permits.release()
        answers = await open_one.rest()
        assert isinstance(answers[-1], Finished)
        assert await open_one.status() is grpc.StatusCode.OK
        await asyncio.wait_for(draining, 20)
        assert target.closed


async def test_draining_ends_what_does_not_end_in_time(vocabulary: Vocabulary, target: ToyTarget) -> None:
    async with serving(toy_served(vocabulary, target), settings=local(drain_s=0.1)) as running:
        target.before_step = asyncio.Event().wait
        stream = Stream(running.target)
        await stream.send(opening(PROMPT, vocabulary.fingerprint))
        await stream.send(RunMessage(limit=4))
        await stream.answer()
        await asyncio.wait_for(running.server.drain(), 20)
        with pytest.raises(aio.AioRpcError):
            await stream.rest()
        assert target.open_now == 0


async def test_calls_that_never_say_anything_are_bounded(vocabulary: Vocabulary, target: ToyTarget) -> None:
    async with serving(toy_served(vocabulary, target), settings=local(sessions=1, queued_requests=0)) as running:
        silent = [Stream(running.target) for _ in range(1 + SPARE_CALLS)]
        for stream in silent:
            await stream.call.wait_for_connection()
        await eventually(lambda: running.server.lifecycle.open_calls == len(silent))
        with pytest.raises(aio.AioRpcError) as raised:
            await running.target.Describe(wire.describe_request())
        assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        for stream in silent:
            stream.call.cancel()
        await eventually(lambda: running.server.lifecycle.open_calls == 0)
        await running.target.Describe(wire.describe_request())


async def test_a_model_that_can_not_be_loaded_ends_the_server_with_its_error() -> None:
    def missing() -> Served:
        raise ModelUnavailable("the default model has not been fetched", remedy="fetch it")

    with pytest.raises(ModelUnavailable, match="has not been fetched; fetch it"):
        await serve(local(), GateRules(), load=missing)
