"""The counting rule, bounded labels, and the page's figures from the same numbers."""

from __future__ import annotations

import json

import pytest
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from decoding.verdict import Finished, FinishReason, Opened, Statistics, Verdict
from target_server.account import Account
from target_server.board import board
from target_server.metrics import RECENT_TRANSITIONS, Metrics, Moved
from target_server.pages import build_pages


class Clock:
    """Seconds, as told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics() -> Metrics:
    made = Metrics(
        languages=("python", "rust"), states=("speculating", "fallen_back", "probing"), reasons=("low_rate",)
    )
    made.admit_drafters(("mix",))
    return made


def _account(metrics: Metrics, clock: Clock, *, language: str = "python", drafter: str = "mix") -> Account:
    account = Account(method="decode", metrics=metrics, clock=clock)
    account.request_id, account.language, account.drafter = "r-1", language, drafter
    return account


def _value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"slipstream_{name}", labels)


VERDICT = Verdict(
    position=5, drafted=4, judged=3, accepted=2, tokens=(1, 2, 3), log_probabilities=(0.0, 0.0, 0.0), queue_us=7
)
OPENED = Opened(prompt_tokens=5, cached_tokens=1, seed=0, noise_version="n")


def test_a_finished_request_is_counted_once_by_its_own_statistics(metrics: Metrics, clock: Clock) -> None:
    account = _account(metrics, clock)
    account.opened(OPENED)
    account.judged(VERDICT)
    statistics = Statistics(
        prompt_tokens=5, cached_tokens=1, drafted_tokens=4, judged_tokens=3, accepted_tokens=2, emitted_tokens=3,
        verify_steps=1,
    )  # fmt: skip
    account.finished(
        Finished(
            reason=FinishReason.STOP_STRING, statistics=statistics, queue_us=7, first_token_us=20_000, total_us=50_000
        )
    )
    account.settle("OK")
    account.settle("CANCELLED")  # the stream broke after its last answer: already counted
    account.closed()
    at = {"language": "python", "drafter": "mix"}
    for name in ("prompt", "cached", "drafted", "judged", "accepted", "emitted"):
        assert _value(metrics, f"{name}_tokens_total", **at) == getattr(statistics, f"{name}_tokens")
    assert _value(metrics, "verify_steps_total", **at) == 1
    assert _value(metrics, "requests_total", **at, reason="stop_string") == 1
    assert _value(metrics, "errors_total", **at, status="CANCELLED") is None
    assert _value(metrics, "time_to_first_token_seconds_sum", **at) == pytest.approx(0.02)
    assert _value(metrics, "time_per_token_seconds_sum", **at) == pytest.approx(0.015)
    assert _value(metrics, "request_seconds_sum", **at) == pytest.approx(0.05)
    assert _value(metrics, "open_sessions") == 0


def test_a_cancelled_request_is_counted_by_the_verdicts_it_had(metrics: Metrics, clock: Clock) -> None:
    account = _account(metrics, clock)
    account.opened(OPENED)
    clock.now += 0.25
    account.judged(VERDICT)
    account.judged(VERDICT)
    clock.now += 0.25
    assert _value(metrics, "open_sessions") == 1
    account.settle("CANCELLED")
    at = {"language": "python", "drafter": "mix"}
    assert _value(metrics, "judged_tokens_total", **at) == 6
    assert _value(metrics, "emitted_tokens_total", **at) == 6
    assert _value(metrics, "verify_steps_total", **at) == 2
    assert _value(metrics, "requests_total", **at, reason="error") == 1
    assert _value(metrics, "errors_total", **at, status="CANCELLED") == 1
    assert _value(metrics, "time_to_first_token_seconds_sum", **at) == pytest.approx(0.25)
    assert _value(metrics, "request_seconds_sum", **at) == pytest.approx(0.5)


def test_a_refused_request_counts_as_an_error_and_has_no_times(metrics: Metrics, clock: Clock) -> None:
    _account(metrics, clock, drafter="").settle("INVALID_ARGUMENT")
    at = {"language": "python", "drafter": "none"}
    assert _value(metrics, "errors_total", **at, status="INVALID_ARGUMENT") == 1
    assert _value(metrics, "request_seconds_count", **at) is None


def test_what_clients_invent_never_becomes_a_label_or_a_log_field(metrics: Metrics, clock: Clock) -> None:
    with capture_logs() as logs:
        for number in range(50):
            _account(metrics, clock, language=f"canary-{number}", drafter=f"canary-{number}").settle("OK")
    metrics.gate_moved(
        Moved(
            at=0.0, side="client", language="canary", drafter="canary", before="speculating", after="probing",
            reason="canary",
        )
    )  # fmt: skip
    metrics.gate_state("canary", "canary", side="client", state="canary")
    assert "canary" not in json.dumps(logs)
    assert "canary" not in json.dumps(board(metrics))
    assert not any("canary" in "".join(labels.values()) for _, labels, _ in metrics.samples())
    assert _value(metrics, "requests_total", language="other", drafter="other", reason="error") == 50


def test_only_an_error_that_is_not_ours_is_traced_and_without_its_message(metrics: Metrics, clock: Clock) -> None:
    with capture_logs() as logs:
        _account(metrics, clock).settle("RESOURCE_EXHAUSTED")
        try:
            raise RuntimeError("canary")
        except RuntimeError as error:
            _account(metrics, clock).settle("INTERNAL", error)
    assert [line["log_level"] for line in logs] == ["info", "error"]
    assert "trace" not in logs[0]
    assert logs[1]["trace"][0] == "RuntimeError"
    assert "canary" not in json.dumps(logs)


def test_a_gate_is_in_one_state_and_its_transitions_are_bounded(metrics: Metrics) -> None:
    metrics.gate_state("python", "mix", side="server", state="fallen_back")
    metrics.gate_state("python", "mix", side="server", state="probing")
    at = {"language": "python", "drafter": "mix", "side": "server"}
    states = {
        state: _value(metrics, "gate_state", **at, state=state) for state in ("speculating", "fallen_back", "probing")
    }
    assert states == {"speculating": 0, "fallen_back": 0, "probing": 1}
    for number in range(RECENT_TRANSITIONS + 5):
        metrics.gate_moved(
            Moved(
                at=float(number), side="server", language="python", drafter="mix", before="speculating",
                after="fallen_back", reason="low_rate",
            )
        )  # fmt: skip
    assert (
        _value(metrics, "gate_transitions_total", **at, to="fallen_back", reason="low_rate") == RECENT_TRANSITIONS + 5
    )
    remembered = metrics.transitions()
    assert len(remembered) == RECENT_TRANSITIONS
    assert remembered[0].at == RECENT_TRANSITIONS + 4


def test_the_page_shows_what_the_counters_hold(metrics: Metrics, clock: Clock) -> None:
    for _ in range(2):
        account = _account(metrics, clock)
        account.opened(OPENED)
        account.judged(VERDICT)
        account.settle("CANCELLED")
        account.closed()
    metrics.gate_state("python", "mix", side="client", state="speculating")
    state = ["loading"]
    client = TestClient(build_pages(metrics, state=lambda: state[0]))
    assert client.get("/healthz").status_code == 503
    state[0] = "serving"
    assert client.get("/healthz").text == "serving\n"
    seen = client.get("/languages.json").json()
    (row,) = seen["languages"]
    assert (row["language"], row["drafter"], row["requests"], row["errors"]) == ("python", "mix", 2, 2)
    assert (row["accepted_tokens"], row["judged_tokens"], row["acceptance"]) == (4, 6, pytest.approx(2 / 3))
    assert row["tokens_per_step"] == 3
    assert row["gates"] == {"client": "speculating"}
    assert 'slipstream_judged_tokens_total{drafter="mix",language="python"} 6.0' in client.get("/metrics").text
    page = client.get("/")
    assert page.status_code == 200
    assert "http://" not in page.text  # nothing from elsewhere: it works offline
    assert "https://" not in page.text
