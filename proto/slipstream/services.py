"""The services, for those who serve or call them: stubs, registration, names.

Here generated code gets the types that its generator leaves out; nobody else imports it.
"""

from __future__ import annotations

from typing import Protocol, cast

from grpc import aio

from slipstream.v1 import completion_pb2, completion_pb2_grpc, target_pb2, target_pb2_grpc

TARGET_SERVICE: str = target_pb2.DESCRIPTOR.services_by_name["Target"].full_name
COMPLETION_SERVICE: str = completion_pb2.DESCRIPTOR.services_by_name["Completion"].full_name
SERVICE_NAMES: tuple[str, ...] = (TARGET_SERVICE, COMPLETION_SERVICE)

DescribeRequestMessage = target_pb2.DescribeRequest
DescribeResponseMessage = target_pb2.DescribeResponse
TokenizerRequestMessage = target_pb2.TokenizerRequest
TokenizerChunkMessage = target_pb2.TokenizerChunk
DecodeRequestMessage = target_pb2.DecodeRequest
DecodeResponseMessage = target_pb2.DecodeResponse
CompleteRequestMessage = completion_pb2.CompleteRequest
CompleteResponseMessage = completion_pb2.CompleteResponse

TargetServicer = target_pb2_grpc.TargetServicer
CompletionServicer = completion_pb2_grpc.CompletionServicer


class TargetStub(Protocol):
    """The methods of slipstream.v1.Target, seen from a client."""

    Describe: aio.UnaryUnaryMultiCallable[DescribeRequestMessage, DescribeResponseMessage]
    Tokenizer: aio.UnaryStreamMultiCallable[TokenizerRequestMessage, TokenizerChunkMessage]
    Decode: aio.StreamStreamMultiCallable[DecodeRequestMessage, DecodeResponseMessage]


class CompletionStub(Protocol):
    """The method of slipstream.v1.Completion, seen from a client."""

    Complete: aio.UnaryStreamMultiCallable[CompleteRequestMessage, CompleteResponseMessage]


def target_stub(channel: aio.Channel) -> TargetStub:
    return cast("TargetStub", target_pb2_grpc.TargetStub(channel))


def completion_stub(channel: aio.Channel) -> CompletionStub:
    return cast("CompletionStub", completion_pb2_grpc.CompletionStub(channel))


def add_target_servicer(servicer: TargetServicer, server: aio.Server) -> None:
    target_pb2_grpc.add_TargetServicer_to_server(servicer, server)


def add_completion_servicer(servicer: CompletionServicer, server: aio.Server) -> None:
    completion_pb2_grpc.add_CompletionServicer_to_server(servicer, server)
