"""Credit quality per layer, N/A with the reason where the credit was not saved."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fa_core.analysis.groups import run_names
from fa_core.analysis.utility import deep_gamma
from fa_core.reporting.blocks import Block, Bullets, Grid, Paragraph
from fa_core.reporting.numbers import MISSING, fixed

if TYPE_CHECKING:
    from fa_core.table import AuditTable

NOT_SAVED = "the credit signal (feedback matrices or bridge nets) is not with the numbers"


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
    if rows:
        width = deepest + 3
        yield Grid(
            headings=("run", "metric", "mean over l ≥ 1", *(f"l = {l}" for l in range(deepest))),
            rows=tuple((*row, *([MISSING] * (width - len(row)))) for row in rows),
            caption="Credit quality per layer (mean over samples at each layer).",
            words=2,
        )
    notes = [note for i in range(len(table)) for note in _notes(names[i], table.report(i).credit or {})]
    if notes:
        yield Bullets(tuple(notes))
    reasons: dict[str, list[str]] = {}
    for i in range(len(table)):
        report = table.report(i)
        if not report.credit:
            reasons.setdefault(report.unmeasured.get("credit", NOT_SAVED), []).append(names[i])
    for reason, runs in reasons.items():
        shown = ", ".join(runs[:8]) + (f" and {len(runs) - 8} more" if len(runs) > 8 else "")
        yield Paragraph(f"Γ, ρ and nudge: N/A for {shown}: {reason}.")


def _per_layer(values: Any) -> bool:
    return (
        isinstance(values, list) and len(values) > 1 and all(v is None or isinstance(v, (int, float)) for v in values)
    )


def _notes(name: str, credit: Mapping[str, Any]) -> Iterator[str]:
    """What is missing and why, and the null with fresh feedback."""
    missing = credit.get("missing")
    if isinstance(missing, Mapping):
        yield from (f"{name}: {metric} is N/A: {reason}" for metric, reason in missing.items())
    null = credit.get("null")
    if isinstance(null, Mapping) and isinstance(null.get("deep_gamma_mean"), float):
        yield (
            f"{name}: with fresh feedback deep Γ is {fixed(null['deep_gamma_mean'], 4, sign=True)} ± "
            f"{fixed(null.get('deep_gamma_std'), 4)} over {null.get('draws')} draws"
        )
