"""Where a drafter's drafts are made: beside the editor, which sees its buffers, or at the target, without round trips.

What a token costs at a side is (device + overhead) / tokens a step. The overhead is what a step takes beside the
device's time: beside the editor the round trip and the drafting, at the target its own drafting. The device's time is
that of the side in use, for both, since load comes and goes. Until the target's side was used it is taken to draft as
well as this one, and at no cost, so that it is tried where it may pay. It takes a margin to move, and nothing moves
before the editor's side was measured.
Knows nothing of requests, sockets or clocks.
"""

from __future__ import annotations

from dataclasses import dataclass

from decoding.actions import Mode
from decoding.errors import InvalidSetting
from decoding.rules import PlacementRules
from decoding.tally import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Steps of one request while it drafted, its first left out; what they emitted, and microseconds that they took.

    device_us: queue and step, as the target says. overhead_us: drafting here, and all waiting beyond device_us.
    """

    steps: int = 0
    tokens: int = 0
    device_us: int = 0
    overhead_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Drafting went from one side to the other; microseconds a token at either, as they were compared."""

    before: Mode
    after: Mode
    edge_us_per_token: float
    server_us_per_token: float


class Placement:
    """Of one (language, drafter) at one target. Requests overlap: `choose` and `record` may come in any order."""

    def __init__(self, rules: PlacementRules) -> None:
        self.side = Mode.EDGE
        self._rules = rules
        self._sides = {Mode.EDGE: _Side(rules), Mode.SERVER: _Side(rules)}
        self._since_edge = 0

    def choose(self) -> Mode:
        """Where the next request drafts."""
        if self.side is Mode.SERVER:
            if self._since_edge >= self._rules.recheck_every:
                self._since_edge = 0
                return Mode.EDGE
            self._since_edge += 1
        return self.side

    def record(self, mode: Mode, pace: Pace) -> Move | None:
        """Take in how a request went at a side, EDGE or SERVER; the move that it caused."""
        if mode not in self._sides:
            raise InvalidSetting("placement.mode", f"must be edge or server, got {mode.value}")
        if pace.steps:
            self._sides[mode].add(pace)
        edge, server = self.edge_us_per_token, self.server_us_per_token
        if edge is None or server is None:
            return None
        here, there = (edge, server) if self.side is Mode.EDGE else (server, edge)
        if here <= there * self._rules.margin:
            return None
        before = self.side
        self.side = Mode.SERVER if before is Mode.EDGE else Mode.EDGE
        self._since_edge = 0
        return Move(before=before, after=self.side, edge_us_per_token=edge, server_us_per_token=server)

    @property
    def edge_us_per_token(self) -> float | None:
        """None until enough was measured beside the editor."""
        edge = self._sides[Mode.EDGE]
        if not edge.known:
            return None
        return (self._device_us() + edge.overhead_us) / edge.tokens_per_step

    @property
    def server_us_per_token(self) -> float | None:
        """By what was measured at the target; before that, by what drafting beside the editor does without the trip.

        None as `edge_us_per_token` is.
        """
        edge, server = self._sides[Mode.EDGE], self._sides[Mode.SERVER]
        if not edge.known:
            return None
        if not server.known:
            return self._device_us() / edge.tokens_per_step
        return (self._device_us() + server.overhead_us) / server.tokens_per_step

    def _device_us(self) -> float:
        used = self._sides[self.side]
        return used.device_us if used.known else self._sides[Mode.EDGE].device_us


class _Side:
    """What drafting at one side came to."""

    def __init__(self, rules: PlacementRules) -> None:
        self._evidence = rules.evidence_steps
        self._tokens = Tally(rules.window_requests)
        self._device = Tally(rules.window_requests)
        self._overhead = Tally(rules.window_requests)

    def add(self, pace: Pace) -> None:
        self._tokens.add(pace.tokens, pace.steps)
        self._device.add(pace.device_us, pace.steps)
        self._overhead.add(pace.overhead_us, pace.steps)

    @property
    def known(self) -> bool:
        return self._tokens.whole >= self._evidence and self._tokens.part > 0

    @property
    def tokens_per_step(self) -> float:
        return self._tokens.part / self._tokens.whole

    @property
    def device_us(self) -> float:
        return self._latest(self._device)

    @property
    def overhead_us(self) -> float:
        return self._latest(self._overhead)

    def _latest(self, tally: Tally) -> float:
        part, whole = tally.latest(self._evidence) or (tally.part, tally.whole)
        return part / whole
