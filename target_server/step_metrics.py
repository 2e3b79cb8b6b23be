"""What steps come to: a record of each, and the metrics that sum them up. Knows nothing of requests, or of torch."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram

STEP_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One step's size, and its times in microseconds.

    blocks, chunks: of how many sequences, and of prompts. rows: tokens run; total: with padding.
    wait_us: for sequences that were drafting, so that they go together. sample_us: judging drafts by the logits.
    """

    blocks: int
    chunks: int
    rows: int
    total: int
    wait_us: int
    schedule_us: int
    forward_us: int
    sample_us: int
    deliver_us: int

    @property
    def kind(self) -> str:
        if not self.chunks:
            return "decode"
        return "mixed" if self.blocks else "prefill"

    @property
    def busy_us(self) -> int:
        """All but the wait."""
        return self.schedule_us + self.forward_us + self.sample_us + self.deliver_us


class StepMetrics:
    """Instruments in a registry; may be told from any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "slipstream_step_seconds", "A step of the target, by what it held.", ("kind",), buckets=STEP_SECONDS,
            registry=registry,
        )  # fmt: skip
        self._rows = Counter(
            "slipstream_step_rows", "Rows of steps: of tokens, and of padding.", ("of",), registry=registry
        )
        self._blocks = Counter(
            "slipstream_step_blocks", "Blocks that steps decoded, of one sequence each.", registry=registry
        )

    def stepped(self, record: StepRecord) -> None:
        """Count a step."""
        self._seconds.labels(record.kind).observe(record.busy_us / 1e6)
        self._rows.labels("tokens").inc(record.rows)
        self._rows.labels("padding").inc(record.total - record.rows)
        self._blocks.inc(record.blocks)
