"""The target's settings: every limit refuses what is out of its range, by name."""

from __future__ import annotations

from typing import Any

import pytest

from decoding.errors import InvalidSetting
from target_server.settings import TargetSettings


def test_defaults_are_valid_and_loopback() -> None:
    settings = TargetSettings()
    assert settings.host == settings.http_host == "127.0.0.1"
    assert settings.prompt_tokens < settings.context_tokens


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", ""),
        ("dtype", "int4"),
        ("device", "tpu"),
        ("device", "cuda:x"),
        ("parity", "maybe"),
        ("port", 65_536),
        ("http_port", -1),
        ("threads", -1),
        ("sessions", 0),
        ("queued_requests", -1),
        ("queue_wait_ms", -1),
        ("context_tokens", 15),
        ("prompt_tokens", 2048),
        ("prompt_tokens", 0),
        ("message_bytes", 1000),
        ("request_timeout_s", 0.0),
        ("request_timeout_s", float("nan")),
        ("kv_cache_bytes", 0),
        ("drain_s", -1.0),
        ("block_rows", 1),
        ("block_rows", 65),
        ("prefill_rows", 7),
    ],
)
def test_out_of_range_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(InvalidSetting, match=rf"target\.{field}: must"):
        TargetSettings(**{field: value})
