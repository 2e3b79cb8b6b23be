"""completion.proto ↔ its values. Imported through `slipstream.wire`."""

from __future__ import annotations

from decoding.errors import ContractViolation
from decoding.verdict import Finished
from slipstream.common_messages import (
    finished_message,
    finished_value,
    sampling_message,
    sampling_value,
    stop_message,
    stop_value,
)
from slipstream.completion import CompletionDelta, CompletionRequest, CompletionStarted
from slipstream.fields import check, check_label, check_request_id, encoding, require
from slipstream.v1 import completion_pb2 as completion

MAX_PATH_CHARACTERS = 4096


def completion_request_message(value: CompletionRequest) -> completion.CompleteRequest:
    """Raises InvalidSetting, for text that holds half of a surrogate pair among others."""
    check_request_id(value.request_id, "request_id")
    with encoding("prefix"):
        message = completion.CompleteRequest(prefix=value.prefix)
    with encoding("suffix"):
        message.suffix = value.suffix
    with encoding("path"):
        message.path = value.path
    with encoding("language"):
        message.language = value.language
    message.sampling.CopyFrom(sampling_message(value.sampling, seed_given=value.seed_given))
    message.stop.CopyFrom(stop_message(value.stop))
    message.plain = value.plain
    message.request_id = value.request_id
    return message


def completion_request_value(message: completion.CompleteRequest) -> CompletionRequest:
    """Raises InvalidSetting, with the field's name from the message's root: "sampling.temperature"."""
    check_label(message.language, "language")
    check_request_id(message.request_id, "request_id")
    check(len(message.path) <= MAX_PATH_CHARACTERS, "path", f"must be at most {MAX_PATH_CHARACTERS} characters")
    sampling, seed_given = sampling_value(message.sampling)
    return CompletionRequest(
        prefix=message.prefix,
        suffix=message.suffix,
        language=message.language,
        path=message.path,
        sampling=sampling,
        seed_given=seed_given,
        stop=stop_value(message.stop),
        plain=message.plain,
        request_id=message.request_id,
    )


def completion_answer_message(value: CompletionStarted | CompletionDelta | Finished) -> completion.CompleteResponse:
    match value:
        case CompletionStarted():
            return completion.CompleteResponse(
                started=completion.CompletionStarted(
                    language=value.language,
                    drafter=value.drafter,
                    seed=value.seed,
                    noise_version=value.noise_version,
                    request_id=value.request_id,
                )
            )
        case CompletionDelta():
            return completion.CompleteResponse(
                delta=completion.CompletionDelta(text=value.text, tokens=value.tokens, sources=value.sources)
            )
        case Finished():
            return completion.CompleteResponse(finished=finished_message(value))


def completion_answer_value(message: completion.CompleteResponse) -> CompletionStarted | CompletionDelta | Finished:
    """Raises ContractViolation."""
    match message.WhichOneof("message"):
        case "started":
            started = message.started
            return CompletionStarted(
                language=started.language,
                drafter=started.drafter,
                seed=started.seed,
                noise_version=started.noise_version,
                request_id=started.request_id,
            )
        case "delta":
            delta = message.delta
            require(len(delta.sources) in (0, len(delta.tokens)), "delta: not one source a token")
            return CompletionDelta(text=delta.text, tokens=tuple(delta.tokens), sources=tuple(delta.sources))
        case "finished":
            return finished_value(message.finished)
        case _:
            raise ContractViolation("the target's answer holds none of started, delta and finished")
