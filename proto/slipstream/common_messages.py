"""common.proto ↔ core values: what both services share. Imported through `slipstream.wire`."""

from __future__ import annotations

from decoding.errors import ContractViolation
from decoding.sampling import SamplingConfig
from decoding.stopping import StopRules
from decoding.verdict import Finished, FinishReason, Statistics
from slipstream.fields import encoding, require
from slipstream.v1 import common_pb2 as common

_DEFAULT_MAX_TOKENS = 64

_REASONS = {
    FinishReason.END_OF_TEXT: common.FINISH_REASON_END_OF_TEXT,
    FinishReason.STOP_TOKEN: common.FINISH_REASON_STOP_TOKEN,
    FinishReason.STOP_STRING: common.FINISH_REASON_STOP_STRING,
    FinishReason.LINE_LIMIT: common.FINISH_REASON_LINE_LIMIT,
    FinishReason.TOKEN_LIMIT: common.FINISH_REASON_TOKEN_LIMIT,
    FinishReason.CONTEXT_FULL: common.FINISH_REASON_CONTEXT_FULL,
    FinishReason.CLOSED: common.FINISH_REASON_CLOSED,
}
_REASON_VALUES = {message: reason for reason, message in _REASONS.items()}


def sampling_message(config: SamplingConfig, *, seed_given: bool) -> common.SamplingConfig:
    """`seed_given` False leaves the seed to the target."""
    with encoding("sampling"):
        return common.SamplingConfig(
            temperature=config.temperature,
            top_k=config.top_k,
            top_p=config.top_p,
            min_p=config.min_p,
            repetition_penalty=config.repetition_penalty,
            logit_bias=[common.LogitBias(token=token, bias=bias) for token, bias in config.logit_bias],
            banned=config.banned,
            seed=config.seed if seed_given else None,
        )


def sampling_value(message: common.SamplingConfig) -> tuple[SamplingConfig, bool]:
    """The config, and whether the client gave a seed; without one the config's is 0. Raises InvalidSetting."""
    config = SamplingConfig(
        temperature=message.temperature,
        top_k=message.top_k,
        top_p=message.top_p if message.HasField("top_p") else 1.0,
        min_p=message.min_p,
        repetition_penalty=message.repetition_penalty if message.HasField("repetition_penalty") else 1.0,
        logit_bias=tuple((entry.token, entry.bias) for entry in message.logit_bias),
        banned=tuple(message.banned),
        seed=message.seed,
    )
    return config, message.HasField("seed")


def stop_message(rules: StopRules) -> common.StopRules:
    with encoding("stop"):
        return common.StopRules(
            max_tokens=rules.max_tokens, max_lines=rules.max_lines, token_ids=rules.token_ids, strings=rules.strings
        )


def stop_value(message: common.StopRules) -> StopRules:
    """Raises InvalidSetting."""
    return StopRules(
        max_tokens=message.max_tokens or _DEFAULT_MAX_TOKENS,
        max_lines=message.max_lines,
        token_ids=tuple(message.token_ids),
        strings=tuple(message.strings),
    )


def reason_message(reason: FinishReason | None) -> common.FinishReason:
    return common.FINISH_REASON_UNSPECIFIED if reason is None else _REASONS[reason]


def reason_value(message: common.FinishReason) -> FinishReason | None:
    """None where it is unset; a reason of a newer contract than ours is a ContractViolation."""
    if message == common.FINISH_REASON_UNSPECIFIED:
        return None
    require(message in _REASON_VALUES, f"finish reason {message} is unknown")
    return _REASON_VALUES[message]


def finished_message(finished: Finished) -> common.Finished:
    statistics = finished.statistics
    return common.Finished(
        reason=reason_message(finished.reason),
        prompt_tokens=statistics.prompt_tokens,
        cached_tokens=statistics.cached_tokens,
        drafted_tokens=statistics.drafted_tokens,
        judged_tokens=statistics.judged_tokens,
        accepted_tokens=statistics.accepted_tokens,
        emitted_tokens=statistics.emitted_tokens,
        verify_steps=statistics.verify_steps,
        queue_us=finished.queue_us,
        first_token_us=finished.first_token_us,
        total_us=finished.total_us,
    )


def finished_value(message: common.Finished) -> Finished:
    """Raises ContractViolation where the counts can't be true."""
    reason = reason_value(message.reason)
    if reason is None:
        raise ContractViolation("finished: it gives no reason")
    require(message.cached_tokens <= message.prompt_tokens, "finished: more tokens cached than the prompt has")
    require(
        message.accepted_tokens <= message.judged_tokens <= message.drafted_tokens,
        "finished: accepted, judged and drafted tokens are not in order",
    )
    return Finished(
        reason=reason,
        statistics=Statistics(
            prompt_tokens=message.prompt_tokens,
            cached_tokens=message.cached_tokens,
            drafted_tokens=message.drafted_tokens,
            judged_tokens=message.judged_tokens,
            accepted_tokens=message.accepted_tokens,
            emitted_tokens=message.emitted_tokens,
            verify_steps=message.verify_steps,
        ),
        queue_us=message.queue_us,
        first_token_us=message.first_token_us,
        total_us=message.total_us,
    )
