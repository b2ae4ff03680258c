"""The figures of a paper's appendix by Matplotlib: from a table or traces to SVG, PDF and PNG."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from fa_core.analysis.method_groups import Family, collections, families, run_names, split_groups
from fa_core.baseline import CONTROLS
from fa_core.diagnostics import DIAGNOSTICS, DiagnosticThresholds
from fa_core.errors import printable
from fa_core.method_style import MethodStyle
from fa_core.reporting.panels import (
    AT_RIGHT,
    BASELINES,
    FILLED,
    GROUPS,
    LIMIT,
    MUTED,
    NULL,
    Panel,
    curve,
    dots,
    fit,
    fixed_style,
    laid_out,
    level_lines,
    name_places,
    note,
    page,
    prepare,
    variants,
)
from fa_core.table import Floats, Indices

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fa_core.analysis.timeline import EpochPoint, Timeline
    from fa_core.table import AuditTable

POINTS_AT_MOST = 200
"""More runs of one method than this are drawn as this many order statistics, smallest and largest included."""

CURVES_AT_MOST = 80
"""More runs than this are drawn as each method's median and range per layer."""

LAYERS_AT_MOST = 11
"""More layers than this are drawn as that many of them, first and last included."""

NAMED_AT_MOST = 45
"""Runs side by side that still have names; also those whose missing numbers are noted."""

COLUMNS_AT_MOST = 4
"""Architectures side by side."""

AXIS_NAMES = {"lam": "penalty λ", "d": "width d", "L": "depth L", "arch": "architecture"}
"""What a second axis is called under a figure."""

_GROWTH = Panel("growth", "(a) growth per block", "ratio", "a")

_GRADIENT = Panel("g_L", "(b) deepest BP gradient norm", "median ‖g_L‖", "b")

_DRIFT = Panel("stability", "(c) drift between batches", "mean pairwise cosine", "c", log=False)

_ACCURACY = Panel("acc", "(d) accuracy over frozen blocks", "fraction", "d", limit=False, log=False)

_STREAM = Panel("h_L", "residual norm at the last layer", "median ‖h_L‖", "a", limit=False)

_COURSES = (_ACCURACY._replace(title="(d) accuracy"), _GROWTH, _GRADIENT)
"""What follows an axis, conditions or the epochs."""


@fixed_style()
def audit_figure(table: AuditTable, thresholds: DiagnosticThresholds | None = None) -> Figure:
    """The four-panel audit figure: growth, ‖g_L‖, drift and accuracy, a marker per run, by ascending accuracy.

    Filled markers: the panel's diagnostic fires. The groups of `split_groups` have backgrounds; thresholds are dashed,
    the side that fires is shaded; for (d) every run has a mark at its frozen baseline and one at the accuracy that the
    margin asks for. What was not measured is not drawn, and said.
    """
    thresholds = thresholds or DiagnosticThresholds()
    names, styles = variants(zip(table.method.tolist(), table.axes.tolist(), strict=True))
    acc: Floats = np.asarray(table.acc, dtype=np.float64)
    order = np.argsort(np.where(np.isfinite(acc), acc, -np.inf), kind="stable")
    xs = np.empty(len(order))
    xs[order] = np.arange(len(order))
    groups = dict(zip(GROUPS, split_groups(table), strict=True))
    figure, panels = page("Four-diagnostic audit", styles, 2, 2, {**FILLED, **BASELINES, **GROUPS})
    for position, (panel, what) in enumerate(zip(panels, (_GROWTH, _GRADIENT, _DRIFT, _ACCURACY), strict=True)):
        below = position > 1
        assumed = _assumed(table) if what.letter == "d" else ""
        panel.set(xlabel=f"{len(order)} runs by ascending accuracy{assumed}" if below else "")
        panel.set_xlim(-0.8, max(len(order), 1) - 0.2)
        runs = run_names(table) if below and len(order) <= NAMED_AT_MOST else ()
        name_places(panel, [runs[i] for i in order] if runs else [], letters=58)
        for (_, colour), mask in zip(GROUPS.items(), groups.values(), strict=True):
            for x in xs[mask] if len(order) <= POINTS_AT_MOST else ():
                panel.axvspan(x - 0.5, x + 0.5, color=colour, linewidth=0, zorder=-2)
        _runs(panel, what, table, thresholds, xs, names, styles)
    return laid_out(figure)


