"""Credit quality per layer, N/A with the reason where the credit was not saved."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fa_core.analysis.groups import run_names
from fa_core.analysis.utility import deep_gamma
from fa_core.reporting.blocks import Block, Grid, Paragraph
from fa_core.reporting.numbers import MISSING, fixed

if TYPE_CHECKING:
    from fa_core.table import AuditTable


def credit_table(table: AuditTable) -> Iterator[Block]:
    """Γ, ρ and nudge of each run that saved its credit, per layer, with the deep mean named."""
    names = run_names(table)
    rows: list[tuple[str, ...]] = []
    deepest = 0
    for i in range(len(table)):
        credit = table.report(i).credit or {}
        series = {name: values for name, values in credit.items() if _per_layer(values)}
        deepest = max([deepest, *(len(values) for values in series.values())])
        for name, values in series.items():
            mean = deep_gamma({"gamma": values})
            cells = tuple(MISSING if v is None or math.isnan(v) else fixed(float(v), 4, sign=True) for v in values)
            rows.append((names[i], name, MISSING if math.isnan(mean) else fixed(mean, 4, sign=True), *cells))
    without = [names[i] for i in range(len(table)) if not table.report(i).credit]
    if rows:
        width = deepest + 3
        yield Grid(
            headings=("run", "metric", "mean over l ≥ 1", *(f"l = {l}" for l in range(deepest))),
            rows=tuple((*row, *([MISSING] * (width - len(row)))) for row in rows),
            caption="Credit quality per layer (mean over samples at each layer).",
            words=2,
        )
    if without:
        shown = ", ".join(without[:8]) + (f" and {len(without) - 8} more" if len(without) > 8 else "")
        yield Paragraph(f"Γ, ρ and nudge: N/A for {shown}: {_reason(table)}")


def _per_layer(values: Any) -> bool:
    return (
        isinstance(values, list) and len(values) > 1 and all(v is None or isinstance(v, (int, float)) for v in values)
    )


def _reason(table: AuditTable) -> str:
    reasons = {
        str(reason) for i in range(len(table)) if isinstance(reason := _unmeasured(table.report(i).unmeasured), str)
    }
    return "; ".join(sorted(reasons)) or "the credit signal (feedback matrices or bridge nets) is not with the numbers."


def _unmeasured(reasons: Mapping[str, str]) -> str | None:
    return reasons.get("credit")
