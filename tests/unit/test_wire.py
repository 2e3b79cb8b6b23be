"""The wire's edges: what is unset, what is wrong, and whose fault it is said to be."""

from __future__ import annotations

from typing import Any

import pytest

from decoding.errors import ContractViolation, InvalidSetting
from decoding.gate import GateState
from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules
from decoding.verdict import DecodeRequest
from slipstream import services, wire
from slipstream.opening import MAX_TRANSITIONS, GateReport, GateTransition, OpenMessage, RunMessage
from slipstream.v1 import common_pb2, completion_pb2, target_pb2


def opened(**fields: Any) -> OpenMessage:
    value = wire.request_value(target_pb2.DecodeRequest(open=target_pb2.Open(**({"prompt": [1]} | fields))))
    assert isinstance(value, OpenMessage)
    return value


def test_an_open_message_with_nothing_but_a_prompt_takes_the_contracts_defaults() -> None:
    value = opened()
    assert value.request.sampling == SamplingConfig(temperature=0, top_p=1, repetition_penalty=1)
    assert value.request.stop == StopRules(max_tokens=64)
    assert not value.seed_given
    assert value.gate is None


def test_a_seed_of_zero_is_a_seed() -> None:
    assert opened(sampling={"seed": 0}).seed_given


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"prompt": []}, "open.prompt"),
        ({"sampling": {"temperature": -1}}, "open.sampling.temperature"),
        ({"sampling": {"temperature": float("nan")}}, "open.sampling.temperature"),
        ({"sampling": {"top_p": 0}}, "open.sampling.top_p"),
        ({"sampling": {"repetition_penalty": 0}}, "open.sampling.repetition_penalty"),
        ({"sampling": {"logit_bias": [{"token": 1}, {"token": 1}]}}, "open.sampling.logit_bias"),
        ({"stop": {"max_tokens": 5000}}, "open.stop.max_tokens"),
        ({"stop": {"strings": [""]}}, "open.stop.strings"),
        ({"request_id": "x" * 65}, "open.request_id"),
        ({"request_id": "é"}, "open.request_id"),
        ({"language": "a\nb"}, "open.language"),
        ({"drafter": "x" * 65}, "open.drafter"),
        ({"gate": {}}, "open.gate.state"),
        ({"gate": {"state": 99}}, "open.gate.state"),
        ({"gate": {"state": 1, "transitions": [{"to": 1}]}}, "open.gate.transitions.from"),
        ({"gate": {"state": 1, "transitions": [{"from": 1, "to": 1}] * 17}}, "open.gate.transitions"),
    ],
)
def test_a_wrong_field_of_an_open_message_is_named(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        opened(**fields)
    assert caught.value.field == named


@pytest.mark.parametrize(
    ("message", "named"),
    [
        (target_pb2.DecodeRequest(), "message"),
        (target_pb2.DecodeRequest(run=target_pb2.Run()), "run.limit"),
        (target_pb2.DecodeRequest(run=target_pb2.Run(limit=4097)), "run.limit"),
        (
            target_pb2.DecodeRequest(draft=target_pb2.DraftMessage(sampling_fingerprint="0" * 17)),
            "draft.sampling_fingerprint",
        ),
    ],
)
def test_a_wrong_message_of_a_client_is_named(message: Any, named: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        wire.request_value(message)
    assert caught.value.field == named


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"path": "x" * 4097}, "path"),
        ({"sampling": {"min_p": 1}}, "sampling.min_p"),
        ({"stop": {"max_tokens": 4097}}, "stop.max_tokens"),
        ({"language": "\x07"}, "language"),
    ],
)
def test_a_wrong_field_of_a_completion_is_named(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        wire.completion_request_value(completion_pb2.CompleteRequest(**fields))
    assert caught.value.field == named


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"opened": {"cached_tokens": 1}},
        {"verdict": {"tokens": [1]}},
        {"verdict": {"tokens": [1], "log_probabilities": [0], "sources": ["a", "b"]}},
        {"verdict": {"drafted": 1, "judged": 2}},
        {"verdict": {"drafted": 5, "judged": 3, "accepted": 1}},
        {"verdict": {"drafted": 1, "judged": 0, "accepted": 1}},
        {"verdict": {"finish": 99}},
        {"finished": {}},
        {"finished": {"reason": 1, "cached_tokens": 1}},
        {"finished": {"reason": 1, "accepted_tokens": 1}},
        {"finished": {"reason": 1, "judged_tokens": 1}},
    ],
)
def test_an_answer_that_can_not_be_true_is_the_targets_fault(answer: dict[str, Any]) -> None:
    with pytest.raises(ContractViolation):
        wire.answer_value(target_pb2.DecodeResponse(**answer))


@pytest.mark.parametrize("missing", ["tokenizer_fingerprint", "end_of_text_ids", "limits"])
def test_a_description_without_what_a_client_needs_is_the_targets_fault(missing: str) -> None:
    fields: dict[str, Any] = {
        "tokenizer_fingerprint": "0" * 64,
        "end_of_text_ids": [0],
        "limits": target_pb2.Limits(block_rows=8),
    }
    assert wire.description_value(target_pb2.DescribeResponse(**fields)).fim is None
    del fields[missing]
    with pytest.raises(ContractViolation):
        wire.description_value(target_pb2.DescribeResponse(**fields))


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (RunMessage(limit=-1), "run"),
        (
            OpenMessage(
                request=DecodeRequest(
                    prompt=(1,),
                    sampling=SamplingConfig(top_k=2**40),
                    stop=StopRules(),
                    language="",
                    drafter="",
                    tokenizer_fingerprint="",
                    request_id="",
                )
            ),
            "open.sampling",
        ),
    ],
)
def test_a_number_too_large_for_its_field_is_named(value: Any, named: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        wire.request_message(value)
    assert caught.value.field == named


def test_a_gate_report_too_long_is_refused_before_it_is_sent() -> None:
    change = GateTransition(before=GateState.PROBING, after=GateState.SPECULATING, reason="recovered")
    request = opened().request
    report = GateReport(state=GateState.SPECULATING, transitions=(change,) * (MAX_TRANSITIONS + 1))
    with pytest.raises(InvalidSetting) as caught:
        wire.request_message(OpenMessage(request=request, gate=report))
    assert caught.value.field == "open.gate.transitions"


def chunk(file: str = "a", data: bytes = b"x", last: bool = True) -> Any:
    return target_pb2.TokenizerChunk(file=file, data=data, last=last)


@pytest.mark.parametrize(
    "chunks",
    [
        [],
        [chunk(last=False)],
        [chunk(last=False), chunk("b")],
        [chunk(), chunk()],
        [chunk(str(number)) for number in range(17)],
    ],
)
def test_tokenizer_chunks_out_of_order_are_the_targets_fault(chunks: list[Any]) -> None:
    def assemble() -> None:
        assembly = wire.FileAssembly(1000)
        for each in chunks:
            assembly.push(each)
        assembly.files()

    with pytest.raises(ContractViolation):
        assemble()


def test_services_are_named_as_the_contract_names_them() -> None:
    assert services.SERVICE_NAMES == ("slipstream.v1.Target", "slipstream.v1.Completion")
    assert common_pb2.DESCRIPTOR.package == "slipstream.v1"