@fixed_style()
def layers_figure(table: AuditTable, thresholds: DiagnosticThresholds | None = None) -> Figure:
    """‖h_l‖ and ‖g_l‖ over layers, a curve per run."""
    thresholds = thresholds or DiagnosticThresholds()
    names, styles = variants(zip(table.method.tolist(), table.axes.tolist(), strict=True))
    figure, panels = page("Norms over layers", styles, 1, 2)
    for panel, letter in zip(panels, "ab", strict=True):
        _layers(panel, table, letter, names, styles, thresholds)
    return laid_out(figure)


@fixed_style()
def architecture_figure(table: AuditTable, thresholds: DiagnosticThresholds | None = None) -> Figure:
    """‖h_L‖, ‖g_L‖ and accuracy (rows) by architecture (columns), the methods side by side, a marker per seed."""
    thresholds = thresholds or DiagnosticThresholds()
    compared = ~np.isin(table.method, CONTROLS)
    table = table.select(compared) if compared.any() else table
    kinds = architectures(table)
    shown = list(dict.fromkeys(kinds))[:COLUMNS_AT_MOST]
    axes = [{name: value for name, value in own.items() if name != "arch"} for own in table.axes.tolist()]
    names, styles = variants(zip(table.method.tolist(), axes, strict=True))
    figure, panels = page("Architectures", styles, 3, len(shown), {**FILLED, **BASELINES}, height=1.75, share=True)
    for row, what in enumerate((_STREAM, _GRADIENT, _ACCURACY)):
        values = [float(getattr(table, what.column)[i]) for i, kind in enumerate(kinds) if kind in shown]
        for column, kind in enumerate(shown):
            panel, last = panels[row * len(shown) + column], row == 2
            mine = np.array([i for i, one in enumerate(kinds) if one == kind])
            present = [name for name in styles if any(names[i] == name for i in mine)]
            title = printable(kind)[: 80 // len(shown)] if row == 0 else ""
            own = what._replace(title=title, unit="" if column else what.unit)
            panel.set_xlim(-0.6, len(present) - 0.4)
            name_places(panel, present if last else [], letters=96 // len(shown))
            _runs(panel, own, table, thresholds, _side_by_side(names, present, mine), names, styles, mine, values)
            for text in [*panel.texts] if column + 1 < len(shown) else ():
                # the threshold that all columns share is named at the right
                text.set_visible(text.get_position()[0] != AT_RIGHT)
    return laid_out(figure)


@fixed_style()
def rescue_figure(table: AuditTable, thresholds: DiagnosticThresholds | None = None) -> Figure:
    """The penalty's rescue: accuracy, growth and ‖g_L‖ of every condition (method and λ), a marker per seed.

    Lines in the panel of accuracies: the mean frozen baseline, the margin above it that (d) asks for, and BP without
    the penalty, where they are known.
    """
    thresholds = thresholds or DiagnosticThresholds()
    rows = np.array(sorted({i for family in families(table, "lam") for i in family.rows}), dtype=np.intp)
    drawn, styles = variants((str(table.method[i]), table.axes[i]) for i in rows)
    names = dict(zip(rows.tolist(), drawn, strict=True))
    conditions = sorted(
        {names[i]: (str(table.method[i]), table.axes[i].get("lam") or 0.0) for i in rows}.items(),
        key=lambda one: one[1],
    )
    places = [name for name, _ in conditions]
    styles = {name: styles[name] for name in places}
    figure, panels = page("Penalty rescue", styles, 1, 3, FILLED)
    plain_bp = [i for i in range(len(table)) if table.method[i] == "bp" and not table.axes[i].get("lam")]
    baseline, bp = _mean(np.asarray(table.baseline)[rows]), _mean(np.asarray(table.acc)[plain_bp])
    pp = thresholds.frozen_acc_margin_pp
    levels = {"frozen": baseline, f"{pp:+g} pp": baseline + pp / 100, "BP": bp}
    levels = {name: level for name, level in levels.items() if math.isfinite(level)}
    for panel, what in zip(panels, _COURSES, strict=True):
        panel.set_xlim(-0.6, max(len(places), 1) - 0.4)
        name_places(panel, places, letters=24)
        xs = _side_by_side(names, places, rows)
        more = [*levels.values()] if what.letter == "d" else []
        _runs(
            panel, what, table, thresholds, xs, names, styles, rows, [*getattr(table, what.column)[rows], *more], False
        )
        level_lines(panel, levels if what.letter == "d" else {})
    return laid_out(figure)


@fixed_style()
def axis_figure(table: AuditTable, axis: str, thresholds: DiagnosticThresholds | None = None) -> Figure:
    """Accuracy, growth and ‖g_L‖ against a second axis (the penalty λ, width, depth), in the order of its values.

    One line per family: runs that differ along this axis and in nothing else (see `families`); it joins the
    means over their seeds. Families with a single point are left out. Runs without the axis are at the left
    (no penalty, for λ).
    """
    thresholds = thresholds or DiagnosticThresholds()
    drawn = families(table, axis)
    named, styles = variants((family.method, family.axes) for family in drawn)
    places = _places(table, axis, drawn)
    rows = np.array([i for family in drawn for i in family.rows], dtype=np.intp)
    names = {i: name for family, name in zip(drawn, named, strict=True) for i in family.rows}
    figure, panels = page(
        f"Audit against {axis}", styles, 1, 3, {**FILLED, **BASELINES, "mean over seeds": {"linestyle": "-"}}
    )
    # a run without λ has no penalty; one without another axis has whatever its default is
    unset = "none" if axis == "lam" else "unset"
    xs = np.zeros(len(table))
    xs[rows] = [places.index(table.axes[i].get(axis)) for i in rows]
    empty = "not measured on any run" if drawn else f"no two runs differ in {axis} alone"
    for panel, what in zip(panels, _COURSES, strict=True):
        values: Floats = np.asarray(getattr(table, what.column), dtype=np.float64)
        panel.set(xlabel=AXIS_NAMES.get(axis, axis))
        panel.set_xlim(-0.4, max(len(places), 1) - 0.6)
        name_places(panel, [unset if value is None else str(value) for value in places], letters=24)
        _runs(panel, what, table, thresholds, xs, names, styles, rows, values[rows].tolist(), empty=empty)
        for family, name in zip(drawn, named, strict=True):
            means = {
                position: _mean(values[[i for i in family.rows if xs[i] == position]])
                for position in range(len(places))
            }
            known = {position: mean for position, mean in means.items() if math.isfinite(mean)}
            curve(panel, [*known], [*known.values()], styles[name], at=())
    return laid_out(figure)


@fixed_style()
def timeline_figure(timelines: Sequence[Timeline], thresholds: DiagnosticThresholds | None = None) -> Figure:
    """Accuracy, growth and ‖g_L‖ over epochs, a curve per run; dotted where a run's diagnostic first fires."""
    thresholds = thresholds or DiagnosticThresholds()
    names, styles = variants((one.method, one.axes) for one in timelines)
    figure, panels = page("Diagnostics over epochs", styles, 1, 3, {"first fires": {"linestyle": ":"}})
    for panel, what in zip(panels, _COURSES, strict=True):
        curves = [[_number(getattr(point, what.column)) for point in one.points] for one in timelines]
        panel.set(title=what.title, ylabel=what.unit)
        prepare(panel, [*itertools.chain(*curves)], what, thresholds, "not in these traces")
        _over_epochs(panel, timelines, curves, [styles[name] for name in names])
        for one, name in zip(timelines, names, strict=True):
            if what.limit and (fire := one.first_fire.get(what.letter)) is not None:
                panel.axvline(fire, color=styles[name].colour, linewidth=0.8, linestyle=":")
    return laid_out(figure)


@fixed_style()
def gamma_figure(timelines: Sequence[Timeline]) -> Figure:
    """Deep Γ and Γ_l over epochs, a curve per run; shaded: two standard deviations of the widest null.

    A layer's null is √m times as wide as that of a mean over m layers. A single Γ that a log holds is of no layer.
    """
    drawn = [one for one in timelines if one.gamma_per_layer]
    names, styles = variants((one.method, one.axes) for one in drawn)
    layers = max((len(point.gamma) for one in drawn for point in one.points), default=0)
    ends = [mean + side * 2 * std for one in drawn if one.null for mean, std in [one.null] for side in (-1, 1)]
    shown = [-1, *np.unique(np.linspace(0, layers - 1, min(layers, LAYERS_AT_MOST)).round().astype(int)).tolist()]
    figure, panels = page("Γ over epochs", styles, math.ceil(len(shown) / 3), 3, {"null ± 2 std": NULL} if ends else {})
    for panel, layer in itertools.zip_longest(panels, shown):
        if layer is None:
            panel.set_visible(False)
            continue
        panel.set(title="deep Γ" if layer < 0 else f"Γ at l = {layer}", ylabel="cosine")
        curves = [[_number(_gamma_at(point, layer)) for point in one.points] for one in drawn]
        band = [end * math.sqrt(max(layers - 1, 1)) if layer >= 0 else end for end in ends]
        fit(panel, [*itertools.chain(*curves), *band, 0.0])
        if band:
            panel.axhspan(min(band), max(band), color=NULL, linewidth=0)
        _over_epochs(panel, drawn, curves, [styles[name] for name in names])
    return laid_out(figure)


def _over_epochs(
    panel: Axes, timelines: Sequence[Timeline], curves: Sequence[Sequence[float]], styles: Sequence[MethodStyle]
) -> None:
    """A curve per run, each with its last point marked."""
    epochs = [point.epoch for one in timelines for point in one.points]
    panel.set_xlabel("epoch")
    panel.set_xlim(min(epochs, default=0) - 0.5, max(epochs, default=1) + 0.5)
    panel.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
    for one, ys, style in zip(timelines, curves, styles, strict=True):
        curve(panel, [point.epoch for point in one.points], ys, style, at=[-1])


def _gamma_at(point: EpochPoint, layer: int) -> float | None:
    """Γ_l of an epoch; deep Γ for −1."""
    if layer < 0:
        return point.deep_gamma
    return point.gamma[layer] if layer < len(point.gamma) else None


FIGURES: Mapping[str, Callable[[AuditTable, DiagnosticThresholds | None], Figure]] = {
    "audit": audit_figure,
    "layers": layers_figure,
    "architectures": architecture_figure,
    "rescue": rescue_figure,
}
"""The figures of a table by name; those over an axis are called like it, `timeline` is of traces."""


def architectures(table: AuditTable) -> list[str]:
    """Each run's network: its axis, what was measured, or else the file or folder that it is in."""
    homes = collections(table)
    known = (table.axes[i].get("arch") or table.report(i).provenance.get("arch") for i in range(len(table)))
    return [str(name or PurePath(home).stem) for name, home in zip(known, homes, strict=True)]


def _runs(
    panel: Axes,
    what: Panel,
    table: AuditTable,
    thresholds: DiagnosticThresholds,
    xs: Floats,
    names: Sequence[str] | Mapping[int, str],
    styles: Mapping[str, MethodStyle],
    rows: Indices | None = None,
    scale: Sequence[float] | None = None,
    baselines: bool = True,
    empty: str = "",
) -> None:
    """A marker per run, filled where the panel's diagnostic fires.

    Args:
        panel: where.
        what: its number.
        table: the runs.
        thresholds: what judges them.
        xs: the place of every run of the table.
        names: the name of every run, by its place in the table.
        styles: by name.
        rows: the runs that are drawn; None: all.
        scale: what the axis has to show; None: their values.
        baselines: whether (d) has marks at every run's frozen baseline, and where its margin is met.
        empty: what the panel says if there is nothing to show.
    """
    rows = np.arange(len(table)) if rows is None else rows
    values: Floats = np.asarray(getattr(table, what.column), dtype=np.float64)
    judged, finite, always = table.judged(what.letter)
    limit = DIAGNOSTICS[what.letter].limit(thresholds)
    fires = (np.asarray(DIAGNOSTICS[what.letter].beyond(judged, limit), dtype=np.bool_) & finite) | always
    panel.set(title=what.title, ylabel=what.unit)
    floors: Floats = np.asarray(table.baseline, dtype=np.float64)
    marks = {MUTED: floors, LIMIT: floors + limit / 100} if what.letter == "d" and baselines else {}
    shown = [*(values[rows] if scale is None else scale), *(value for mark in marks.values() for value in mark[rows])]
    prepare(panel, shown, what, thresholds, empty or f"({what.letter}) not measured on any run")
    for colour, mark in marks.items():
        known = rows[np.isfinite(mark[rows])]
        panel.plot(xs[known], mark[known], linestyle="none", marker="_", color=colour, markersize=5, zorder=1.5)
    for name, style in styles.items():
        mine = rows[[names[i] == name for i in rows.tolist()]]
        drawn = np.array(_at_most(values, mine[np.isfinite(values[mine])]), dtype=np.intp)
        for filled in (False, True):
            some = drawn[fires[drawn] == filled]
            dots(panel, xs[some].tolist(), values[some].tolist(), style, filled)
    if not np.isfinite(values[rows]).any():
        return
    lost = [i for i in rows.tolist() if not math.isfinite(values[i])]
    for i in lost if len(rows) <= NAMED_AT_MOST else ():
        note(panel, xs[i], *(("NaN/inf", LIMIT) if always[i] else ("N/A", MUTED)))


def _side_by_side(names: Sequence[str] | Mapping[int, str], places: Sequence[str], rows: Indices) -> Floats:
    """For every run the place of its name, runs of one name side by side within ±0.28."""
    xs = np.zeros(int(rows.max(initial=0)) + 1)
    for position, name in enumerate(places):
        mine = [i for i in rows.tolist() if names[i] == name]
        for order, i in enumerate(mine):
            xs[i] = position + (0.0 if len(mine) < 2 else 0.56 * (order / (len(mine) - 1) - 0.5))
    return xs


def _mean(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else math.nan


def _layers(
    panel: Axes,
    table: AuditTable,
    letter: str,
    names: Sequence[str],
    styles: Mapping[str, MethodStyle],
    thresholds: DiagnosticThresholds,
) -> None:
    growth = thresholds.h_norm_explosion_ratio
    name, symbol, title = {
        "a": ("residual_norms", "‖h‖", f"(a) residual stream (fires: growth > {growth:g}x per block)"),
        "b": ("bp_grad_norms", "‖g‖", "(b) BP gradient (judged at the deepest layer)"),
    }[letter]
    rows = [table.report(i).stream(name) for i in range(len(table))]
    deepest = max((len(row) - 1 for row in rows), default=0)
    panel.set(title=title, xlabel="layer l", ylabel=f"median {symbol}")
    values = [value for row in rows for value in row]
    empty = f"({letter}) {'no finite norm' if values else 'not measured'} on any run"
    prepare(panel, values, _GRADIENT if letter == "b" else _STREAM, thresholds, empty)
    panel.set_xlim(-0.2, max(deepest, 1) + 0.2)
    panel.set_xticks(range(0, deepest + 1, max(1, math.ceil((deepest + 1) / 13))))
    if len(rows) > CURVES_AT_MOST:
        _summary(panel, names, rows, styles)
        return
    for name, row in zip(names, rows, strict=True):
        curve(panel, range(len(row)), row, styles[name])


def _summary(
    panel: Axes, names: Sequence[str], rows: Sequence[Sequence[float]], styles: Mapping[str, MethodStyle]
) -> None:
    """Each name's median per layer as a line, and its smallest and largest as faint ones."""
    for name, style in styles.items():
        mine = [row for row, own in zip(rows, names, strict=True) if own == name and row]
        depth = max((len(row) for row in mine), default=0)
        columns = [[row[l] for row in mine if l < len(row) and math.isfinite(row[l])] for l in range(depth)]
        layers = [l for l, column in enumerate(columns) if column]
        for pick, alpha, at in ((np.median, 0.95, None), (np.min, 0.35, ()), (np.max, 0.35, ())):
            curve(panel, layers, [float(pick(columns[l])) for l in layers], style, alpha, at)


def _assumed(table: AuditTable) -> str:
    """``, baseline assumed``, where it was not measured."""
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


def _places(table: AuditTable, axis: str, drawn: Sequence[Family]) -> list[object]:
    found = {table.axes[i].get(axis) for family in drawn for i in family.rows}
    numbers = sorted(v for v in found if isinstance(v, (int, float)))
    words = sorted(str(v) for v in found if v is not None and not isinstance(v, (int, float)))
    return [*([None] if None in found else []), *numbers, *words]


def _number(value: float | None) -> float:
    return math.nan if value is None else value
