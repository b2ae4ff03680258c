"""The layers of the run in the detail pane: ‖h_l‖ and ‖g_l‖ as curves, numbers and bars."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from fa_core.report import NORM_RATIO_EPS, DiagnosticReport
from fa_tui.widgets.glyphs import Glyphs
from fa_tui.widgets.numbers import short
from fa_tui.widgets.painted import Row
from fa_tui.widgets.scale import Scale, covering
from fa_tui.widgets.sparkline import sparkline

_SPARK_CELLS = 24
_COLUMN = 7
_CREDIT = (("Γ", "gamma"), ("ρ", "rho"))


def growths(norms: Sequence[float]) -> list[float]:
    """‖h_{l+1}‖/‖h_l‖ for l = 0..L-1; NaN where a norm is not finite.

    >>> growths([1.0, 2.0, 8.0])
    [2.0, 4.0]
    """
    return [
        after / max(before, NORM_RATIO_EPS) if math.isfinite(before) and math.isfinite(after) else math.nan
        for before, after in itertools.pairwise(norms)
    ]


def sparkline_rows(report: DiagnosticReport, width: int, glyphs: Glyphs) -> list[Row]:
    """‖h_l‖ and ‖g_l‖ over the layers as one line each, on log scales."""
    lines = []
    for name, values in (("‖h‖", report.residual_norms), ("‖g‖", report.bp_grad_norms)):
        scale = covering(values, log=True)
        if not values or scale is None:
            continue
        each = max(1, min(_SPARK_CELLS, width - 24) // len(values))
        bars = sparkline(values, scale, glyphs, max(1, min(_SPARK_CELLS, width - 24)))
        wide = "".join(character * each for character in bars)
        ends = f"{short(values[0])} {glyphs.arrow} {short(values[-1])}"
        lines.append([(f"{glyphs.say(name)} ", "detail--head"), (wide, "detail--bar"), (f" {ends}", "detail--number")])
    return [*lines, []] if lines else []


def layer_rows(report: DiagnosticReport, width: int, glyphs: Glyphs) -> list[Row]:
    """A line per layer: ‖h_l‖, growth of the block below it and ‖g_l‖ as numbers and bars, then what fits beside."""
    h, g = report.residual_norms, report.bp_grad_norms
    measured = _beside(report)
    count = max(len(h), len(g), *(len(column) for _, column in measured), 0)
    if not count:
        return []
    blocks = growths(h)
    finite = [value for value in blocks if math.isfinite(value)]
    peak = max(finite, default=math.inf)
    numbers = 4 + 9 + 9 + (10 if blocks else 0)
    beside = measured[: max(0, width - numbers) // _COLUMN]
    numbers += _COLUMN * len(beside)
    bar = max(0, min(10, (width - numbers) // 2 - 1))
    h_scale, g_scale = covering(h, log=True), covering(g, log=True)
    head = " l  " + "‖h‖".ljust(9 + bar) + ("growth".ljust(10) if blocks else "") + "‖g‖".ljust(9 + bar)
    lines: list[Row] = [[(glyphs.say(head + "".join(name.rjust(_COLUMN) for name, _ in beside)), "detail--head")]]
    for layer in range(count):
        row: Row = [(f"{layer:>2}  ", "detail--dim")]
        row += _number_and_bar(h, layer, h_scale, bar, glyphs)
        if blocks:
            row += _growth(blocks[layer - 1] if layer else None, peak, report.thresholds.h_norm_explosion_ratio, glyphs)
        row += _number_and_bar(g, layer, g_scale, bar, glyphs)
        row += [
            ((column[layer] if layer < len(column) else "").rjust(_COLUMN), "detail--number") for _, column in beside
        ]
        lines.append(row)
    return [*lines, []]


def _beside(report: DiagnosticReport) -> list[tuple[str, list[str]]]:
    """What stands beside the norms, layer by layer, the most telling first: a heading and the numbers below it."""
    columns = [(name, [signed(value) for value in _credit(report.credit, key)]) for name, key in _CREDIT]
    if report.reference_precision is not None:
        columns.insert(1, ("1−cos", [apart(value) for value in report.reference_precision.cosine]))
    return [(name, column) for name, column in columns if column]


def apart(cosine: float | None) -> str:
    """How far two directions are apart, 1 − cos, which shows what a cosine near 1 hides.

    >>> apart(1 - 3e-9), apart(1.0), apart(None)
    ('3e-9', '0', 'N/A')
    """
    return "N/A" if cosine is None else short(max(0.0, 1 - cosine) if math.isfinite(cosine) else math.nan, 1)


def _number_and_bar(
    values: Sequence[float], layer: int, scale: Scale | None, cells: int, glyphs: Glyphs
) -> list[tuple[str, str]]:
    if layer >= len(values):
        return [(" " * (9 + cells), "")]
    value = values[layer]
    style = "detail--number" if math.isfinite(value) else "detail--fires"
    bar = ""
    if scale is not None and math.isfinite(value) and value > 0 and cells:
        bar = glyphs.plateau_passing * max(1, round(scale.fraction(value) * (cells - 1)))
    return [(short(value).ljust(8), style), (bar.ljust(cells + 1), "detail--bar")]


def _growth(value: float | None, peak: float, limit: float, glyphs: Glyphs) -> list[tuple[str, str]]:
    if value is None:
        return [(" " * 10, "")]
    if math.isnan(value):
        return [("NaN".ljust(10), "detail--fires")]
    mark = f" {glyphs.grows}" if value == peak and value > 1 else ""
    text = f"{glyphs.say('×')}{short(value)}{mark}"
    return [(text.ljust(10), "detail--grows" if value > limit else "detail--number")]


def _credit(credit: Mapping[str, Any] | None, key: str) -> list[float | None]:
    """One kind of credit quality per layer; empty where the method's credit was not saved."""
    layers = (credit or {}).get(key)
    return list(layers) if isinstance(layers, (list, tuple)) else []


def signed(value: float | None) -> str:
    """A cosine; undefined ones read N/A, never 0."""
    return "N/A" if value is None or math.isnan(value) else f"{value:+.2f}"
