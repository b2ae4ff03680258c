"""The figures of a paper's appendix: pure functions from a table or traces to one SVG text each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from fa_core.analysis.diagnostics import DIAGNOSTICS, judged
from fa_core.columns import Floats, Indices
from fa_core.report import DiagnosticThresholds
from fa_core.reporting import svg
from fa_core.reporting.numbers import brief
from fa_core.reporting.scale import Scale, fitted

if TYPE_CHECKING:
    from fa_core.table import AuditTable

POINTS_AT_MOST = 200
"""More runs of one method than this are drawn as this many order statistics, smallest and largest included."""

CURVES_AT_MOST = 80
"""More runs than this are drawn as each method's median and range per layer."""

_PANEL_W, _PANEL_H, _LEFT, _TOP, _STEP_X, _STEP_Y = 330.0, 205.0, 66.0, 34.0, 424.0, 282.0


Look = Mapping[str, tuple[str, str]]
"""Method → (colour, marker)."""


def styles(methods: Iterable[str], look: Look | None = None) -> dict[str, tuple[str, str]]:
    """Method → (colour, marker), in order of first appearance; as in ``look``, where that is given."""
    if look is not None:
        return {method: look[method] for method in dict.fromkeys(methods)}
    return {
        method: (svg.COLOURS[i % len(svg.COLOURS)], svg.MARKERS[(i + i // len(svg.COLOURS)) % len(svg.MARKERS)])
        for i, method in enumerate(dict.fromkeys(methods))
    }


def audit_figure(table: AuditTable, thresholds: DiagnosticThresholds | None = None, look: Look | None = None) -> str:
    """The four-panel audit figure: ‖h_l‖ and ‖g_l‖ over layers, drift cosine and margin per method.

    Thresholds are dashed, the side that fires is shaded; runs on which the panel's diagnostic fires
    have filled markers. What was not measured is not drawn, and said. ``look``: colours and markers that
    other figures share (see `styles`).
    """
    thresholds = thresholds or DiagnosticThresholds()
    look = styles(map(str, table.method), look)
    panels = [
        _layers(table, "a", look, (0, 0), thresholds),
        _layers(table, "b", look, (1, 0), thresholds),
        _strip(table, "c", look, (0, 1), thresholds),
        _strip(table, "d", look, (1, 1), thresholds),
    ]
    width = _STEP_X * 2 - 8
    names = [(method, *style) for method, style in look.items()]
    key, height = svg.legend(_LEFT, _STEP_Y * 2 + 8, names, width - 2 * _LEFT)
    shapes = [shape for panel in panels for shape in panel.shapes()]
    return svg.document(width, _STEP_Y * 2 + height, [*shapes, *key], "Four-diagnostic audit")


def _place(cell: tuple[int, int]) -> tuple[float, float]:
    return _LEFT + cell[0] * _STEP_X, _TOP + cell[1] * _STEP_Y


def _layers(
    table: AuditTable,
    letter: str,
    look: Look,
    cell: tuple[int, int],
    thresholds: DiagnosticThresholds,
) -> svg.Panel:
    name, symbol = ("residual_norms", "‖h‖") if letter == "a" else ("bp_grad_norms", "‖g‖")
    rows = [list(getattr(table.report(i), name)) for i in range(len(table))]
    deepest = max((len(row) - 1 for row in rows), default=0)
    left, top = _place(cell)
    limit = thresholds.g_norm_floor
    shown = [v for row in rows for v in row] + ([limit] if letter == "b" and any(rows) else [])
    x = Scale(-0.2, max(deepest, 1) + 0.2, left, left + _PANEL_W)
    title = {
        "a": f"(a) residual stream (fires: growth > {thresholds.h_norm_explosion_ratio:g}x per block)",
        "b": "(b) BP gradient (judged at the deepest layer)",
    }[letter]
    panel = svg.Panel(
        left,
        top,
        _PANEL_W,
        _PANEL_H,
        x,
        fitted(shown, top + _PANEL_H, top, log=True),
        title,
        "layer l",
        f"median {symbol}",
    )
    panel.x_ticks([(float(l), str(l)) for l in range(0, deepest + 1, max(1, math.ceil((deepest + 1) / 13)))])
    if not any(rows):
        panel.note(f"({letter}) not measured on any run")
        return panel
    if len(rows) > CURVES_AT_MOST:
        _summarised(panel, table, rows, look)
    else:
        for method, row in zip(table.method, rows, strict=True):
            colour, kind = look[str(method)]
            panel.curve(list(range(len(row))), row, colour, kind)
    if letter == "b":
        panel.limit(limit, f"floor {brief(limit)}", fires_above=False)
    return panel


def _summarised(panel: svg.Panel, table: AuditTable, rows: list[list[float]], look: Look) -> None:
    """Each method's median per layer as a line, and its smallest and largest as thin ones."""
    for method, (colour, kind) in look.items():
        mine = [row for row, name in zip(rows, table.method, strict=True) if str(name) == method and row]
        depth = max((len(row) for row in mine), default=0)
        columns = [[row[l] for row in mine if l < len(row) and math.isfinite(row[l])] for l in range(depth)]
        layers = [l for l, column in enumerate(columns) if column]
        for pick, mark, opacity in ((np.median, kind, 0.95), (np.min, "", 0.35), (np.max, "", 0.35)):
            panel.curve(layers, [float(pick(columns[l])) for l in layers], colour, mark, opacity)


def _strip(
    table: AuditTable,
    letter: str,
    look: Look,
    cell: tuple[int, int],
    thresholds: DiagnosticThresholds,
) -> svg.Panel:
    diagnostic = DIAGNOSTICS[letter]
    values, finite, always = judged(table, letter)
    limit = diagnostic.limit(thresholds)
    left, top = _place(cell)
    shown = [*values[finite].tolist(), *([limit] if finite.any() else [])]
    panel = svg.Panel(
        left,
        top,
        _PANEL_W,
        _PANEL_H,
        Scale(-0.6, max(len(look), 1) - 0.4, left, left + _PANEL_W),
        fitted(shown, top + _PANEL_H, top, room=0.1),
        {"c": "(c) drift between batches", "d": f"(d) margin over frozen blocks{_assumed(table)}"}[letter],
        "",
        {"c": "mean pairwise cosine", "d": "percentage points"}[letter],
    )
    panel.x_ticks([(float(i), method.replace("_", "\n")) for i, method in enumerate(look)])
    fires = diagnostic.fires(values, limit)
    for position, (method, (colour, kind)) in enumerate(look.items()):
        mine = np.flatnonzero(np.asarray(table.method) == method)
        drawn = _at_most(values, mine[finite[mine]])
        for order, i in enumerate(drawn):
            panel.point(position + _jitter(order, len(drawn)), float(values[i]), colour, kind, hollow=not fires[i])
        if lost := int(always[mine].sum()):
            panel.note(f"{lost} NaN/inf", float(position), svg.LIMIT, raised=position % 2)
        elif not drawn and finite.any():
            panel.note("N/A", float(position), raised=position % 2)
    words = {"c": f"ceiling {limit:g}", "d": f"needs {limit:+g} pp"}[letter]
    if finite.any():
        panel.limit(limit, words, diagnostic.fires_above)
    elif not always.any():
        panel.note(f"({letter}) not measured on any run")
    return panel


def _assumed(table: AuditTable) -> str:
    """``, baseline assumed``, where nobody measured it."""
    runs, judged_by_it = int(table.assumed.sum()), int(table.measured("margin_pp").sum())
    share = "" if runs == judged_by_it else f" on {runs} of {judged_by_it} runs"
    return f", baseline assumed{share}" if runs else ""


def _at_most(values: Floats, rows: Indices) -> list[int]:
    """All rows, or as many evenly spaced order statistics of them as a strip can show."""
    if len(rows) <= POINTS_AT_MOST:
        return [int(i) for i in rows]
    ranked = rows[np.argsort(values[rows], kind="stable")]
    chosen: list[int] = ranked[np.linspace(0, len(rows) - 1, POINTS_AT_MOST).round().astype(int)].tolist()
    return chosen


def _jitter(order: int, n: int) -> float:
    """Side-by-side places for the points of one method, within ±0.28."""
    return 0.0 if n < 2 else 0.56 * (order / (n - 1) - 0.5)
