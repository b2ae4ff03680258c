"""The figures of a paper's appendix, drawn by Matplotlib from a table or traces."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from fa_core.analysis.method_groups import collections, families, run_names, split_groups
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.numbers import brief
from fa_core.reporting import panels
from fa_core.reporting.markers import (
    ACCURACY,
    COURSES,
    DRIFT,
    GRADIENT,
    GROWTH,
    NAMED_AT_MOST,
    POINTS_AT_MOST,
    STREAM,
    Markers,
    assumed_text,
    at_most,
    column_of,
    faces,
    mean_of,
    side_by_side,
    variants_of,
)
from fa_core.reporting.methods_figure import methods_figure
from fa_core.reporting.panels import (
    Signs,
    fixed_style,
    laid_out,
    page,
    plot,
    prepare,
    variants,
)
from fa_core.sanitize import sanitize
from fa_core.table import Floats, Indices

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fa_core.table import AuditTable

COLUMNS_AT_MOST = 4
"""Architectures side by side."""

AXIS_NAMES = {"lam": "penalty λ", "d": "width d", "L": "depth L", "arch": "architecture"}
"""Second axis → its name below a figure."""


@fixed_style()
def audit_figure(table: AuditTable, thresholds: DiagnosticThresholds | None = None) -> Figure:
    """The audit figure: growth, ‖g_L‖, drift and accuracy, a marker per run, by ascending accuracy.

    A filled marker fires in its panel, a half filled one is undecided, a grey one was not measured.
    The groups of `split_groups` have backgrounds. Thresholds are dashed, their firing sides shaded.
    For (d) every run has marks at its frozen baseline and at the accuracy that passes. Missing
    numbers are noted.
    """
    rows = np.arange(len(table))
    names, styles = variants_of(table, rows)
    acc: Floats = np.asarray(table.acc, dtype=np.float64)
    order = np.argsort(np.where(np.isfinite(acc), acc, -np.inf), kind="stable")
    xs = np.empty(len(order))
    xs[order] = rows
    markers = Markers(table, thresholds or DiagnosticThresholds(), names, styles, xs, rows)
    signs: Signs = {**faces(table, thresholds), **panels.BASELINES}
    groups = dict(zip(panels.GROUPS.values(), split_groups(table), strict=True))
    for name, colour in panels.GROUPS.items():
        if groups[colour].any():
            signs[name] = colour
    figure, axes = page("Four-diagnostic audit", styles, 2, 2, signs)
    for panel, what in zip(axes, (GROWTH, GRADIENT, DRIFT, ACCURACY), strict=True):
        panel.set_xlim(-0.8, max(len(order), 1) - 0.2)
        if len(order) <= POINTS_AT_MOST:
            for colour, mask in groups.items():
                for x in xs[mask]:
                    panel.axvspan(x - 0.5, x + 0.5, color=colour, linewidth=0, zorder=-2)
        markers.draw(panel, what)
    for panel in axes[:2]:
        panels.name_places(panel, [], letters=58)
    names_below = list[str]()
    if len(order) <= NAMED_AT_MOST:
        runs = run_names(table)
        names_below = [runs[i] for i in order]
    for panel in axes[2:]:
        panel.set_xlabel(f"{len(order)} runs by ascending accuracy")
        panels.name_places(panel, names_below, letters=58)
    last = axes[-1]
    last.set_xlabel(last.get_xlabel() + assumed_text(table))
    return laid_out(figure)


@fixed_style()
def layers_figure(table: AuditTable, thresholds: DiagnosticThresholds | None = None) -> Figure:
    """‖h_l‖ and ‖g_l‖ over layers, a curve per run.

    Many runs of a method are drawn as order statistics by the norm at the last layer.
    """
    thresholds = thresholds or DiagnosticThresholds()
    names, styles = variants_of(table, range(len(table)))
    figure, axes = page("Norms over layers", styles, 1, 2, {})
    limit = brief(thresholds.h_norm_explosion_ratio)
    growth = f"(a) residual stream (fires: > {limit}× per block)"
    gradient = "(b) BP gradient (judged at the deepest layer)"
    shown = {
        "residual_norms": STREAM._replace(title=growth, unit="median ‖h‖"),
        "bp_grad_norms": GRADIENT._replace(title=gradient, unit="median ‖g‖"),
    }
    for panel, (field, what) in zip(axes, shown.items(), strict=True):
        rows = {}
        for i in range(len(table)):
            if row := table.report(i).stream(field):
                rows[i] = row
        why = "no finite norm" if rows else "not measured"
        every_norm = [*itertools.chain(*rows.values())]
        prepare(panel, every_norm, what, thresholds, f"({what.letter}) {why} on any run")
        depth = max(map(len, rows.values()), default=1)
        panel.set(xlabel="layer l", xlim=(-0.2, max(depth - 1, 1) + 0.2))
        panel.set_xticks(range(0, depth, math.ceil(depth / 13)))
        last = column_of(table, what)
        drawn = set[int]()
        for name in styles:
            mine = [i for i in rows if names[i] == name]
            drawn.update(at_most(last, np.array(mine, dtype=np.intp)).tolist())
        for i in sorted(drawn):
            layers = range(len(rows[i]))
            plot(panel, layers, rows[i], styles[names[i]], alpha=panels.FAINT)
    return laid_out(figure)


@fixed_style()
def architecture_figure(
    table: AuditTable, thresholds: DiagnosticThresholds | None = None
) -> Figure:
    """‖h_L‖, ‖g_L‖ and accuracy (rows) by architecture (columns), a marker per seed."""
    compared = ~table.controls
    if compared.any():
        table = table.select(compared)
    kinds = np.array(architectures(table))
    shown = list(dict.fromkeys(kinds.tolist()))[:COLUMNS_AT_MOST]
    in_figure = np.isin(kinds, shown)
    names, styles = variants_of(table, range(len(table)), without="arch")
    signs = {**faces(table, thresholds), **panels.BASELINES}
    figure, axes = page("Architectures", styles, 3, len(shown), signs, height=1.75, share=True)
    for column, kind in enumerate(shown):
        rows = np.flatnonzero(kinds == kind)
        here = set(map(names.__getitem__, rows.tolist()))
        present = [name for name in styles if name in here]
        xs = side_by_side(names, present, rows)
        markers = Markers(table, thresholds or DiagnosticThresholds(), names, styles, xs, rows)
        stacked = axes[column :: len(shown)]
        for panel, what in zip(stacked, (STREAM, GRADIENT, ACCURACY), strict=True):
            own = what._replace(title="")
            if what is STREAM:
                own = what._replace(title=sanitize(kind)[: 80 // len(shown)])
            if column:
                own = own._replace(unit="")
            below = present if what is ACCURACY else []
            panel.set_xlim(-0.6, len(present) - 0.4)
            panels.name_places(panel, below, letters=96 // len(shown))
            markers.draw(panel, own, also=column_of(table, what)[in_figure])
            if column + 1 < len(shown):
                # the columns share thresholds, named in the last one
                for text in panel.texts:
                    text.set_visible(text.get_position()[0] != panels.AT_RIGHT)
    return laid_out(figure)


@fixed_style()
def rescue_figure(table: AuditTable, thresholds: DiagnosticThresholds | None = None) -> Figure:
    """Accuracy, growth and ‖g_L‖ of every condition (method and penalty λ), a marker per seed.

    The accuracies have lines at the mean frozen baseline, at the accuracy that passes (d), and at
    BP without the penalty, if known. Methods with different baselines have marks per run instead.
    """
    thresholds = thresholds or DiagnosticThresholds()
    drawn = set[int]()
    for family in families(table, "lam"):
        drawn.update(family.rows)
    rows = np.array(sorted(drawn), dtype=np.intp)
    names, styles = variants_of(table, rows.tolist())
    conditions = {}
    for i, name in names.items():
        conditions[name] = (str(table.method[i]), table.axes[i].get("lam") or 0.0)
    places = sorted(conditions, key=conditions.__getitem__)
    styles = {name: styles[name] for name in places}
    different = _by_different_baselines(table, rows)
    levels = {}
    signs = faces(table.select(rows), thresholds)
    if different:
        signs |= panels.BASELINES
    else:
        baseline = mean_of(table.baseline[rows])
        margin = thresholds.frozen_acc_margin_pp
        levels["frozen"] = baseline
        levels[f"{margin:+g} pp"] = baseline + margin / 100
    plain_bp = [i for i in np.flatnonzero(table.method == "bp") if not table.axes[i].get("lam")]
    levels["BP"] = mean_of(table.acc[plain_bp])
    levels = {name: level for name, level in levels.items() if math.isfinite(level)}
    figure, axes = page("Penalty rescue", styles, 1, 3, signs)
    markers = Markers(table, thresholds, names, styles, side_by_side(names, places, rows), rows)
    for panel, what in zip(axes, COURSES, strict=True):
        panel.set_xlim(-0.6, max(len(places), 1) - 0.4)
        panels.name_places(panel, places, letters=24)
        crossed = levels if what.letter == "d" else {}
        markers.draw(panel, what, also=[*crossed.values()], baselines=different)
        panels.level_lines(panel, crossed)
    return laid_out(figure)


def _by_different_baselines(table: AuditTable, rows: Indices) -> bool:
    """Whether the methods of some runs have different mean frozen baselines."""
    baselines = table.baseline[rows]
    methods = table.method[rows]
    means = []
    for method in set(methods):
        mean = mean_of(baselines[methods == method])
        if math.isfinite(mean):
            means.append(mean)
    return max(means, default=0.0) - min(means, default=0.0) > 1e-9


@fixed_style()
def axis_figure(
    table: AuditTable, axis: str, thresholds: DiagnosticThresholds | None = None
) -> Figure:
    """Accuracy, growth and ‖g_L‖ against a second axis (the penalty λ, width, depth).

    A line per family joins the means over seeds of runs that differ along this axis only
    (`families`). Families with a single point are left out. Runs without the axis are at the left.
    """
    drawn = families(table, axis)
    named, styles = variants((family.method, family.axes) for family in drawn)
    names: dict[int, str] = {}
    for family, name in zip(drawn, named, strict=True):
        names |= dict.fromkeys(family.rows, name)
    levels = {i: table.axes[i].get(axis) for i in names}
    places = _places(set(levels.values()))
    signs: Signs = {**faces(table, thresholds), **panels.BASELINES}
    signs["mean over seeds"] = {"linestyle": "-"}
    figure, axes = page(f"Audit against {axis}", styles, 1, 3, signs)
    labels = list(map(str, places))
    if None in places:
        # without λ there is no penalty; another axis has its default
        labels[0] = "none" if axis == "lam" else "unset"
    rows = np.array([*names], dtype=np.intp)
    xs = np.zeros(len(table))
    xs[rows] = [places.index(level) for level in levels.values()]
    markers = Markers(table, thresholds or DiagnosticThresholds(), names, styles, xs, rows)
    for panel, what in zip(axes, COURSES, strict=True):
        panel.set(xlabel=AXIS_NAMES.get(axis, axis), xlim=(-0.4, max(len(places), 1) - 0.6))
        panels.name_places(panel, labels, letters=24)
        markers.draw(panel, what)
        values = column_of(table, what)
        for family, name in zip(drawn, named, strict=True):
            mine = np.array(family.rows)
            known = mine[np.isfinite(values[mine])]
            at = np.unique(xs[known])
            means = [mean_of(values[known[xs[known] == x]]) for x in at]
            plot(panel, at, means, styles[name], alpha=panels.FAINT, marker="")
    return laid_out(figure)


FIGURES: Mapping[str, Callable[[AuditTable, DiagnosticThresholds | None], Figure]] = {
    "methods": methods_figure,
    "audit": audit_figure,
    "layers": layers_figure,
    "architectures": architecture_figure,
    "rescue": rescue_figure,
}
"""Figures of a table by name. A figure over an axis is named like it."""


def architectures(table: AuditTable) -> list[str]:
    """Each run's network: its axis, the measured one, or else its file or folder."""
    names = []
    for i, home in enumerate(collections(table)):
        measured = table.report(i).provenance.get("arch")
        name = table.axes[i].get("arch") or measured or PurePath(home).stem
        names.append(str(name))
    return names


def _places(found: Collection[object]) -> list[object]:
    """Values of an axis in order: None, numbers, words."""
    numbers = sorted(v for v in found if isinstance(v, (int, float)))
    others = {*found}.difference(numbers)
    if None in others:
        others.remove(None)
        return [None, *numbers, *sorted(map(str, others))]
    return [*numbers, *sorted(map(str, others))]
