"""The figures of a paper's appendix, drawn by Matplotlib from a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fa_core.analysis.method_groups import conditions, families
from fa_core.report.diagnostics import BIT
from fa_core.report.method_style import published_name
from fa_core.report.numbers import brief, with_axes
from fa_core.report.quantities import JUDGED, Quantity
from fa_core.report.thresholds import DiagnosticThresholds
from fa_core.reporting import panels
from fa_core.reporting.markers import (
    ACCURACY,
    COURSES,
    Markers,
    column_of,
    faces,
    mean_of,
    side_by_side,
    variants_of,
)
from fa_core.reporting.panels import Look, Signs, fixed_style, laid_out, page, plot, variants

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fa_core.formats.table import AuditTable

_LETTERS = 48
"""Letters that fit below a panel."""

_MEAN: Look = {"linestyle": "-", "linewidth": 1.6, "alpha": 0.6, "zorder": 1.5, "marker": ""}


@fixed_style()
def methods_figure(table: AuditTable, thresholds: DiagnosticThresholds | None = None) -> Figure:
    """The four numbers of every method: a marker per seed, and a line at their mean.

    Limits are dashed, their firing sides shaded. Controls are left out; what was not measured is
    absent. Means of growth and ‖g_L‖ are geometric; a number that is not finite has no mean.
    """
    thresholds = thresholds or DiagnosticThresholds()
    if not table.controls.all():
        table = table.select(~table.controls)
    rows = np.arange(len(table))
    names, styles = variants_of(table, rows.tolist())
    drawn = [what for what in JUDGED.values() if _is_drawn(what, table)] or [JUDGED["a"]]
    signs = {**faces(table, thresholds), "line: mean over seeds": _MEAN}
    for unjudged in panels.UNJUDGED:
        signs.pop(unjudged, None)
    columns = min(len(drawn), 2)
    printed = _printed(table, names)
    # names that do not fit below the panels are in the legend
    fits = panels.labels_of([printed[name] for name in styles], _LETTERS)
    named = {} if fits else {printed[name]: styles[name] for name in styles}
    rows_of_panels = math.ceil(len(drawn) / columns)
    figure, axes = page("Diagnostics of methods", named, rows_of_panels, columns, signs)
    markers = Markers(table, thresholds, names, styles, side_by_side(names, [*styles], rows), rows)
    for place, panel in enumerate(axes):
        panel.set_visible(place < len(drawn))
        is_lowest = place + columns >= len(drawn)
        panels.name_places(panel, [printed[name] for name in styles] if is_lowest else [], _LETTERS)
        panel.set_xlim(-0.6, max(len(styles), 1) - 0.4)
    for panel, what in zip(axes, drawn, strict=False):
        markers.draw(panel, what)
        for place, name in enumerate(styles):
            mean = _mean(table, what, np.array([names[i] == name for i in rows.tolist()]))
            plot(panel, [place - 0.35, place + 0.35], [mean, mean], styles[name], **_MEAN)
    last = axes[len(drawn) - 1]
    last.set_xlabel((last.get_xlabel() + _assumed_text(table)).removeprefix(", "))
    return laid_out(figure)


def _is_drawn(what: Quantity, table: AuditTable) -> bool:
    return bool((table.coverage & BIT[what.letter]).any())


def _printed(table: AuditTable, names: Mapping[int, str]) -> dict[str, str]:
    """Name of a variant → the same with the method's name in print."""
    printed = {}
    for i, name in names.items():
        method = str(table.method[i])
        printed[name] = published_name(method) + name.removeprefix(method)
    return printed


def _mean(table: AuditTable, what: Quantity, mine: np.ndarray) -> float:
    """The mean over some runs; NaN if a number is not finite."""
    if (table.nonfinite[mine] & BIT[what.letter]).any():
        return math.nan
    return mean_of(column_of(table, what)[mine], what.log)


def _assumed_text(table: AuditTable) -> str:
    """``, baseline assumed on 3 of 9 runs``, if it is on some."""
    runs = int(table.assumed.sum())
    judged_by_it = int(table.measured("margin_pp").sum())
    if not runs:
        return ""
    return f", baseline assumed on {runs} of {judged_by_it} runs"


