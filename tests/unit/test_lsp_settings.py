"""The editor side's settings: limits, and an editor's options that fall back one by one."""

from __future__ import annotations

import dataclasses

import pytest

from decoding.errors import InvalidSetting
from lsp_server.settings import LspSettings, overridden


def test_the_defaults_are_greedy_and_local() -> None:
    settings = LspSettings()
    assert settings.target == "127.0.0.1:50151"
    assert settings.sampling.greedy
    assert settings.stop.max_tokens == 64


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("target", "nowhere"),
        ("target", "host:"),
        ("target", "host:70000"),
        ("target", ":50151"),
        ("placement", "moon"),
        ("host", ""),
        ("prompt_tokens", 0),
        ("max_tokens", 0),
        ("max_tokens", 10_000),
        ("max_lines", -1),
        ("temperature", -0.5),
        ("temperature", float("nan")),
        ("seed", -1),
        ("deadline_ms", 0),
        ("port", 65_536),
        ("max_document_bytes", 0),
    ],
)
def test_a_wrong_value_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InvalidSetting) as caught:
        LspSettings(**{field: value})  # type: ignore[arg-type]
    assert caught.value.field == f"lsp.{field}"


def test_an_editors_wrong_options_fall_back_one_by_one() -> None:
    base = LspSettings(max_lines=3)
    options = {
        "slipstream": {
            "max_tokens": 32,
            "temperature": -1,
            "deadline_ms": "soon",
            "drafting": 1,
            "max_lines": True,
            "stream": True,
            "surprise": 1,
            "port": 80,
            "placement": "server",
        },
        "another": {"max_tokens": 1},
    }
    settings, problems = overridden(base, options)
    assert settings == dataclasses.replace(base, max_tokens=32, stream=True, placement="server")
    assert {problem.field for problem in problems} == {
        "lsp.temperature",
        "lsp.deadline_ms",
        "lsp.drafting",
        "lsp.max_lines",
        "lsp.surprise",
        "lsp.port",
    }


@pytest.mark.parametrize("options", [None, {}, [], "text", {"slipstream": None}, {"other": {"max_tokens": 1}}])
def test_options_that_are_not_ours_change_nothing(options: object) -> None:
    assert overridden(LspSettings(), options) == (LspSettings(), ())


def test_a_section_that_is_no_object_is_one_problem() -> None:
    settings, problems = overridden(LspSettings(), {"slipstream": [1]})
    assert settings == LspSettings()
    assert [problem.field for problem in problems] == ["slipstream"]


def test_a_whole_number_does_for_a_float() -> None:
    settings, problems = overridden(LspSettings(), {"slipstream": {"temperature": 1}})
    assert (settings.temperature, problems) == (1.0, ())
