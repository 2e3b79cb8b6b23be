"""The numbers by which speculation is judged: over requests by the gate, inside one request by its session."""

from __future__ import annotations

from dataclasses import dataclass

from decoding.errors import InvalidSetting
from decoding.stopping import MAX_OUTPUT_TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRules:
    """When a drafter is fallen back from, and when it is tried again. A rate is accepted / judged tokens, pooled.

    window_requests: requests in the rolling window, 1 to 10000.
    threshold: window rate, 0 to 1, that a drafter must hold.
    consecutive: judged requests in a row that see the window under `threshold` before the gate falls back, 1 or more.
    threshold_evidence: judged tokens in the window before `threshold` counts, 1 or more.
    floor: rate, 0 to `threshold`, under which the gate falls back at once.
    floor_evidence: judged tokens; the floor is measured over the latest requests that together hold as many.
    slower_margin: how many times plain's time a token speculation may take, 1 or more.
    timing_evidence: tokens that must be timed on either side before times are compared, 1 or more.
    plain_every: speculated requests in a row without one plain round timed, after which a request is decoded plainly
        so that there is a time to compare with; 0 is off.
    probe_every: while fallen back, one request in so many is a probe, 1 or more.
    good_probes: good probes in a row that recover, 1 or more.
    """

    window_requests: int = 100
    threshold: float = 0.70
    consecutive: int = 5
    threshold_evidence: int = 50
    floor: float = 0.60
    floor_evidence: int = 200
    slower_margin: float = 1.05
    timing_evidence: int = 128
    plain_every: int = 50
    probe_every: int = 20
    good_probes: int = 3

    def __post_init__(self) -> None:
        if not 1 <= self.window_requests <= 10_000:
            raise InvalidSetting("gate.window_requests", f"must be from 1 to 10000, got {self.window_requests}")
        if not 0 <= self.threshold <= 1:
            raise InvalidSetting("gate.threshold", f"must be from 0 to 1, got {self.threshold}")
        if not 0 <= self.floor <= self.threshold:
            raise InvalidSetting("gate.floor", f"must be from 0 to threshold ({self.threshold}), got {self.floor}")
        if not 1 <= self.slower_margin < float("inf"):
            raise InvalidSetting("gate.slower_margin", f"must be 1 or more, got {self.slower_margin}")
        if self.plain_every < 0:
            raise InvalidSetting("gate.plain_every", f"must be 0 (off) or more, got {self.plain_every}")
        counts = (
            "consecutive",
            "threshold_evidence",
            "floor_evidence",
            "timing_evidence",
            "probe_every",
            "good_probes",
        )
        for field in counts:
            if getattr(self, field) < 1:
                raise InvalidSetting(f"gate.{field}", f"must be 1 or more, got {getattr(self, field)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRules:
    """When one request stops asking its drafter, for good or for a while.

    judged, rate: drafting ends for the request once of the latest `judged` judged tokens (1 to 4096; whole rounds) a
        smaller share than `rate` (0 to 1; 0 is off) was accepted.
    empty_drafts: empty drafts in a row, 0 (off) or more, after which the target runs alone for `pause_tokens` tokens
        (1 to 4096), which saves round trips; then drafting is tried again.
    server_run_tokens: tokens that a target may draft and decode by itself before the guard looks again, 1 to 4096.
    """

    judged: int = 12
    rate: float = 0.40
    empty_drafts: int = 3
    pause_tokens: int = 4
    server_run_tokens: int = 64

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise InvalidSetting("guard.rate", f"must be from 0 (off) to 1, got {self.rate}")
        if self.empty_drafts < 0:
            raise InvalidSetting("guard.empty_drafts", f"must be 0 (off) or more, got {self.empty_drafts}")
        for field in ("judged", "pause_tokens", "server_run_tokens"):
            if not 1 <= getattr(self, field) <= MAX_OUTPUT_TOKENS:
                raise InvalidSetting(
                    f"guard.{field}", f"must be from 1 to {MAX_OUTPUT_TOKENS}, got {getattr(self, field)}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthRules:
    """How long drafts are chosen to be, by expected tokens a millisecond.

    memory: observations of one kind, 16 to 65536, at which the older half of their weight is dropped.
    samples: latest durations of one kind whose median counts, 1 to 1024.
    recent_rounds: rounds, 1 to 65536, over which the rate that a token must earn is taken.
    run_tokens: tokens that the target runs alone, 1 to 4096, where no draft pays; then that is weighed again.
    step_us: microseconds that a step is taken to last until one is measured, 1 or more.
    """

    memory: int = 256
    samples: int = 32
    recent_rounds: int = 64
    run_tokens: int = 16
    step_us: int = 40_000

    def __post_init__(self) -> None:
        for field, low, high in (
            ("memory", 16, 65_536),
            ("samples", 1, 1024),
            ("recent_rounds", 1, 65_536),
            ("run_tokens", 1, MAX_OUTPUT_TOKENS),
            ("step_us", 1, 10**12),
        ):
            if not low <= getattr(self, field) <= high:
                raise InvalidSetting(f"length.{field}", f"must be from {low} to {high}, got {getattr(self, field)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRules:
    """When drafting moves between the editor's side and the target's.

    window_requests: requests of one side that its tokens a step are taken from, 1 to 10000.
    evidence_steps: steps, 1 to 10000, that a side must have made before it is compared; as many of the latest count
        for its times.
    margin: how many times cheaper a token must be at the other side before drafting moves there, 1 or more.
    recheck_every: requests drafted at the target, 1 or more, after which one drafts here, so that the round trip and
        this side's drafts are measured anew.
    """

    window_requests: int = 20
    evidence_steps: int = 16
    margin: float = 1.1
    recheck_every: int = 50

    def __post_init__(self) -> None:
        for field, low, high in (
            ("window_requests", 1, 10_000),
            ("evidence_steps", 1, 10_000),
            ("margin", 1, 1e6),
            ("recheck_every", 1, 10**9),
        ):
            if not low <= getattr(self, field) <= high:
                raise InvalidSetting(f"placement.{field}", f"must be from {low} to {high}, got {getattr(self, field)}")
