from slipstream.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GateState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GATE_STATE_UNSPECIFIED: _ClassVar[GateState]
    GATE_STATE_SPECULATING: _ClassVar[GateState]
    GATE_STATE_FALLEN_BACK: _ClassVar[GateState]
    GATE_STATE_PROBING: _ClassVar[GateState]
GATE_STATE_UNSPECIFIED: GateState
GATE_STATE_SPECULATING: GateState
GATE_STATE_FALLEN_BACK: GateState
GATE_STATE_PROBING: GateState

class DescribeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeResponse(_message.Message):
    __slots__ = ("model_id", "model_revision", "tokenizer_fingerprint", "vocabulary_size", "end_of_text_ids", "fim", "context_length", "dtype", "device", "noise_version", "limits", "drafters", "server_version")
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_REVISION_FIELD_NUMBER: _ClassVar[int]
    TOKENIZER_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    VOCABULARY_SIZE_FIELD_NUMBER: _ClassVar[int]
    END_OF_TEXT_IDS_FIELD_NUMBER: _ClassVar[int]
    FIM_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    NOISE_VERSION_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    DRAFTERS_FIELD_NUMBER: _ClassVar[int]
    SERVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    model_id: str
    model_revision: str
    tokenizer_fingerprint: str
    vocabulary_size: int
    end_of_text_ids: _containers.RepeatedScalarFieldContainer[int]
    fim: FimTemplate
    context_length: int
    dtype: str
    device: str
    noise_version: str
    limits: Limits
    drafters: _containers.RepeatedCompositeFieldContainer[DrafterInfo]
    server_version: str
    def __init__(self, model_id: _Optional[str] = ..., model_revision: _Optional[str] = ..., tokenizer_fingerprint: _Optional[str] = ..., vocabulary_size: _Optional[int] = ..., end_of_text_ids: _Optional[_Iterable[int]] = ..., fim: _Optional[_Union[FimTemplate, _Mapping]] = ..., context_length: _Optional[int] = ..., dtype: _Optional[str] = ..., device: _Optional[str] = ..., noise_version: _Optional[str] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., drafters: _Optional[_Iterable[_Union[DrafterInfo, _Mapping]]] = ..., server_version: _Optional[str] = ...) -> None: ...

