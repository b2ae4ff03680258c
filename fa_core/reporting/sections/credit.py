"""Credit quality per layer, and what was measured beside the diagnostics."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import zip_longest

from fa_core.formats.table import AuditTable
from fa_core.report.diagnostic_record import records_of
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.gamma import deep_gamma, deep_layers, null_gamma, null_of, per_layer
from fa_core.report.numbers import MISSING, brief, fixed
from fa_core.report.report_facts import DiagnosticThresholds
from fa_core.reporting.blocks import Block, Grid, Paragraph
from fa_core.reporting.sections.runs import shown_runs


def beside_table(table: AuditTable, thresholds: DiagnosticThresholds) -> Iterator[Block]:
    """What was measured beside the diagnostics that fire or are undecided.

    Source: docs/protocol.md §8.
    """
    records = []
    for name, report in shown_runs(table, thresholds):
        for record in records_of(report):
            texts = [*record.remarks, *record.beside]
            if texts and record.letter in report.flags | report.undecided:
                run = f"{name} ({record.letter})"
                beside = "; ".join(texts)
                records.append({"run": run, "state": record.state, "measured beside it": beside})
    if records:
        caption = (
            "What was measured beside the diagnostics that fire or are undecided "
            "(docs/protocol.md §8). It changes no verdict."
        )
        yield Grid.of(records, caption, words=3)


_SYMBOLS = {
    "gamma": "Γ",
    "rho": "ρ, ε = 1e-3",
    "nudge": "nudge, η = 0.01",
}
"""Name in the file → name in the table."""

_CAPTION = (
    "Credit quality per layer (mean over samples at each layer). The deep mean is over the listed "
    "layers: l ≥ 1 with credit, without l = L where the credit there comes free (the head's true "
    "weights in BP, FA and State Bridge; matching to the gradient in Credit Bridge); it is "
    "undefined where a layer's credit is lost. Samples shuffled: the same credit, each vector "
    "compared with a gradient of the batch in a random order, as mean ± std over draws. Fresh: "
    "with freshly drawn feedback, as mean ± std over draws; a layer that drawn feedback does not "
    "reach keeps its own Γ there. nudge: change of the loss when h_l moves by η against the "
    "credit, in nats; negative is good. ρ at ε = 1e-3 estimates the cosine that Γ is, and adds no "
    "evidence to it."
)


def credit_table(table: AuditTable) -> Iterator[Block]:
    """Γ with its null, ρ and nudge per layer with their deep means, per run with saved credit."""
    rows = []
    for name, report in shown_runs(table):
        for metric, symbol in _SYMBOLS.items():
            values = per_layer(report.credit, metric)
            if len(values) > 1 and any(value is not None for value in values):
                layers = [_shown(metric, value) for value in values]
                rows.append((name, symbol, _deep_mean(report, metric), *layers))
        rows += _null_row(name, report)
    if rows:
        columns = list(zip_longest(*rows, fillvalue=MISSING))
        layers = [f"l = {l}" for l in range(len(columns) - 3)]
        headings = ("run", "metric", "deep mean", *layers)
        yield Grid(headings, tuple(zip(*columns, strict=True)), _CAPTION, words=2)
    else:
        yield Paragraph("Credit: not measured on any run.")


def _null_row(name: str, report: DiagnosticReport) -> Iterator[tuple[str, ...]]:
    """Γ with fresh feedback, if it was measured."""
    mean, std = null_gamma(report.credit, report.method_name)
    if math.isnan(mean):
        return
    null = (report.credit or {})["null"]
    fresh = fixed(mean, 4, "+")
    if not math.isnan(std):
        fresh += f" ± {fixed(std, 4)}"
    layers = [_shown("gamma", value) for value in per_layer(null)]
    yield (
        name,
        f"Γ, {null_of(report.credit) or 'fresh'} ({null.get('draws')} draws)",
        fresh,
        *layers,
    )


def _deep_mean(report: DiagnosticReport, metric: str) -> str:
    """The deep mean of a metric, and its layers."""
    deep = _shown(metric, deep_gamma(report.credit, report.method_name, metric))
    layers = deep_layers(report.credit, report.method_name)
    if deep == MISSING or metric != "gamma":
        return deep
    return f"{deep} (l = {','.join(map(str, layers))})"


def _shown(metric: str, value: float | None) -> str:
    if value is None or math.isnan(value):
        return MISSING
    # the loss changes by 1e-8 in a collapsed network, and its sign counts
    if metric.startswith("nudge"):
        return brief(value, 3)
    return fixed(float(value), 4, "+")
