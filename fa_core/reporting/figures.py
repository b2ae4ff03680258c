"""The figures of a paper's appendix, drawn by Matplotlib from a table or traces."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fa_core.analysis.method_groups import collections, families, run_names, split_groups
from fa_core.analysis.student import student_quantile
from fa_core.facts.method_style import MethodStyle
from fa_core.facts.published_names import published_name
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.diagnostics import BIT, BOUND, LETTERS, PROXY
from fa_core.numbers import brief
from fa_core.reporting import panels
from fa_core.reporting.panels import (
    Look,
    Panel,
    Signs,
    fixed_style,
    laid_out,
    page,
    plot,
    prepare,
    variants,
)
from fa_core.sanitize import sanitize
from fa_core.table import Floats, Indices, Mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fa_core.analysis.timeline import EpochPoint, Timeline
    from fa_core.table import AuditTable

POINTS_AT_MOST = 200
"""More runs of one method are drawn as this many order statistics, with both extremes."""

LAYERS_AT_MOST = 11
"""Of more layers, this many are drawn, with the first and the last."""

NAMED_AT_MOST = 45
"""Up to this many runs side by side have names and notes of missing numbers."""

COLUMNS_AT_MOST = 4
"""Architectures side by side."""

AXIS_NAMES = {"lam": "penalty λ", "d": "width d", "L": "depth L", "arch": "architecture"}
"""Second axis → its name below a figure."""

_GROWTH = Panel(attrgetter("growth"), "(a) growth per block", "ratio", "a")

_GRADIENT = Panel(attrgetter("g_L"), "(b) deepest BP gradient norm", "median ‖g_L‖", "b")

_DRIFT = Panel(
    attrgetter("stability"), "(c) drift between batches", "mean pairwise cosine", "c", log=False
)

_ACCURACY = Panel(
    attrgetter("acc"), "(d) accuracy over frozen blocks", "fraction", "d", limit=False, log=False
)

_MARGIN = Panel(
    attrgetter("margin_pp"), "(d) margin over frozen blocks", "percentage points", "d", log=False
)

_JUDGED = (_GROWTH, _GRADIENT, _DRIFT, _MARGIN)

_STREAM = Panel(
    attrgetter("h_L"), "residual norm at the last layer", "median ‖h_L‖", "a", limit=False
)

_COURSES = (_ACCURACY._replace(title="(d) accuracy"), _GROWTH, _GRADIENT)
"""Panels of figures over an axis, conditions or epochs."""


@fixed_style()
def audit_figure(table: AuditTable, thresholds: DiagnosticThresholds | None = None) -> Figure:
    """The audit figure: growth, ‖g_L‖, drift and accuracy, a marker per run, by ascending accuracy.

    A filled marker fires in its panel, a half filled one is undecided, a grey one was not measured.
    The groups of `split_groups` have backgrounds. Thresholds are dashed, their firing sides shaded.
    For (d) every run has marks at its frozen baseline and at the accuracy that passes. Missing
    numbers are noted.
    """
    rows = np.arange(len(table))
    names, styles = _variants(table, rows)
    acc: Floats = np.asarray(table.acc, dtype=np.float64)
    order = np.argsort(np.where(np.isfinite(acc), acc, -np.inf), kind="stable")
    xs = np.empty(len(order))
    xs[order] = rows
    markers = Markers(table, thresholds or DiagnosticThresholds(), names, styles, xs, rows)
    signs: Signs = {**_faces(table, thresholds), **panels.BASELINES}
    groups = dict(zip(panels.GROUPS.values(), split_groups(table), strict=True))
    for name, colour in panels.GROUPS.items():
        if groups[colour].any():
            signs[name] = colour
    figure, axes = page("Four-diagnostic audit", styles, 2, 2, signs)
    for panel, what in zip(axes, (_GROWTH, _GRADIENT, _DRIFT, _ACCURACY), strict=True):
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
    last.set_xlabel(last.get_xlabel() + _assumed(table))
    return laid_out(figure)


@fixed_style()
def methods_figure(
    table: AuditTable, thresholds: DiagnosticThresholds | None = None, letters: str = LETTERS
) -> Figure:
    """The four numbers of every method: a marker per seed, a bar for the 95 % interval of the mean.

    Limits are dashed, their firing sides shaded. Controls are left out; what was not measured is
    absent. Means and intervals of growth and ‖g_L‖ are of their logarithms.

    Args:
        table: n runs.
        thresholds: default: the protocol's.
        letters: the diagnostics that are drawn.

    Source: Student's t over seeds.
    """
    thresholds = thresholds or DiagnosticThresholds()
    if not table.controls.all():
        table = table.select(~table.controls)
    rows = np.arange(len(table))
    names, styles = _variants(table, rows)
    drawn = [what for what in _JUDGED if _is_drawn(what, table, letters)] or [_GROWTH]
    signs = _faces(table, thresholds)
    signs.pop("grey: not measured", None)
    signs["bar: 95 % interval of the mean over seeds"] = _BAR
    columns = min(len(drawn), 2)
    rows_of_panels = math.ceil(len(drawn) / columns)
    printed = _printed(table, names)
    # names that do not fit below the panels are in the legend
    fits = len(styles) <= _LETTERS * 0.8
    named = {} if fits else {printed[name]: styles[name] for name in styles}
    figure, axes = page("Diagnostics of methods", named, rows_of_panels, columns, signs)
    markers = Markers(table, thresholds, names, styles, _side_by_side(names, [*styles], rows), rows)
    columns = axes[0].get_subplotspec().get_gridspec().ncols  # type: ignore[union-attr]
    for place, panel in enumerate(axes):
        panel.set_visible(place < len(drawn))
        is_lowest = place + columns >= len(drawn)
        panels.name_places(panel, [printed[name] for name in styles] if is_lowest else [], _LETTERS)
        panel.set_xlim(-0.6, max(len(styles), 1) - 0.4)
    for panel, what in zip(axes, drawn, strict=False):
        bars = [_interval(table, what, _rows_of(names, name)) for name in styles]
        markers.draw(panel, what, list(itertools.chain(*bars)), baselines=False, absent=True)
        for place, (name, ends) in enumerate(zip(styles, bars, strict=True)):
            panel.plot([place] * len(ends), ends, **{**_BAR, "color": styles[name].colour})
    last = axes[len(drawn) - 1]
    last.set_xlabel((last.get_xlabel() + _assumed(table)).removeprefix(", "))
    return laid_out(figure)


_LETTERS = 48
"""Letters below a panel; methods, where their names stand upright."""

_BAR: Look = {"linestyle": "-", "linewidth": 3, "alpha": 0.35, "zorder": 1.5}


def _is_drawn(what: Panel, table: AuditTable, letters: str) -> bool:
    measured = (table.coverage & BIT[what.letter]) != 0
    return what.letter in letters and bool(measured.any())


def _printed(table: AuditTable, names: Mapping[int, str]) -> dict[str, str]:
    """Name of a variant → the same with the method's name in print."""
    printed = {}
    for i, name in names.items():
        method = str(table.method[i])
        printed[name] = published_name(method) + name.removeprefix(method)
    return printed


