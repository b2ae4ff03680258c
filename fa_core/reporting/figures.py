"""The figures of a paper's appendix by Matplotlib: from a table or traces to SVG, PDF and PNG."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fa_core.analysis.method_groups import collections, families, run_names, split_groups
from fa_core.facts.method_style import MethodStyle
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.diagnostics import BIT, BOUND, PROXY
from fa_core.numbers import brief
from fa_core.reporting import panels
from fa_core.reporting.panels import Panel, fixed_style, laid_out, page, plot, prepare, variants
from fa_core.sanitize import sanitize
from fa_core.table import Floats, Indices

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fa_core.analysis.timeline import EpochPoint, Timeline
    from fa_core.table import AuditTable

POINTS_AT_MOST = 200
"""More runs of one method than this are drawn as this many order statistics, smallest and largest
included."""

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
    """The four-panel audit figure: growth, ‖g_L‖, drift and accuracy, a marker per run, by
    ascending accuracy.

    Filled markers: the panel's diagnostic fires; half filled: it is undecided; grey: it was not
    measured. The groups of `split_groups` have backgrounds; thresholds are dashed, the side that
    fires is shaded; for (d) every run has a mark at its frozen baseline and one at the accuracy
    that the margin asks for. What was not measured is not drawn, and said.
    """
    rows = np.arange(len(table))
    names, styles = _variants(table, rows)
    acc: Floats = np.asarray(table.acc, dtype=np.float64)
    order = np.argsort(np.where(np.isfinite(acc), acc, -np.inf), kind="stable")
    xs = np.empty(len(order))
    xs[order] = rows
    markers = Markers(table, thresholds or DiagnosticThresholds(), names, styles, xs, rows)
    groups = dict(zip(panels.GROUPS.values(), split_groups(table), strict=True))
    named = {name: colour for name, colour in panels.GROUPS.items() if groups[colour].any()}
    signs = {**_faces(table, thresholds), **panels.BASELINES, **named}
    figure, axes = page("Four-diagnostic audit", styles, 2, 2, signs)
    for panel, what in zip(axes, (_GROWTH, _GRADIENT, _DRIFT, _ACCURACY), strict=True):
        panel.set_xlim(-0.8, max(len(order), 1) - 0.2)
        for colour, mask in groups.items():
            for x in xs[mask] if len(order) <= POINTS_AT_MOST else ():
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
    axes[3].set_xlabel(f"{axes[3].get_xlabel()}{_assumed(table)}")
    return laid_out(figure)


@fixed_style()
def layers_figure(table: AuditTable, thresholds: DiagnosticThresholds | None = None) -> Figure:
    """‖h_l‖ and ‖g_l‖ over layers, a curve per run.

    Of very many runs of a method, order statistics by the norm at the last layer are drawn.
    """
    thresholds = thresholds or DiagnosticThresholds()
    names, styles = _variants(table, range(len(table)))
    figure, axes = page("Norms over layers", styles, 1, 2, {})
    growth = (
        f"(a) residual stream (fires: growth > {brief(thresholds.h_norm_explosion_ratio)}× "
        "per block)"
    )
    shown = {
        "residual_norms": _STREAM._replace(title=growth, unit="median ‖h‖"),
        "bp_grad_norms": _GRADIENT._replace(
            title="(b) BP gradient (judged at the deepest layer)", unit="median ‖g‖"
        ),
    }
    for panel, (field, what) in zip(axes, shown.items(), strict=True):
        rows = {i: row for i in range(len(table)) if (row := table.report(i).stream(field))}
        deepest = max((len(row) - 1 for row in rows.values()), default=0)
        empty = f"({what.letter}) {'no finite norm' if rows else 'not measured'} on any run"
        prepare(panel, [*itertools.chain(*rows.values())], what, thresholds, empty)
        panel.set(xlabel="layer l", xlim=(-0.2, max(deepest, 1) + 0.2))
        panel.set_xticks(range(0, deepest + 1, max(1, math.ceil((deepest + 1) / 13))))
        last: Floats = np.asarray(getattr(table, what.column), dtype=np.float64)
        drawn = set[int]()
        for name in styles:
            mine = [i for i in rows if names[i] == name]
            drawn.update(_at_most(last, np.array(mine, dtype=np.intp)).tolist())
        for i in sorted(drawn):
            plot(panel, range(len(rows[i])), rows[i], styles[names[i]], alpha=panels.FAINT)
    return laid_out(figure)


@fixed_style()
def architecture_figure(
    table: AuditTable, thresholds: DiagnosticThresholds | None = None
) -> Figure:
    """‖h_L‖, ‖g_L‖ and accuracy (rows) by architecture (columns), the methods side by side, a
    marker per seed."""
    compared = ~table.controls
    if compared.any():
        table = table.select(compared)
    kinds = np.array(architectures(table))
    shown = list(dict.fromkeys(kinds.tolist()))[:COLUMNS_AT_MOST]
    names, styles = _variants(table, range(len(table)), without="arch")
    signs = {**_faces(table, thresholds), **panels.BASELINES}
    figure, axes = page("Architectures", styles, 3, len(shown), signs, height=1.75, share=True)
    for column, kind in enumerate(shown):
        rows = np.flatnonzero(kinds == kind)
        here = {names[i] for i in rows.tolist()}
        present = [name for name in styles if name in here]
        xs = _side_by_side(names, present, rows)
        markers = Markers(table, thresholds or DiagnosticThresholds(), names, styles, xs, rows)
        for panel, what in zip(
            axes[column :: len(shown)], (_STREAM, _GRADIENT, _ACCURACY), strict=True
        ):
            title = sanitize(kind)[: 80 // len(shown)] if what is _STREAM else ""
            unit = "" if column else what.unit
            below = present if what is _ACCURACY else []
            panel.set_xlim(-0.6, len(present) - 0.4)
            panels.name_places(panel, below, letters=96 // len(shown))
            own = what._replace(title=title, unit=unit)
            markers.draw(panel, own, also=getattr(table, what.column)[np.isin(kinds, shown)])
            for text in [*panel.texts] if column + 1 < len(shown) else ():
                # the threshold that all columns share is named at the right
                text.set_visible(text.get_position()[0] != panels.AT_RIGHT)
    return laid_out(figure)


@fixed_style()
def rescue_figure(table: AuditTable, thresholds: DiagnosticThresholds | None = None) -> Figure:
    """The penalty's rescue: accuracy, growth and ‖g_L‖ of every condition (method and λ), a marker
    per seed.

    Lines in the panel of accuracies: the mean frozen baseline, the margin above it that (d) asks
    for, and BP without the penalty, where they are known. Methods that are judged by different
    baselines have marks at each run's instead.
    """
    thresholds = thresholds or DiagnosticThresholds()
    drawn = [family.rows for family in families(table, "lam")]
    rows = np.array(sorted(set(itertools.chain(*drawn))), dtype=np.intp)
    names, styles = _variants(table, rows.tolist())
    conditions = {
        name: (str(table.method[i]), table.axes[i].get("lam") or 0.0) for i, name in names.items()
    }
    places = sorted(conditions, key=conditions.__getitem__)
    styles = {name: styles[name] for name in places}
    plain_bp = [
        i for i in range(len(table)) if table.method[i] == "bp" and not table.axes[i].get("lam")
    ]
    baselines, methods = np.asarray(table.baseline)[rows], table.method[rows]
    means = [_mean(baselines[methods == method]) for method in set(methods)]
    different = np.ptp([mean for mean in means if math.isfinite(mean)] or [0.0]) > 1e-9
    baseline, pp = math.nan if different else _mean(baselines), thresholds.frozen_acc_margin_pp
    levels = {
        "frozen": baseline,
        f"{pp:+g} pp": baseline + pp / 100,
        "BP": _mean(np.asarray(table.acc)[plain_bp]),
    }
    levels = {name: level for name, level in levels.items() if math.isfinite(level)}
    faces = _faces(table.select(rows), thresholds)
    signs = {**faces, **(panels.BASELINES if different else {})}
    figure, axes = page("Penalty rescue", styles, 1, 3, signs)
    markers = Markers(table, thresholds, names, styles, _side_by_side(names, places, rows), rows)
    for panel, what in zip(axes, _COURSES, strict=True):
        panel.set_xlim(-0.6, max(len(places), 1) - 0.4)
        panels.name_places(panel, places, letters=24)
        crossed = levels if what.letter == "d" else {}
        markers.draw(panel, what, also=[*crossed.values()], baselines=bool(different))
        panels.level_lines(panel, crossed)
    return laid_out(figure)


@fixed_style()
def axis_figure(
    table: AuditTable, axis: str, thresholds: DiagnosticThresholds | None = None
) -> Figure:
    """Accuracy, growth and ‖g_L‖ against a second axis (the penalty λ, width, depth), in the order
    of its values.

    One line per family: runs that differ along this axis and in nothing else (see `families`); it
    joins the means over their seeds. Families with a single point are left out. Runs without the
    axis are at the left (no penalty, for λ).
    """
    drawn = families(table, axis)
    named, styles = variants((family.method, family.axes) for family in drawn)
    names = {i: name for family, name in zip(drawn, named, strict=True) for i in family.rows}
    places = _places({table.axes[i].get(axis) for i in names})
    signs = {**_faces(table, thresholds), **panels.BASELINES, "mean over seeds": {"linestyle": "-"}}
    figure, axes = page(f"Audit against {axis}", styles, 1, 3, signs)
    # a run without λ has no penalty; one without another axis has whatever its default is
    unset = "none" if axis == "lam" else "unset"
    labels = [unset if value is None else str(value) for value in places]
    rows, xs = np.array([*names], dtype=np.intp), np.zeros(len(table))
    xs[rows] = [places.index(table.axes[i].get(axis)) for i in rows]
    markers = Markers(table, thresholds or DiagnosticThresholds(), names, styles, xs, rows)
    for panel, what in zip(axes, _COURSES, strict=True):
        panel.set(xlabel=AXIS_NAMES.get(axis, axis), xlim=(-0.4, max(len(places), 1) - 0.6))
        panels.name_places(panel, labels, letters=24)
        markers.draw(panel, what)
        values: Floats = np.asarray(getattr(table, what.column), dtype=np.float64)
        for family, name in zip(drawn, named, strict=True):
            mine = np.array(family.rows)
            known = mine[np.isfinite(values[mine])]
            at = sorted(set(xs[known].tolist()))
            means = [_mean(values[known[xs[known] == x]]) for x in at]
            plot(panel, at, means, styles[name], alpha=panels.FAINT, marker="")
    return laid_out(figure)


@fixed_style()
def timeline_figure(
    timelines: Sequence[Timeline], thresholds: DiagnosticThresholds | None = None
) -> Figure:
    """Accuracy, ‖h_L‖, growth and ‖g_L‖ over epochs, a curve per run; dotted where a diagnostic
    first fires."""
    thresholds = thresholds or DiagnosticThresholds()
    names, styles = variants((one.method, one.axes) for one in timelines)
    kinds = {letter: kind for one in timelines for letter, kind in one.evidence.items()}
    figure, axes = page(
        "Diagnostics over epochs", styles, 2, 2, {"first fires": {"linestyle": ":"}}
    )
    for panel, what in zip(axes, (_COURSES[0], _STREAM, *_COURSES[1:]), strict=True):
        curves = []
        for one in timelines:
            curves.append(_numbers(getattr(point, what.column) for point in one.points))
        prepare(
            panel,
            [*itertools.chain(*curves)],
            _as_known(what, kinds),
            thresholds,
            "not in these traces",
        )
        _over_epochs(panel, timelines, curves, [styles[name] for name in names])
        for one, name in zip(timelines, names, strict=True):
            if what.limit and (fire := one.first_fire.get(what.letter)) is not None:
                panel.axvline(fire, color=styles[name].colour, linewidth=0.8, linestyle=":")
    return laid_out(figure)


@fixed_style()
def gamma_figure(timelines: Sequence[Timeline]) -> Figure:
    """Deep Γ and Γ_l over epochs, a curve per run; shaded: two standard deviations of the widest
    null.

    A layer's null is √m times as wide as that of a mean over m layers. A single Γ that a log holds
    is of no layer.
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
    signs = {"null ± 2 std": panels.NULL} if ends else {}
    figure, axes = page("Γ over epochs", styles, math.ceil(len(shown) / 3), 3, signs)
    for panel, layer in itertools.zip_longest(axes, shown):
        if layer is None:
            panel.set_visible(False)
            continue
        panel.set(title="deep Γ" if layer < 0 else f"Γ at l = {layer}", ylabel="cosine")
        curves = []
        for one in drawn:
            curves.append(_numbers(_gamma_at(point, layer) for point in one.points))
        band = ends
        if layer >= 0:
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
    """A curve per run, each with its last point marked."""
    epochs = [point.epoch for one in timelines for point in one.points]
    panel.set(xlabel="epoch", xlim=(min(epochs, default=0) - 0.5, max(epochs, default=1) + 0.5))
    panel.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
    for one, ys, style in zip(timelines, curves, styles, strict=True):
        plot(
            panel,
            [point.epoch for point in one.points],
            ys,
            style,
            alpha=panels.FAINT,
            markevery=slice(-1, None),
        )