@fixed_style()
def rescue_figure(table: AuditTable, thresholds: DiagnosticThresholds | None = None) -> Figure:
    """Accuracy, growth and ‖g_L‖ of every condition (method and penalty λ), a marker per seed.

    The accuracies have marks at the frozen baseline and at the accuracy that passes (d), and a line
    at BP without the penalty, if known.
    """
    rows = np.array(sorted(i for family in families(table) for i in family.rows), dtype=np.intp)
    names, styles = variants_of(table, rows.tolist())
    rank = {name: (str(table.method[i]), _penalty(table, i)) for i, name in names.items()}
    places = sorted(rank, key=rank.__getitem__)
    xs = side_by_side(names, places, rows)
    styles = {name: styles[name] for name in places}
    markers = Markers(table, thresholds or DiagnosticThresholds(), names, styles, xs, rows)
    plain_bp = [i for i in np.flatnonzero(table.method == "bp").tolist() if not _penalty(table, i)]
    alone = table.select(plain_bp)
    levels = {mean_of(alone.acc[members]): one for one, members in conditions(alone)}
    figure, axes = _penalty_panels("Penalty rescue", markers, places, {}, [*levels])
    for level, one in levels.items():
        if math.isfinite(level):
            panels.level_line(axes[COURSES.index(ACCURACY)], with_axes("BP", one.all_axes), level)
    return laid_out(figure)


@fixed_style()
def penalty_figure(table: AuditTable, thresholds: DiagnosticThresholds | None = None) -> Figure:
    """Accuracy, growth and ‖g_L‖ against the penalty λ.

    A line per family joins the means over seeds of runs that differ in λ only (`families`).
    Families with a single λ are left out. Runs without the penalty are at the left.
    """
    drawn = families(table)
    named, styles = variants((family.method, family.axes) for family in drawn)
    names: dict[int, str] = {}
    for family, name in zip(drawn, named, strict=True):
        names |= dict.fromkeys(family.rows, name)
    rows = np.array([*names], dtype=np.intp)
    levels = [_penalty(table, i) for i in names]
    places = sorted(set(levels))
    xs = np.zeros(len(table))
    xs[rows] = [places.index(level) for level in levels]
    markers = Markers(table, thresholds or DiagnosticThresholds(), names, styles, xs, rows)
    labels = [brief(place) if place else "none" for place in places]
    line: Signs = {"mean over seeds": {"linestyle": "-"}}
    figure, axes = _penalty_panels("Audit against lam", markers, labels, line)
    for panel, what in zip(axes, COURSES, strict=True):
        panel.set_xlabel("penalty λ")
        values = column_of(table, what)
        for family, name in zip(drawn, named, strict=True):
            mine = np.array(family.rows)
            known = mine[np.isfinite(values[mine])]
            at = np.unique(xs[known])
            means = [mean_of(values[known[xs[known] == x]]) for x in at]
            plot(panel, at, means, styles[name], alpha=panels.FAINT, marker="")
    return laid_out(figure)


def _penalty(table: AuditTable, run: int) -> float:
    return float(table.axes[run].get("lam") or 0.0)


def _penalty_panels(
    title: str, markers: Markers, places: Sequence[str], signs: Signs, also: Sequence[float] = ()
) -> tuple[Figure, list[Axes]]:
    """A figure of `COURSES` over named places, with a marker per run.

    Args:
        title: of the figure.
        markers: the runs.
        places: names of the places.
        signs: further entries of the legend.
        also: further values on the axis of the accuracies.
    """
    shown = faces(markers.table.select(markers.rows), markers.thresholds)
    figure, axes = page(title, markers.styles, 1, 3, {**shown, **panels.BASELINES, **signs})
    for panel, what in zip(axes, COURSES, strict=True):
        panel.set_xlim(-0.6, max(len(places), 1) - 0.4)
        panels.name_places(panel, places, letters=24)
        markers.draw(panel, what, also if what is ACCURACY else ())
    return figure, axes


FIGURES: Mapping[str, Callable[[AuditTable, DiagnosticThresholds | None], Figure]] = {
    "methods": methods_figure,
    "rescue": rescue_figure,
    "lam": penalty_figure,
}
"""Figures of a table by name; the last two need runs that differ in the penalty λ alone."""
