"""What the accounts of a case's steps come to: milliseconds a step by part, and the share of matrix products."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

PARTS = ("draft_wait", "schedule", "forward", "sample", "deliver")
PRODUCTS = frozenset(
    {
        *("aten::addmm", "aten::mm", "aten::bmm", "aten::baddbmm", "aten::linear", "aten::_scaled_mm"),
        *("mkldnn::_linear_pointwise", "aten::mkldnn_linear", "mkl::_mkl_linear"),
        *("quantized::linear_dynamic_fp16", "quantized::linear_dynamic_fp16_unpacked_weight"),
    }
)
ATTENTION = "scaled_dot_product"  # in the names of all operations that attend
LARGEST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """kind: of the steps that count, as `StepRecord.kind`. drafting: whether blocks hold drafts."""

    name: str
    kind: str
    sessions: int
    drafting: bool


CASES = (
    Case(name="plain, 1 session", kind="decode", sessions=1, drafting=False),
    Case(name="speculative, 1 session", kind="decode", sessions=1, drafting=True),
    Case(name="speculative, 4 sessions", kind="decode", sessions=4, drafting=True),
    Case(name="prefill, 1 session", kind="prefill", sessions=1, drafting=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """Microseconds inside operations, their callees left out, over a whole run. others: the largest, by name."""

    products_us: float
    attention_us: float
    others_us: float
    others: dict[str, float]

    @classmethod
    def of(cls, operations: Iterable[tuple[str, int, float]]) -> Operations:
        """From names, counts and microseconds."""
        products = attention = 0.0
        others: dict[str, float] = {}
        for name, _, us in operations:
            if name in PRODUCTS:
                products += us
            elif ATTENTION in name:
                attention += us
            else:
                others[name] = others.get(name, 0.0) + us
        return cls(products_us=products, attention_us=attention, others_us=sum(others.values()), others=others)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One run's steps: microseconds by part, summed over `steps`. operations: of `all_steps`, None without profiler."""

    steps: int
    all_steps: int
    rows: int
    total_rows: int
    draft_wait_us: float
    schedule_us: float
    forward_us: float
    sample_us: float
    deliver_us: float
    operations: Operations | None

    def ms(self, part: str) -> float:
        """Milliseconds a step."""
        taken: float = getattr(self, f"{part}_us")
        return taken / self.steps / 1000


def summary(accounts: dict[Case, list[Account]]) -> dict[str, Any]:
    rows = [_row(case, runs) for case, runs in accounts.items()]
    return {"rows": rows, "share_not_products": {row["case"]: row["share_not_products"] for row in rows}}


def _row(case: Case, runs: Sequence[Account]) -> dict[str, Any]:
    timed = [run for run in runs if run.operations is None]
    profiled = [run for run in runs if run.operations is not None]
    parts = {part: median(run.ms(part) for run in timed) for part in PARTS}

    def inside(name: str) -> float:
        return median(getattr(run.operations, f"{name}_us") / run.all_steps / 1000 for run in profiled)

    whole = sum(parts.values())
    busy = whole - parts["draft_wait"]
    products, attention = inside("products"), inside("attention")
    forward = {"products": products, "attention": attention, "rest": max(0.0, parts["forward"] - products - attention)}
    return {
        "case": case.name,
        "steps": timed[0].steps,
        "rows_per_step": round(timed[0].rows / timed[0].steps, 2),
        "padded_rows_per_step": round(timed[0].total_rows / timed[0].steps, 2),
        "step_ms": round(whole, 3),
        "parts_ms": {name: round(ms, 3) for name, ms in parts.items()},
        "parts_share": {name: round(ms / whole, 4) for name, ms in parts.items()},
        "forward_ms": {name: round(ms, 3) for name, ms in forward.items()},
        "forward_share": {name: round(ms / parts["forward"], 4) for name, ms in forward.items()},
        "share_not_products": round(1 - products / busy, 4),
        "share_not_products_or_attention": round(1 - (products + attention) / busy, 4),
        "share_not_products_draft_wait_included": round(1 - products / whole, 4),
        "profiled_forward_ms": round(median(run.ms("forward") for run in profiled), 3),
        "other_operations_profiled_ms": _largest(profiled),
    }


def _largest(profiled: Sequence[Account]) -> dict[str, float]:
    """The largest other operations, milliseconds a step under the profiler, which overstates them."""
    run = profiled[0]
    if run.operations is None:
        raise ValueError("a run without profiler has no operations")
    ordered = sorted(run.operations.others.items(), key=lambda item: -item[1])[:LARGEST]
    return {name: round(us / run.all_steps / 1000, 3) for name, us in ordered}


def show(console: Console, found: dict[str, Any]) -> None:
    table = Table(title="A step's time, ms (share)")
    headings = ("case", "rows", "step", *(part.replace("_", " ") for part in PARTS))
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "case" else "right")
    for row in found["rows"]:
        rows = f"{row['rows_per_step']:.1f} in {row['padded_rows_per_step']:.1f}"
        cells = (f"{row['parts_ms'][part]:.2f} ({row['parts_share'][part]:.1%})" for part in PARTS)
        table.add_row(row["case"], rows, f"{row['step_ms']:.1f}", *cells)
    console.print(table)
    table = Table(title="Inside the forward pass, ms (share of it); and what of a busy step isn't products")
    for heading in ("case", "products", "attention", "rest", "not products", "nor attention"):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    for row in found["rows"]:
        inside, shares = row["forward_ms"], row["forward_share"]
        cells = (f"{inside[name]:.2f} ({shares[name]:.1%})" for name in inside)
        apart = (f"{row[name]:.1%}" for name in ("share_not_products", "share_not_products_or_attention"))
        table.add_row(row["case"], *cells, *apart)
    console.print(table)
