"""The target's description ↔ messages. Imported through `slipstream.wire`."""

from __future__ import annotations

from decoding.prompt import FimTemplate
from slipstream.description import Limits, TargetDescription
from slipstream.fields import require
from slipstream.tokenizer_files import is_fingerprint
from slipstream.v1 import target_pb2 as target


def describe_request() -> target.DescribeRequest:
    return target.DescribeRequest()


def description_message(value: TargetDescription) -> target.DescribeResponse:
    fim, limits = value.fim, value.limits
    return target.DescribeResponse(
        model_id=value.model_id,
        model_revision=value.model_revision,
        tokenizer_fingerprint=value.tokenizer_fingerprint,
        vocabulary_size=value.vocabulary_size,
        end_of_text_ids=value.end_of_text_ids,
        fim=None
        if fim is None
        else target.FimTemplate(
            prefix_id=fim.prefix_id,
            suffix_id=fim.suffix_id,
            middle_id=fim.middle_id,
            suffix_first=fim.suffix_first,
        ),
        context_length=value.context_length,
        dtype=value.dtype,
        device=value.device,
        noise_version=value.noise_version,
        limits=target.Limits(
            sessions=limits.sessions,
            queued_requests=limits.queued_requests,
            prompt_tokens=limits.prompt_tokens,
            block_rows=limits.block_rows,
            message_bytes=limits.message_bytes,
        ),
        drafters=[target.DrafterInfo(language=language, name=name) for language, name in value.drafters],
        server_version=value.server_version,
    )


def description_value(message: target.DescribeResponse) -> TargetDescription:
    """Raises ContractViolation. The fingerprint names a folder of the client's cache, so its form is held to."""
    require(is_fingerprint(message.tokenizer_fingerprint), "description: tokenizer_fingerprint is not 64 hex digits")
    require(len(message.end_of_text_ids) > 0, "description: it names no end-of-text id")
    require(message.limits.block_rows > 0, "description: its blocks have no rows")
    return TargetDescription(
        model_id=message.model_id,
        model_revision=message.model_revision,
        tokenizer_fingerprint=message.tokenizer_fingerprint,
        vocabulary_size=message.vocabulary_size,
        end_of_text_ids=tuple(message.end_of_text_ids),
        fim=_fim_value(message.fim) if message.HasField("fim") else None,
        context_length=message.context_length,
        dtype=message.dtype,
        device=message.device,
        noise_version=message.noise_version,
        limits=Limits(
            sessions=message.limits.sessions,
            queued_requests=message.limits.queued_requests,
            prompt_tokens=message.limits.prompt_tokens,
            block_rows=message.limits.block_rows,
            message_bytes=message.limits.message_bytes,
        ),
        drafters=tuple((drafter.language, drafter.name) for drafter in message.drafters),
        server_version=message.server_version,
    )


def _fim_value(message: target.FimTemplate) -> FimTemplate:
    return FimTemplate(
        prefix_id=message.prefix_id,
        suffix_id=message.suffix_id,
        middle_id=message.middle_id,
        suffix_first=message.suffix_first,
    )