def _rows_of(names: Mapping[int, str], name: str) -> list[int]:
    return [i for i, own in names.items() if own == name]


def _interval(table: AuditTable, what: Panel, rows: Sequence[int]) -> tuple[float, ...]:
    """The 95 % interval of a mean over runs by Student's t; of logarithms on a log scale.

    Empty for fewer than two runs, and where a number is not finite, or not positive on a log scale.
    """
    values = _column(table, what)[rows]
    known = values[np.isfinite(values)]
    is_broken = bool((table.nonfinite[rows] & BIT[what.letter]).any())
    if is_broken or len(known) < 2 or (what.log and known.min() <= 0):
        return ()
    if what.log:
        known = np.log10(known)
    mean = float(known.mean())
    error = float(known.std(ddof=1)) / math.sqrt(len(known))
    reach = student_quantile(0.975, len(known) - 1) * error
    if not what.log:
        return mean - reach, mean + reach
    return 10.0 ** max(mean - reach, -300.0), 10.0 ** min(mean + reach, 300.0)


def default_figure(table: AuditTable) -> str:
    """``methods`` for runs of which some are seeds of the same method, else ``audit``."""
    names, styles = _variants(table, range(len(table)))
    return "methods" if len(styles) < len(names) else "audit"


@fixed_style()
def layers_figure(table: AuditTable, thresholds: DiagnosticThresholds | None = None) -> Figure:
    """‖h_l‖ and ‖g_l‖ over layers, a curve per run.

    Many runs of a method are drawn as order statistics by the norm at the last layer.
    """
    thresholds = thresholds or DiagnosticThresholds()
    names, styles = _variants(table, range(len(table)))
    figure, axes = page("Norms over layers", styles, 1, 2, {})
    limit = brief(thresholds.h_norm_explosion_ratio)
    growth = f"(a) residual stream (fires: > {limit}× per block)"
    gradient = "(b) BP gradient (judged at the deepest layer)"
    shown = {
        "residual_norms": _STREAM._replace(title=growth, unit="median ‖h‖"),
        "bp_grad_norms": _GRADIENT._replace(title=gradient, unit="median ‖g‖"),
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
        last = _column(table, what)
        drawn = set[int]()
        for name in styles:
            mine = [i for i in rows if names[i] == name]
            drawn.update(_at_most(last, np.array(mine, dtype=np.intp)).tolist())
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
    names, styles = _variants(table, range(len(table)), without="arch")
    signs = {**_faces(table, thresholds), **panels.BASELINES}
    figure, axes = page("Architectures", styles, 3, len(shown), signs, height=1.75, share=True)
    for column, kind in enumerate(shown):
        rows = np.flatnonzero(kinds == kind)
        here = set(map(names.__getitem__, rows.tolist()))
        present = [name for name in styles if name in here]
        xs = _side_by_side(names, present, rows)
        markers = Markers(table, thresholds or DiagnosticThresholds(), names, styles, xs, rows)
        stacked = axes[column :: len(shown)]
        for panel, what in zip(stacked, (_STREAM, _GRADIENT, _ACCURACY), strict=True):
            own = what._replace(title="")
            if what is _STREAM:
                own = what._replace(title=sanitize(kind)[: 80 // len(shown)])
            if column:
                own = own._replace(unit="")
            below = present if what is _ACCURACY else []
            panel.set_xlim(-0.6, len(present) - 0.4)
            panels.name_places(panel, below, letters=96 // len(shown))
            markers.draw(panel, own, also=_column(table, what)[in_figure])
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
    names, styles = _variants(table, rows.tolist())
    conditions = {}
    for i, name in names.items():
        conditions[name] = (str(table.method[i]), table.axes[i].get("lam") or 0.0)
    places = sorted(conditions, key=conditions.__getitem__)
    styles = {name: styles[name] for name in places}
    different = _by_different_baselines(table, rows)
    levels = {}
    signs = _faces(table.select(rows), thresholds)
    if different:
        signs |= panels.BASELINES
    else:
        baseline = _mean(table.baseline[rows])
        margin = thresholds.frozen_acc_margin_pp
        levels["frozen"] = baseline
        levels[f"{margin:+g} pp"] = baseline + margin / 100
    plain_bp = [i for i in np.flatnonzero(table.method == "bp") if not table.axes[i].get("lam")]
    levels["BP"] = _mean(table.acc[plain_bp])
    levels = {name: level for name, level in levels.items() if math.isfinite(level)}
    figure, axes = page("Penalty rescue", styles, 1, 3, signs)
    markers = Markers(table, thresholds, names, styles, _side_by_side(names, places, rows), rows)
    for panel, what in zip(axes, _COURSES, strict=True):
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
        mean = _mean(baselines[methods == method])
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
    signs: Signs = {**_faces(table, thresholds), **panels.BASELINES}
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
    for panel, what in zip(axes, _COURSES, strict=True):
        panel.set(xlabel=AXIS_NAMES.get(axis, axis), xlim=(-0.4, max(len(places), 1) - 0.6))
        panels.name_places(panel, labels, letters=24)
        markers.draw(panel, what)
        values = _column(table, what)
        for family, name in zip(drawn, named, strict=True):
            mine = np.array(family.rows)
            known = mine[np.isfinite(values[mine])]
            at = np.unique(xs[known])
            means = [_mean(values[known[xs[known] == x]]) for x in at]
            plot(panel, at, means, styles[name], alpha=panels.FAINT, marker="")
    return laid_out(figure)


@fixed_style()
def timeline_figure(
    timelines: Sequence[Timeline], thresholds: DiagnosticThresholds | None = None
) -> Figure:
    """Accuracy, ‖h_L‖, growth and ‖g_L‖ over epochs, a curve per run; dotted: first fires."""
    thresholds = thresholds or DiagnosticThresholds()
    names, styles = variants((one.method, one.axes) for one in timelines)
    kinds: dict[str, str] = {}
    for one in timelines:
        kinds |= one.evidence
    signs: Signs = {"first fires": {"linestyle": ":"}}
    figure, axes = page("Diagnostics over epochs", styles, 2, 2, signs)
    for panel, what in zip(axes, (_COURSES[0], _STREAM, *_COURSES[1:]), strict=True):
        curves = []
        for one in timelines:
            curves.append(_numbers(map(what.of, one.points)))
        shown = [*itertools.chain(*curves)]
        prepare(panel, shown, _as_known(what, kinds), thresholds, "not in these traces")
        _over_epochs(panel, timelines, curves, [styles[name] for name in names])
        for one, name in zip(timelines, names, strict=True):
            if what.limit and (fire := one.first_fire.get(what.letter)) is not None:
                panel.axvline(fire, color=styles[name].colour, linewidth=0.8, linestyle=":")
    return laid_out(figure)


@fixed_style()
def gamma_figure(timelines: Sequence[Timeline]) -> Figure:
    """Deep Γ and Γ_l over epochs, a curve per run; shaded: two standard deviations of the widest
    null.

    A layer's null is √m times as wide as that of a mean over m layers. Runs with a single logged Γ
    are left out.
    """
    drawn = [one for one in timelines if one.gamma_per_layer]
    names, styles = variants((one.method, one.axes) for one in drawn)
    layers = max((len(point.gamma) for one in drawn for point in one.points), default=0)
    ends = []
    for one in drawn:
        if one.null:
            mean, std = one.null
            ends += [mean - 2 * std, mean + 2 * std]
    spaced = np.linspace(0, layers - 1, min(layers, LAYERS_AT_MOST)).round().astype(int)
    shown = [-1, *np.unique(spaced).tolist()]
    signs: Signs = {}
    if ends:
        signs["null ± 2 std"] = panels.NULL
    figure, axes = page("Γ over epochs", styles, math.ceil(len(shown) / 3), 3, signs)
    for panel in axes[len(shown) :]:
        panel.set_visible(False)
    for panel, layer in zip(axes, shown, strict=False):
        curves = []
        for one in drawn:
            curves.append(_numbers(_gamma_at(point, layer) for point in one.points))
        panel.set(title="deep Γ", ylabel="cosine")
        band = ends
        if layer >= 0:
            panel.set(title=f"Γ at l = {layer}")
            band = [end * math.sqrt(max(layers - 1, 1)) for end in ends]
        panels.fit(panel, [*itertools.chain(*curves), *band, 0.0])
        if band:
            panel.axhspan(min(band), max(band), color=panels.NULL, linewidth=0)
        _over_epochs(panel, drawn, curves, [styles[name] for name in names])
    return laid_out(figure)


def _over_epochs(
    panel: Axes,
    timelines: Sequence[Timeline],
    curves: Sequence[Floats],
    styles: Sequence[MethodStyle],
) -> None:
    """Draw a curve per run, with its last point marked."""
    epochs = [point.epoch for one in timelines for point in one.points]
    panel.set(xlabel="epoch", xlim=(min(epochs, default=0) - 0.5, max(epochs, default=1) + 0.5))
    panel.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
    for one, ys, style in zip(timelines, curves, styles, strict=True):
        xs = [point.epoch for point in one.points]
        plot(panel, xs, ys, style, alpha=panels.FAINT, markevery=slice(-1, None))


def _gamma_at(point: EpochPoint, layer: int) -> float | None:
    """Γ_l of an epoch; deep Γ for −1."""
    if layer < 0:
        return point.deep_gamma
    if layer < len(point.gamma):
        return point.gamma[layer]
    return None


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

    def draw(
        self,
        panel: Axes,
        what: Panel,
        also: Sequence[float] | Floats = (),
        baselines: bool = True,
        absent: bool = False,
    ) -> None:
        """Draw a marker per run: filled if its diagnostic fires, half filled if undecided.

        It is grey if the diagnostic was not measured. Missing numbers are noted.

        Args:
            panel: where to draw.
            what: the panel's number.
            also: further values on the axis.
            baselines: whether (d) has marks at frozen baselines and at accuracies that pass.
            absent: whether nothing is noted where a number was not measured.
        """
        table, rows, bit = self.table, self.rows, BIT[what.letter]
        values = _column(table, what)
        marks = {}
        if what.letter == "d" and baselines:
            margin = self.thresholds.frozen_acc_margin_pp / 100
            marks = {panels.MUTED: table.baseline, panels.LIMIT: table.baseline + margin}
        shown = [*values[rows], *also]
        for mark in marks.values():
            shown += [*mark[rows]]
        named = _as_known(what, table.kinds)
        prepare(panel, shown, named, self.thresholds, f"({what.letter}) not measured on any run")
        for colour, mark in marks.items():
            known = rows[np.isfinite(mark[rows])]
            panel.plot(
                self.xs[known],
                mark[known],
                color=colour,
                linestyle="none",
                marker="_",
                markersize=5,
                zorder=1.5,
            )
        finite = rows[np.isfinite(values[rows])]
        for name, style in self.styles.items():
            is_mine = [self.names[i] == name for i in finite.tolist()]
            mine = _at_most(values, finite[is_mine])
            for look, are in self._looks(style, bit):
                some = mine[are[mine]]
                plot(panel, self.xs[some], values[some], style, linestyle="none", **look)
        if len(finite) and len(rows) <= NAMED_AT_MOST:
            for i in rows[~np.isfinite(values[rows])].tolist():
                if not absent or table.nonfinite[i] & bit:
                    self._note_missing(panel, i, bit)

    def _looks(self, style: MethodStyle, bit: int) -> Iterator[tuple[Look, Mask]]:
        """Faces of a method's markers, each with the runs that have it."""
        table = self.table
        fires = (table.flags(self.thresholds) & bit) != 0
        measured = (table.coverage & bit) != 0
        undecided = (table.undecided(self.thresholds) & bit) != 0
        yield {"markerfacecolor": panels.UNMEASURED}, ~measured & ~undecided
        yield {"markerfacecolor": "white"}, measured & ~fires & ~undecided
        yield {"markerfacecolor": style.colour}, fires & ~undecided
        yield panels.HALF, undecided

    def _note_missing(self, panel: Axes, run: int, bit: int) -> None:
        """Note a missing number: N/A, or NaN/inf if it was measured."""
        note = "N/A"
        colour = panels.MUTED
        if self.table.nonfinite[run] & bit:
            note = "NaN/inf"
            colour = panels.LIMIT
        word = panel.text(self.xs[run], 0.02, note, transform=panel.get_xaxis_transform())
        word.set(color=colour, fontsize=6, rotation=90, ha="center", va="bottom")


def _as_known(what: Panel, kinds: Mapping[str, str]) -> Panel:
    """A panel whose title, or else unit, mentions bounds and proxies among a judged number."""
    kind = kinds.get(what.letter)
    if not what.limit or kind not in (BOUND, PROXY):
        return what
    title = what.title.replace("deepest ", "")
    unit = what.unit.replace("‖g_L‖", "‖g‖")
    if title:
        title += f", or its {kind}"
    elif unit:
        unit += f", or its {kind}"
    return what._replace(title=title, unit=unit)


def _faces(table: AuditTable, thresholds: DiagnosticThresholds | None) -> Signs:
    """Legend of the faces of markers; half filled and grey ones only if they can occur."""
    signs: Signs = dict(panels.FILLED)
    if table.undecided(thresholds).any():
        signs |= panels.UNDECIDED
    numbers = {"a": table.h_L, "b": table.g_L, "c": table.stability, "d": table.acc}
    for letter, values in numbers.items():
        unmeasured = (table.coverage & BIT[letter]) == 0
        # e.g. an accuracy without a baseline
        if (np.isfinite(values) & unmeasured).any():
            return signs | panels.UNJUDGED
    return signs


def _variants(
    table: AuditTable, rows: Iterable[int], without: str = ""
) -> tuple[dict[int, str], dict[str, MethodStyle]]:
    """Names and styles of some runs, from `variants`; one axis may be ignored."""
    runs = {}
    for i in rows:
        axes = dict(table.axes[i])
        axes.pop(without, None)
        runs[i] = (str(table.method[i]), axes)
    names, styles = variants(runs.values())
    return dict(zip(runs, names, strict=True)), styles


def _side_by_side(names: Mapping[int, str], places: Sequence[str], rows: Indices) -> Floats:
    """Position of every run: the place of its name, runs of one name spread by ±0.28."""
    xs = np.zeros(int(rows.max(initial=0)) + 1)
    for position, name in enumerate(places):
        mine = [i for i in rows.tolist() if names[i] == name]
        xs[mine] = position
        if len(mine) > 1:
            xs[mine] += np.linspace(-0.28, 0.28, len(mine))
    return xs


def _mean(values: Floats) -> float:
    known = values[np.isfinite(values)]
    if len(known):
        return float(known.mean())
    return math.nan


def _assumed(table: AuditTable) -> str:
    """``, baseline assumed``, if some are."""
    runs = int(table.assumed.sum())
    judged_by_it = int(table.measured("margin_pp").sum())
    if not runs:
        return ""
    if runs == judged_by_it:
        return ", baseline assumed"
    return f", baseline assumed on {runs} of {judged_by_it} runs"


def _at_most(values: Floats, rows: Indices) -> Indices:
    """All rows, or `POINTS_AT_MOST` evenly spaced order statistics of them."""
    if len(rows) <= POINTS_AT_MOST:
        return rows
    kept = np.linspace(0, len(rows) - 1, POINTS_AT_MOST).round().astype(int)
    ranked: Indices = rows[np.argsort(values[rows], kind="stable")][kept]
    return ranked


def _places(found: Collection[object]) -> list[object]:
    """Values of an axis in order: None, numbers, words."""
    numbers = sorted(v for v in found if isinstance(v, (int, float)))
    others = {*found}.difference(numbers)
    if None in others:
        others.remove(None)
        return [None, *numbers, *sorted(map(str, others))]
    return [*numbers, *sorted(map(str, others))]


def _numbers(values: Iterable[object]) -> Floats:
    """Numbers as an array, NaN for None."""
    return np.array([*values], dtype=np.float64)


def _column(table: AuditTable, what: Panel) -> Floats:
    """A panel's number of every run."""
    return np.asarray(what.of(table), dtype=np.float64)