def _gamma_at(point: EpochPoint, layer: int) -> float | None:
    """Γ_l of an epoch; deep Γ for −1."""
    if layer < 0:
        return point.deep_gamma
    if layer < len(point.gamma):
        return point.gamma[layer]
    return None


FIGURES: Mapping[str, Callable[[AuditTable, DiagnosticThresholds | None], Figure]] = {
    "audit": audit_figure,
    "layers": layers_figure,
    "architectures": architecture_figure,
    "rescue": rescue_figure,
}
"""The figures of a table by name; those over an axis are called like it, `timeline` is of
traces."""


def architectures(table: AuditTable) -> list[str]:
    """Each run's network: its axis, what was measured, or else the file or folder that it is in."""
    homes = collections(table)
    known = (
        table.axes[i].get("arch") or table.report(i).provenance.get("arch")
        for i in range(len(table))
    )
    return [str(name or PurePath(home).stem) for name, home in zip(known, homes, strict=True)]


class Markers(NamedTuple):
    """Runs as markers.

    Attributes:
        table: the runs.
        thresholds: what judges them.
        names: of those that are drawn, by their place in the table.
        styles: by name.
        xs: where every run of the table is drawn.
        rows: the runs that are drawn.
    """

    table: AuditTable
    thresholds: DiagnosticThresholds
    names: Mapping[int, str]
    styles: Mapping[str, MethodStyle]
    xs: Floats
    rows: Indices

    def draw(
        self, panel: Axes, what: Panel, also: Sequence[float] | Floats = (), baselines: bool = True
    ) -> None:
        """A marker per run in a panel: filled where its diagnostic fires, half filled where it is
        undecided.

        It is grey where that was not measured. What has no finite number is noted.

        Args:
            panel: where.
            what: its number.
            also: what the axis has to show besides.
            baselines: whether (d) has marks at every run's frozen baseline, and where its margin is
                met.
        """
        table, rows, bit = self.table, self.rows, BIT[what.letter]
        values: Floats = np.asarray(getattr(table, what.column), dtype=np.float64)
        fires = (table.flags(self.thresholds) & bit) != 0
        measured = (table.coverage & bit) != 0
        doubtful = (table.undecided(self.thresholds) & bit) != 0
        floors: Floats = np.asarray(table.baseline, dtype=np.float64)
        margin = self.thresholds.frozen_acc_margin_pp / 100
        if what.letter == "d" and baselines:
            marks = {panels.MUTED: floors, panels.LIMIT: floors + margin}
        else:
            marks = {}
        shown = [*values[rows], *also]
        for mark in marks.values():
            shown += [*mark[rows]]
        named = _as_known(what, table.kinds)
        prepare(panel, shown, named, self.thresholds, f"({what.letter}) not measured on any run")
        for colour, mark in marks.items():
            known = rows[np.isfinite(mark[rows])]
            look: dict[str, Any] = {
                "linestyle": "none",
                "marker": "_",
                "markersize": 5,
                "zorder": 1.5,
            }
            panel.plot(self.xs[known], mark[known], color=colour, **look)
        finite = rows[np.isfinite(values[rows])]
        for name, style in self.styles.items():
            mine = _at_most(values, finite[[self.names[i] == name for i in finite.tolist()]])
            faces = {panels.UNMEASURED: ~measured, "white": measured & ~fires, style.colour: fires}
            for face, are in faces.items():
                some = mine[(are & ~doubtful)[mine]]
                plot(
                    panel,
                    self.xs[some],
                    values[some],
                    style,
                    linestyle="none",
                    markerfacecolor=face,
                )
            some = mine[doubtful[mine]]
            plot(panel, self.xs[some], values[some], style, linestyle="none", **panels.HALF)
        if len(finite) and len(rows) <= NAMED_AT_MOST:
            for i in rows[~np.isfinite(values[rows])].tolist():
                self._note_missing(panel, i, bit)

    def _note_missing(self, panel: Axes, run: int, bit: int) -> None:
        """Note below a run without a finite number whether it was measured."""
        note, colour = "N/A", panels.MUTED
        if self.table.nonfinite[run] & bit:
            note, colour = "NaN/inf", panels.LIMIT
        word = panel.text(self.xs[run], 0.02, note, transform=panel.get_xaxis_transform())
        word.set(color=colour, fontsize=6, rotation=90, ha="center", va="bottom")


