"""What single checks of the doctor find in a set-up that is broken."""

from __future__ import annotations

import sys

import pytest

from cli.checks import processor


def test_a_torch_that_cannot_be_loaded_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    finding = processor()
    assert (finding.state, finding.remedy) == ("fail", "run `make setup` again")
    assert finding.detail == "torch can't be loaded (ModuleNotFoundError)"