class FimTemplate(_message.Message):
    __slots__ = ("prefix_id", "suffix_id", "middle_id", "suffix_first")
    PREFIX_ID_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_ID_FIELD_NUMBER: _ClassVar[int]
    MIDDLE_ID_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_FIRST_FIELD_NUMBER: _ClassVar[int]
    prefix_id: int
    suffix_id: int
    middle_id: int
    suffix_first: bool
    def __init__(self, prefix_id: _Optional[int] = ..., suffix_id: _Optional[int] = ..., middle_id: _Optional[int] = ..., suffix_first: _Optional[bool] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("sessions", "queued_requests", "prompt_tokens", "block_rows", "message_bytes")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_ROWS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    sessions: int
    queued_requests: int
    prompt_tokens: int
    block_rows: int
    message_bytes: int
    def __init__(self, sessions: _Optional[int] = ..., queued_requests: _Optional[int] = ..., prompt_tokens: _Optional[int] = ..., block_rows: _Optional[int] = ..., message_bytes: _Optional[int] = ...) -> None: ...

class DrafterInfo(_message.Message):
    __slots__ = ("language", "name")
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    language: str
    name: str
    def __init__(self, language: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class TokenizerRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TokenizerChunk(_message.Message):
    __slots__ = ("file", "data", "last")
    FILE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    file: str
    data: bytes
    last: bool
    def __init__(self, file: _Optional[str] = ..., data: _Optional[bytes] = ..., last: _Optional[bool] = ...) -> None: ...

class DecodeRequest(_message.Message):
    __slots__ = ("open", "draft", "run")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    DRAFT_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    open: Open
    draft: DraftMessage
    run: Run
    def __init__(self, open: _Optional[_Union[Open, _Mapping]] = ..., draft: _Optional[_Union[DraftMessage, _Mapping]] = ..., run: _Optional[_Union[Run, _Mapping]] = ...) -> None: ...

class Open(_message.Message):
    __slots__ = ("prompt", "sampling", "stop", "language", "drafter", "tokenizer_fingerprint", "request_id", "gate")
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    DRAFTER_FIELD_NUMBER: _ClassVar[int]
    TOKENIZER_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    GATE_FIELD_NUMBER: _ClassVar[int]
    prompt: _containers.RepeatedScalarFieldContainer[int]
    sampling: _common_pb2.SamplingConfig
    stop: _common_pb2.StopRules
    language: str
    drafter: str
    tokenizer_fingerprint: str
    request_id: str
    gate: GateReport
    def __init__(self, prompt: _Optional[_Iterable[int]] = ..., sampling: _Optional[_Union[_common_pb2.SamplingConfig, _Mapping]] = ..., stop: _Optional[_Union[_common_pb2.StopRules, _Mapping]] = ..., language: _Optional[str] = ..., drafter: _Optional[str] = ..., tokenizer_fingerprint: _Optional[str] = ..., request_id: _Optional[str] = ..., gate: _Optional[_Union[GateReport, _Mapping]] = ...) -> None: ...

class GateReport(_message.Message):
    __slots__ = ("state", "transitions")
    STATE_FIELD_NUMBER: _ClassVar[int]
    TRANSITIONS_FIELD_NUMBER: _ClassVar[int]
    state: GateState
    transitions: _containers.RepeatedCompositeFieldContainer[GateTransition]
    def __init__(self, state: _Optional[_Union[GateState, str]] = ..., transitions: _Optional[_Iterable[_Union[GateTransition, _Mapping]]] = ...) -> None: ...

class GateTransition(_message.Message):
    __slots__ = ("to", "reason")
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    to: GateState
    reason: str
    def __init__(self, to: _Optional[_Union[GateState, str]] = ..., reason: _Optional[str] = ..., **kwargs) -> None: ...

class DraftMessage(_message.Message):
    __slots__ = ("position", "tokens", "sampling_fingerprint")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    position: int
    tokens: _containers.RepeatedScalarFieldContainer[int]
    sampling_fingerprint: str
    def __init__(self, position: _Optional[int] = ..., tokens: _Optional[_Iterable[int]] = ..., sampling_fingerprint: _Optional[str] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("limit", "drafter")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    DRAFTER_FIELD_NUMBER: _ClassVar[int]
    limit: int
    drafter: str
    def __init__(self, limit: _Optional[int] = ..., drafter: _Optional[str] = ...) -> None: ...

class DecodeResponse(_message.Message):
    __slots__ = ("opened", "verdict", "finished")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    opened: Opened
    verdict: Verdict
    finished: _common_pb2.Finished
    def __init__(self, opened: _Optional[_Union[Opened, _Mapping]] = ..., verdict: _Optional[_Union[Verdict, _Mapping]] = ..., finished: _Optional[_Union[_common_pb2.Finished, _Mapping]] = ...) -> None: ...

class Opened(_message.Message):
    __slots__ = ("prompt_tokens", "cached_tokens", "seed", "noise_version")
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    NOISE_VERSION_FIELD_NUMBER: _ClassVar[int]
    prompt_tokens: int
    cached_tokens: int
    seed: int
    noise_version: str
    def __init__(self, prompt_tokens: _Optional[int] = ..., cached_tokens: _Optional[int] = ..., seed: _Optional[int] = ..., noise_version: _Optional[str] = ...) -> None: ...

class Verdict(_message.Message):
    __slots__ = ("position", "drafted", "judged", "accepted", "tokens", "log_probabilities", "sources", "queue_us", "verify_us", "finish")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    DRAFTED_FIELD_NUMBER: _ClassVar[int]
    JUDGED_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    LOG_PROBABILITIES_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    QUEUE_US_FIELD_NUMBER: _ClassVar[int]
    VERIFY_US_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    position: int
    drafted: int
    judged: int
    accepted: int
    tokens: _containers.RepeatedScalarFieldContainer[int]
    log_probabilities: _containers.RepeatedScalarFieldContainer[float]
    sources: _containers.RepeatedScalarFieldContainer[str]
    queue_us: int
    verify_us: int
    finish: _common_pb2.FinishReason
    def __init__(self, position: _Optional[int] = ..., drafted: _Optional[int] = ..., judged: _Optional[int] = ..., accepted: _Optional[int] = ..., tokens: _Optional[_Iterable[int]] = ..., log_probabilities: _Optional[_Iterable[float]] = ..., sources: _Optional[_Iterable[str]] = ..., queue_us: _Optional[int] = ..., verify_us: _Optional[int] = ..., finish: _Optional[_Union[_common_pb2.FinishReason, str]] = ...) -> None: ...
