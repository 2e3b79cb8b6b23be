"""Core values ↔ generated messages. Only `slipstream` touches generated code; everybody else comes through here.

`x_message` makes a message of a value, `x_value` a value of a message. What a client sent wrong fails as
InvalidSetting with the proto field's name; what a target answered wrong, as ContractViolation. Knows nothing of
connections; errors ↔ statuses are in `slipstream.statuses`.
"""

from __future__ import annotations

from decoding.drafting import Draft
from decoding.errors import ContractViolation, InvalidSetting
from decoding.stopping import MAX_OUTPUT_TOKENS
from decoding.verdict import DecodeRequest, Finished, Opened, Verdict
from slipstream.common_messages import (
    finished_message,
    finished_value,
    reason_message,
    reason_value,
    sampling_message,
    sampling_value,
    stop_message,
    stop_value,
)
from slipstream.completion_messages import (
    completion_answer_message,
    completion_answer_value,
    completion_request_message,
    completion_request_value,
)
from slipstream.description_messages import describe_request, description_message, description_value
from slipstream.fields import check, check_label, check_request_id, encoding, inside, require
from slipstream.gate_messages import gate_message, gate_value
from slipstream.opening import OpenMessage, RunMessage
from slipstream.tokenizer_files import FileAssembly, tokenizer_chunks, tokenizer_request
from slipstream.v1 import target_pb2 as target

__all__ = [
    "FileAssembly",
    "answer_message",
    "answer_value",
    "completion_answer_message",
    "completion_answer_value",
    "completion_request_message",
    "completion_request_value",
    "describe_request",
    "description_message",
    "description_value",
    "request_message",
    "request_value",
    "tokenizer_chunks",
    "tokenizer_request",
]

_SAMPLING_FINGERPRINT_CHARACTERS = 16


def request_message(value: OpenMessage | Draft | RunMessage) -> target.DecodeRequest:
    """A client's message on the Decode stream. A draft's confidences and sources stay at home."""
    match value:
        case OpenMessage():
            return target.DecodeRequest(open=_open_message(value))
        case Draft():
            with encoding("draft"):
                return target.DecodeRequest(
                    draft=target.DraftMessage(
                        position=value.position, tokens=value.tokens, sampling_fingerprint=value.sampling_fingerprint
                    )
                )
        case RunMessage():
            with encoding("run"):
                return target.DecodeRequest(run=target.Run(limit=value.limit, drafter=value.drafter))


def request_value(message: target.DecodeRequest) -> OpenMessage | Draft | RunMessage:
    """Raises InvalidSetting, with the field's name from the message's root: "open.sampling.temperature"."""
    match message.WhichOneof("message"):
        case "open":
            with inside("open"):
                return _open_value(message.open)
        case "draft":
            draft = message.draft
            check(
                len(draft.sampling_fingerprint) <= _SAMPLING_FINGERPRINT_CHARACTERS,
                "draft.sampling_fingerprint",
                "must be 16 hex digits, or empty",
            )
            return Draft(
                position=draft.position, tokens=tuple(draft.tokens), sampling_fingerprint=draft.sampling_fingerprint
            )
        case "run":
            run = message.run
            check(
                1 <= run.limit <= MAX_OUTPUT_TOKENS,
                "run.limit",
                f"must be from 1 to {MAX_OUTPUT_TOKENS}, got {run.limit}",
            )
            check_label(run.drafter, "run.drafter")
            return RunMessage(limit=run.limit, drafter=run.drafter)
        case _:
            raise InvalidSetting("message", "must hold open, draft or run")


def answer_message(value: Opened | Verdict | Finished) -> target.DecodeResponse:
    """A target's message on the Decode stream."""
    match value:
        case Opened():
            return target.DecodeResponse(
                opened=target.Opened(
                    prompt_tokens=value.prompt_tokens,
                    cached_tokens=value.cached_tokens,
                    seed=value.seed,
                    noise_version=value.noise_version,
                )
            )
        case Verdict():
            return target.DecodeResponse(
                verdict=target.Verdict(
                    position=value.position,
                    drafted=value.drafted,
                    judged=value.judged,
                    accepted=value.accepted,
                    tokens=value.tokens,
                    log_probabilities=value.log_probabilities,
                    sources=value.sources,
                    queue_us=value.queue_us,
                    verify_us=value.verify_us,
                    finish=reason_message(value.finish),
                )
            )
        case Finished():
            return target.DecodeResponse(finished=finished_message(value))


def answer_value(message: target.DecodeResponse) -> Opened | Verdict | Finished:
    """Raises ContractViolation."""
    match message.WhichOneof("message"):
        case "opened":
            opened = message.opened
            require(opened.cached_tokens <= opened.prompt_tokens, "opened: more tokens cached than the prompt has")
            return Opened(
                prompt_tokens=opened.prompt_tokens,
                cached_tokens=opened.cached_tokens,
                seed=opened.seed,
                noise_version=opened.noise_version,
            )
        case "verdict":
            return _verdict_value(message.verdict)
        case "finished":
            return finished_value(message.finished)
        case _:
            raise ContractViolation("the target's answer holds none of opened, verdict and finished")


def _open_message(value: OpenMessage) -> target.Open:
    request = value.request
    check_request_id(request.request_id, "open.request_id")
    with inside("open"):
        sampling = sampling_message(request.sampling, seed_given=value.seed_given)
        stop = stop_message(request.stop)
        gate = None if value.gate is None else gate_message(value.gate)
    with encoding("open"):
        return target.Open(
            prompt=request.prompt,
            sampling=sampling,
            stop=stop,
            language=request.language,
            drafter=request.drafter,
            tokenizer_fingerprint=request.tokenizer_fingerprint,
            request_id=request.request_id,
            gate=gate,
        )


def _open_value(message: target.Open) -> OpenMessage:
    check(len(message.prompt) > 0, "prompt", "needs at least one token id")
    check_label(message.language, "language")
    check_label(message.drafter, "drafter")
    check_label(message.tokenizer_fingerprint, "tokenizer_fingerprint")
    check_request_id(message.request_id, "request_id")
    sampling, seed_given = sampling_value(message.sampling)
    request = DecodeRequest(
        prompt=tuple(message.prompt),
        sampling=sampling,
        stop=stop_value(message.stop),
        language=message.language,
        drafter=message.drafter,
        tokenizer_fingerprint=message.tokenizer_fingerprint,
        request_id=message.request_id,
    )
    gate = gate_value(message.gate) if message.HasField("gate") else None
    return OpenMessage(request=request, seed_given=seed_given, gate=gate)


def _verdict_value(message: target.Verdict) -> Verdict:
    emitted = len(message.tokens)
    require(len(message.log_probabilities) == emitted, "verdict: not one log-probability a token")
    require(len(message.sources) in (0, emitted), "verdict: not one source a token")
    require(
        message.accepted <= message.judged <= min(message.drafted, message.accepted + 1),
        "verdict: accepted, judged and drafted tokens don't fit together",
    )
    return Verdict(
        position=message.position,
        drafted=message.drafted,
        judged=message.judged,
        accepted=message.accepted,
        tokens=tuple(message.tokens),
        log_probabilities=tuple(message.log_probabilities),
        sources=tuple(message.sources),
        queue_us=message.queue_us,
        verify_us=message.verify_us,
        finish=reason_value(message.finish),
    )
