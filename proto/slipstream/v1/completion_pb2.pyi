from slipstream.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CompleteRequest(_message.Message):
    __slots__ = ("language", "path", "prefix", "suffix", "sampling", "stop", "plain", "request_id")
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    PLAIN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    language: str
    path: str
    prefix: str
    suffix: str
    sampling: _common_pb2.SamplingConfig
    stop: _common_pb2.StopRules
    plain: bool
    request_id: str
    def __init__(self, language: _Optional[str] = ..., path: _Optional[str] = ..., prefix: _Optional[str] = ..., suffix: _Optional[str] = ..., sampling: _Optional[_Union[_common_pb2.SamplingConfig, _Mapping]] = ..., stop: _Optional[_Union[_common_pb2.StopRules, _Mapping]] = ..., plain: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class CompleteResponse(_message.Message):
    __slots__ = ("started", "delta", "finished")
    STARTED_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    started: CompletionStarted
    delta: CompletionDelta
    finished: _common_pb2.Finished
    def __init__(self, started: _Optional[_Union[CompletionStarted, _Mapping]] = ..., delta: _Optional[_Union[CompletionDelta, _Mapping]] = ..., finished: _Optional[_Union[_common_pb2.Finished, _Mapping]] = ...) -> None: ...

class CompletionStarted(_message.Message):
    __slots__ = ("language", "drafter", "seed", "noise_version", "request_id")
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    DRAFTER_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    NOISE_VERSION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    language: str
    drafter: str
    seed: int
    noise_version: str
    request_id: str
    def __init__(self, language: _Optional[str] = ..., drafter: _Optional[str] = ..., seed: _Optional[int] = ..., noise_version: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class CompletionDelta(_message.Message):
    __slots__ = ("text", "tokens", "sources")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    text: str
    tokens: _containers.RepeatedScalarFieldContainer[int]
    sources: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, text: _Optional[str] = ..., tokens: _Optional[_Iterable[int]] = ..., sources: _Optional[_Iterable[str]] = ...) -> None: ...