def _as_known(what: Panel, kinds: Mapping[str, str]) -> Panel:
    """A panel of a number that its diagnostic judges; it says where some runs have a bound or a
    proxy in its place."""
    kind = kinds.get(what.letter)
    if not what.limit or kind not in (BOUND, PROXY):
        return what
    unit, more = what.unit.replace("‖g_L‖", "‖g‖"), f", or its {kind}"
    if what.title:
        return what._replace(title=what.title.replace("deepest ", "") + more, unit=unit)
    return what._replace(unit=unit and unit + more)


def _faces(table: AuditTable, thresholds: DiagnosticThresholds | None) -> dict[str, Any]:
    """What the faces of markers mean: half filled and grey ones only where there may be some."""
    numbers = {"a": table.h_L, "b": table.g_L, "c": table.stability, "d": table.acc}
    known = {**panels.FILLED, **(panels.UNDECIDED if table.undecided(thresholds).any() else {})}
    for letter, values in numbers.items():
        unmeasured = (table.coverage & BIT[letter]) == 0
        # an accuracy without a baseline, say
        if (np.isfinite(values) & unmeasured).any():
            return {**known, **panels.UNJUDGED}
    return known


def _variants(
    table: AuditTable, rows: Iterable[int], without: str = ""
) -> tuple[dict[int, str], dict[str, MethodStyle]]:
    """The names of some runs as `variants` gives them, and their styles; one axis may be left
    out."""
    runs = {}
    for i in rows:
        axes = {name: value for name, value in table.axes[i].items() if name != without}
        runs[i] = (str(table.method[i]), axes)
    names, styles = variants(runs.values())
    return dict(zip(runs, names, strict=True)), styles


