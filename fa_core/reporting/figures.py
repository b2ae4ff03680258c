"""The figures of a paper's appendix, drawn by Matplotlib from a table, or over epochs from
traces."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fa_core.analysis.method_groups import Condition, conditions, families
from fa_core.analysis.seeds import stat_of
from fa_core.analysis.timeline import Timeline, common_unit
from fa_core.formats.table import AuditTable, Floats, Indices, Mask, having
from fa_core.report.diagnostics import CONTROL
from fa_core.report.method_style import MethodStyle, published_name
from fa_core.report.numbers import brief
from fa_core.report.quantities import BY_NAME, JUDGED, Quantity, named
from fa_core.report.report_facts import PROTOCOL, DiagnosticThresholds
from fa_core.reporting import panels
from fa_core.reporting.panels import (
    Look,
    Signs,
    finish,
    fixed_style,
    laid_out,
    page,
    plot,
    prepare,
    variants,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ACCURACY = BY_NAME["acc"]

COURSES = named("acc", "growth", "g_L")
"""Panels of figures over an axis, conditions or epochs."""


class Markers(NamedTuple):
    """Runs as markers.

    Attributes:
        table: the runs.
        thresholds: of their verdicts.
        names: of the drawn runs, by index.
        styles: by name.
        xs: horizontal position of every run of the table.
        rows: indices of the drawn runs.
    """

    table: AuditTable
    thresholds: DiagnosticThresholds
    names: Mapping[int, str]
    styles: Mapping[str, MethodStyle]
    xs: Floats
    rows: Indices

    def draw(self, panel: Axes, what: Quantity) -> None:
        """Draw a marker per run: filled if its diagnostic fires, a star if undecided.

        It is grey if the diagnostic was not measured. What the axis cannot show stands at its foot:
        0, NaN or inf, and n.m. (not measured). Accuracies have marks at the frozen baseline and at
        the accuracy that passes (d).
        """
        table = self.table
        rows = self.rows
        values = table.column(what)
        marks = {}
        if what is ACCURACY:
            margin = self.thresholds.frozen_acc_margin_pp / 100
            marks = {panels.MUTED: table.baseline, panels.LIMIT: table.baseline + margin}
        prepare(panel, what, table.kinds)
        look: Look = {"linestyle": "none", "marker": "_", "markersize": 5, "zorder": 1.5}
        for colour, mark in marks.items():
            known = rows[np.isfinite(mark[rows])]
            panel.plot(self.xs[known], mark[known], **{**look, "color": colour})
        finite = rows[np.isfinite(values[rows])]
        for name, style in self.styles.items():
            mine = finite[[self.names[i] == name for i in finite.tolist()]]
            for look, are in self._looks(style, what.marks):
                some = mine[are[mine]]
                plot(panel, self.xs[some], values[some], style, linestyle="none", **look)
        fires = having(table.flags(self.thresholds), what.marks)
        broken = having(table.nonfinite, what.marks)
        shown = np.isfinite(panels.drawable(values[rows], what.log))
        for i in rows[~shown].tolist():
            text = "n.m."
            if broken[i]:
                text = "NaN/inf"
            elif values[i] == 0:
                text = "0"
            word = panel.text(self.xs[i], 0.02, text)
            word.set(color=panels.LIMIT if fires[i] else panels.MUTED, fontsize=6)
            word.set(transform=panel.get_xaxis_transform(), rotation=90, ha="center", va="bottom")
        finish(panel, what, self.thresholds)

    def _looks(self, style: MethodStyle, letter: str) -> Iterator[tuple[Look, Mask]]:
        """Faces of a method's markers, each with the runs that have it."""
        table = self.table
        fires = having(table.flags(self.thresholds), letter)
        measured = having(table.coverage, letter)
        undecided = having(table.undecided(self.thresholds), letter)
        yield {"markerfacecolor": panels.UNMEASURED}, ~measured
        yield {"markerfacecolor": "white"}, measured & ~fires & ~undecided
        yield {"markerfacecolor": style.colour}, fires
        yield panels.STAR, undecided


def claiming_or_all(table: AuditTable) -> tuple[AuditTable, tuple[str, ...]]:
    """The runs that claim something, else the controls; and notes on the others."""
    found = table.claiming()
    return found if len(found[0]) else table.claiming(but=("", CONTROL))


_MEAN: Look = {"linestyle": "-", "linewidth": 1.6, "alpha": 0.6, "zorder": 1.5, "marker": ""}


@fixed_style()
def methods_figure(table: AuditTable, thresholds: DiagnosticThresholds = PROTOCOL) -> Figure:
    """The four numbers of every method: a marker per seed, and a line at their mean.

    Limits are dashed, their firing sides shaded. Controls are left out. Means of growth and ‖g_L‖
    are geometric; a number that is not finite has no mean.
    """
    table, _ = claiming_or_all(table)
    groups = conditions(table)
    named, styles = variants([one for one, _ in groups])
    places = [*styles]
    styles = {name: style._replace(marker="o") for name, style in styles.items()}
    labels = {}
    names = dict[int, str]()
    xs = np.zeros(len(table))
    for (one, rows), name in zip(groups, named, strict=True):
        names |= dict.fromkeys(rows, name)
        labels[name] = published_name(one.method) + name.removeprefix(one.method)
        spread = 0.28 * (len(rows) > 1)
        xs[rows] = places.index(name) + np.linspace(-spread, spread, len(rows))
    every = JUDGED.values()
    drawn = [what for what in every if having(table.coverage, what.letter).any()] or [*every][:1]
    signs: Signs = {**panels.FACES, "line: mean over seeds": _MEAN}
    columns = min(len(drawn), 2)
    figure, axes = page("Diagnostics of methods", {}, len(drawn), columns, signs, len(styles))
    markers = Markers(table, thresholds, names, styles, xs, np.arange(len(table)))
    for panel, what in zip(axes, drawn, strict=True):
        for (_, rows), name in zip(groups, named, strict=True):
            mean = _mean(table, what, rows)
            place = places.index(name)
            panel.plot(
                [place - 0.35, place + 0.35], [mean, mean], color=styles[name].colour, **_MEAN
            )
        markers.draw(panel, what)
        panels.name_places(panel, [labels[name] for name in places])
    figure.suptitle("\n".join(table.assumed_notes), size=6)
    return laid_out(figure)


def _mean(table: AuditTable, what: Quantity, mine: Sequence[int] | Indices) -> float:
    """The mean over some runs, on a log axis the geometric one; NaN if a number is not finite, if
    none was measured, or if one is not positive there."""
    if having(table.nonfinite, what.marks)[mine].any():
        return math.nan
    stat = stat_of(table.column(what)[mine], what.log)
    mean = stat.geometric_mean if what.log else stat.mean
    return math.nan if mean is None else mean


@fixed_style()
def rescue_figure(table: AuditTable, thresholds: DiagnosticThresholds = PROTOCOL) -> Figure:
    """Accuracy, growth and ‖g_L‖ against the penalty λ, a marker per seed.

    A line per family joins the means over seeds of runs that differ in λ only (`families`), with a
    gap where a number is not finite. Families with a single λ are left out. Runs without the
    penalty are at the left. The accuracies have marks at the frozen baseline and at the accuracy
    that passes (d).
    """
    drawn = families(table)
    named, styles = variants([one for one, _ in drawn])
    names: dict[int, str] = {}
    for (_, family), name in zip(drawn, named, strict=True):
        names |= dict.fromkeys(family, name)
    rows = np.array([*names], dtype=np.intp)
    levels = [float(axes.get("lam") or 0.0) for axes in table.axes]
    places = sorted({levels[i] for i in names})
    xs = np.zeros(len(table))
    xs[rows] = [places.index(levels[i]) for i in names]
    markers = Markers(table, thresholds, names, styles, xs, rows)
    signs: Signs = {**panels.FACES, **panels.BASELINES, "mean over seeds": {"linestyle": "-"}}
    figure, axes = page("Penalty rescue", styles, 3, 3, signs)
    for panel, what in zip(axes, COURSES, strict=True):
        markers.draw(panel, what)
        panel.set_xlabel("penalty λ")
        panels.name_places(panel, [brief(place) if place else "none" for place in places])
        for (_, family), name in zip(drawn, named, strict=True):
            mine = np.array(family)
            at = np.unique(xs[mine])
            means = [_mean(table, what, mine[xs[mine] == x]) for x in at]
            plot(panel, at, means, styles[name], alpha=panels.FAINT, marker="")
    return laid_out(figure)