def _side_by_side(names: Mapping[int, str], places: Sequence[str], rows: Indices) -> Floats:
    """For every run the place of its name, runs of one name side by side within ±0.28."""
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
    """``, baseline assumed``, where it was not measured."""
    runs, judged_by_it = int(table.assumed.sum()), int(table.measured("margin_pp").sum())
    if not runs:
        return ""
    if runs == judged_by_it:
        return ", baseline assumed"
    return f", baseline assumed on {runs} of {judged_by_it} runs"


def _at_most(values: Floats, rows: Indices) -> Indices:
    """All rows, or as many evenly spaced order statistics of them as a strip can show."""
    if len(rows) <= POINTS_AT_MOST:
        return rows
    kept = np.linspace(0, len(rows) - 1, POINTS_AT_MOST).round().astype(int)
    ranked: Indices = rows[np.argsort(values[rows], kind="stable")][kept]
    return ranked


def _places(found: Collection[object]) -> list[object]:
    """The values of an axis in order: none, numbers, words."""
    numbers = sorted(v for v in found if isinstance(v, (int, float)))
    words = sorted(map(str, {*found} - {None, *numbers}))
    unset = {None}.intersection(found)
    return [*unset, *numbers, *words]


def _numbers(values: Iterable[float | None]) -> Floats:
    """NaN where there is none."""
    return np.array([*values], dtype=np.float64)