@fixed_style()
def timeline_figure(timelines: Sequence[Timeline], thresholds: DiagnosticThresholds) -> Figure:
    """Accuracy, ‖h_L‖, growth and ‖g_L‖ over epochs, a curve per run; dotted: first fires."""
    names, styles = _variants(timelines)
    kinds: dict[str, str] = {}
    for one in timelines:
        kinds |= one.evidence
    signs: Signs = {"first fires": {"linestyle": ":"}}
    figure, axes = page(f"Diagnostics over {common_unit(timelines)}s", styles, 4, 2, signs)
    for panel, what in zip(axes, named("acc", "h_L", "growth", "g_L"), strict=True):
        curves = [_numbers(map(attrgetter(what.column), one.points)) for one in timelines]
        prepare(panel, what, kinds)
        _over_epochs(panel, timelines, curves, [styles[name] for name in names])
        finish(panel, what, thresholds)
        for one, name in zip(timelines, names, strict=True):
            if (fire := one.first_fire.get(what.letter)) is not None:
                panel.axvline(fire, color=styles[name].colour, linewidth=0.8, linestyle=":")
    return laid_out(figure)


PANELS_AT_MOST = 48
"""Panels of a figure, which take seconds to draw: deep Γ and a panel per layer."""


@fixed_style()
def gamma_figure(timelines: Sequence[Timeline]) -> Figure:
    """Deep Γ and Γ_l over epochs, a curve per run; dotted: the same of that run under random
    feedback; at most `PANELS_AT_MOST` panels.

    Runs with a single logged Γ are left out.
    """
    drawn = [one for one in timelines if one.gamma_per_layer]
    names, styles = _variants(drawn)
    layers = max((len(point.gamma) for one in drawn for point in one.points), default=0)
    # deep Γ, then Γ_l
    shown = range(min(1 + layers, PANELS_AT_MOST))
    signs: Signs = {}
    if any(one.null or one.null_gamma for one in drawn):
        signs["under random feedback"] = {"linestyle": ":"}
    figure, axes = page(f"Γ over {common_unit(drawn)}s", styles, len(shown), 3, signs)
    for panel, place in zip(axes, shown, strict=True):
        curves = []
        for one in drawn:
            gammas = ((point.deep_gamma, *point.gamma) for point in one.points)
            curves.append(_numbers(next(islice(values, place, None), None) for values in gammas))
        nulls = _numbers(next(islice(_nulls(one), place, None), None) for one in drawn)
        panel.set(title=f"Γ at l = {place - 1}")
        if not place:
            panel.set(title="deep Γ", ylabel="cosine")
        for name, null in zip(names, nulls, strict=True):
            if math.isfinite(null):
                panel.axhline(null, color=styles[name].colour, linewidth=0.8, linestyle=":")
        _over_epochs(panel, drawn, curves, [styles[name] for name in names])
    return laid_out(figure)


def _variants(timelines: Sequence[Timeline]) -> tuple[list[str], dict[str, MethodStyle]]:
    return variants([Condition(one.method, one.axes, one.collection) for one in timelines])


def _over_epochs(
    panel: Axes,
    timelines: Sequence[Timeline],
    curves: Sequence[Floats],
    styles: Sequence[MethodStyle],
) -> None:
    """Draw a curve per run, with its last point marked."""
    panel.set_xlabel(common_unit(timelines))
    panel.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
    for one, ys, style in zip(timelines, curves, styles, strict=True):
        xs = [point.epoch for point in one.points]
        plot(panel, xs, ys, style, alpha=panels.FAINT, markevery=slice(-1, None))


def _nulls(one: Timeline) -> Sequence[float | None]:
    """Deep Γ under random feedback, then Γ_l."""
    deep = one.null[0] if one.null else None
    return deep, *one.null_gamma


def _numbers(values: Iterable[object]) -> Floats:
    """Numbers as an array, NaN for None."""
    return np.array([*values], dtype=np.float64)
