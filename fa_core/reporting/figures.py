"""The figures of a paper's appendix by Matplotlib: from a table or traces to SVG, PDF and PNG.

The same input gives the same bytes: style, font and ids are fixed, and no date or version is written.
"""

from __future__ import annotations

import io
import itertools
import math
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fa_core.analysis.method_groups import Family, collections, families, run_names, split_groups
from fa_core.baseline import CONTROLS
from fa_core.diagnostics import DIAGNOSTICS, DiagnosticThresholds
from fa_core.errors import printable
from fa_core.method_style import MARKERS, MethodStyle, method_styles
from fa_core.reporting.numbers import brief, plain
from fa_core.table import Floats, Indices

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fa_core.analysis.timeline import EpochPoint, Timeline
    from fa_core.table import AuditTable

FIGURE_KINDS = (".svg", ".pdf", ".png")
"""File endings that `rendered` knows."""

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

_NAMES_AT_MOST = 120
"""Names in a legend; it says how many more there are."""
_LARGEST, _WIDEST = 1e300, 301
"""Numbers beyond are drawn at this; the exponent where an axis ends. Floats end at 1e308."""

_INK, _MUTED, _LIMIT = "#1b1f24", "#57606a", "#c1121f"
_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 7,
    "text.color": _INK,
    # names of methods may hold dollar signs
    "text.parse_math": False,
    "axes.titlesize": 7.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 7,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "grid.color": "#e3e6ea",
    "grid.linewidth": 0.5,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "xtick.color": _MUTED,
    "ytick.color": _MUTED,
    "figure.constrained_layout.w_pad": 0.06,
    "figure.constrained_layout.h_pad": 0.06,
    "figure.constrained_layout.hspace": 0.03,
    "legend.frameon": False,
    "legend.fontsize": 7,
    "lines.linewidth": 1.0,
    "lines.markersize": 3.5,
    "lines.markeredgewidth": 0.8,
    "svg.hashsalt": "fa-tui",
    # letters as outlines look the same in every viewer; publishers refuse Type 3 fonts
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
}
_WITHOUT_DATES: Mapping[str, Mapping[str, None]] = {
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    ".png": {"Software": None},
}
_WIDTH, _LEGEND_LINE = 7.2, 0.155
"""Inches: the text width of most papers, and a line of the legend."""
_DOTS_PER_INCH = 200
"""Of PNG files."""
_LETTERS_ACROSS = 110
"""Letters of the legend that stand in one line."""
_AT_RIGHT = 1.01
"""Of a panel's width: where lines across it are named."""
_STYLING = threading.Lock()


@contextmanager
def _fixed_style() -> Iterator[None]:
    """Matplotlib's defaults with `_STYLE`, whatever the user's own settings are; they belong to the whole process."""
    import matplotlib

    with _STYLING, matplotlib.rc_context(), warnings.catch_warnings():
        # letters that the font does not have are drawn as boxes
        warnings.simplefilter("ignore")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def rendered(figure: Figure, kind: str = ".svg") -> bytes:
    """A figure as a file's content.

    Args:
        figure: one of this module's.
        kind: one of `FIGURE_KINDS`.
    """
    from matplotlib.backend_bases import get_registered_canvas_class

    content, ending = io.BytesIO(), kind[1:]
    with _fixed_style():
        canvas = get_registered_canvas_class(ending)(figure)
        figure.dpi = _DOTS_PER_INCH
        # not savefig, which draws twice, for a layout that is final here
        getattr(canvas, f"print_{ending}")(content, metadata={"Title": figure.get_label(), **_WITHOUT_DATES[kind]})
    return content.getvalue()


class Panel(NamedTuple):
    """What a panel shows.

    Attributes:
        column: of `AuditTable`.
        title: above it.
        unit: along it.
        letter: the diagnostic whose firing fills its markers.
        limit: whether that one's threshold is drawn: the panel shows the number that it judges.
        log: whether it has a log axis.
    """

    column: str
    title: str
    unit: str
    letter: str
    limit: bool = True
    log: bool = True


_GROWTH = Panel("growth", "(a) growth per block", "ratio", "a")
_GRADIENT = Panel("g_L", "(b) deepest BP gradient norm", "median ‖g_L‖", "b")
_DRIFT = Panel("stability", "(c) drift between batches", "mean pairwise cosine", "c", log=False)
_ACCURACY = Panel("acc", "(d) accuracy over frozen blocks", "fraction", "d", limit=False, log=False)
_STREAM = Panel("h_L", "residual norm at the last layer", "median ‖h_L‖", "a", limit=False)
_COURSES = (_ACCURACY._replace(title="(d) accuracy"), _GROWTH, _GRADIENT)
"""What follows an axis, conditions or the epochs."""


@_fixed_style()
def audit_figure(table: AuditTable, thresholds: DiagnosticThresholds | None = None) -> Figure:
    """The four-panel audit figure: growth, ‖g_L‖, drift and accuracy, a marker per run, by ascending accuracy.

    Filled markers: the panel's diagnostic fires. The groups of `split_groups` have backgrounds; thresholds are dashed,
    the side that fires is shaded; for (d) every run has a mark at its frozen baseline and one at the accuracy that the
    margin asks for. What was not measured is not drawn, and said.
    """
    thresholds = thresholds or DiagnosticThresholds()
    names, styles = _variants(zip(table.method.tolist(), table.axes.tolist(), strict=True))
    acc: Floats = np.asarray(table.acc, dtype=np.float64)
    order = np.argsort(np.where(np.isfinite(acc), acc, -np.inf), kind="stable")
    xs = np.empty(len(order))
    xs[order] = np.arange(len(order))
    groups = dict(zip(_GROUPS, split_groups(table), strict=True))
    figure, panels = _page("Four-diagnostic audit", styles, 2, 2, {**_FILLED, **_MARKS, **_GROUPS})
    for position, (panel, what) in enumerate(zip(panels, (_GROWTH, _GRADIENT, _DRIFT, _ACCURACY), strict=True)):
        below = position > 1
        assumed = _assumed(table) if what.letter == "d" else ""
        panel.set(xlabel=f"{len(order)} runs by ascending accuracy{assumed}" if below else "")
        panel.set_xlim(-0.8, max(len(order), 1) - 0.2)
        runs = run_names(table) if below and len(order) <= NAMED_AT_MOST else ()
        _name_places(panel, [runs[i] for i in order] if runs else [], letters=58)
        for (_, colour), mask in zip(_GROUPS.items(), groups.values(), strict=True):
            for x in xs[mask] if len(order) <= POINTS_AT_MOST else ():
                panel.axvspan(x - 0.5, x + 0.5, color=colour, linewidth=0, zorder=-2)
        _runs(panel, what, table, thresholds, xs, names, styles)
    return _laid_out(figure)


@_fixed_style()
def layers_figure(table: AuditTable, thresholds: DiagnosticThresholds | None = None) -> Figure:
    """‖h_l‖ and ‖g_l‖ over layers, a curve per run."""
    thresholds = thresholds or DiagnosticThresholds()
    names, styles = _variants(zip(table.method.tolist(), table.axes.tolist(), strict=True))
    figure, panels = _page("Norms over layers", styles, 1, 2)
    for panel, letter in zip(panels, "ab", strict=True):
        _layers(panel, table, letter, names, styles, thresholds)
    return _laid_out(figure)


@_fixed_style()
def architecture_figure(table: AuditTable, thresholds: DiagnosticThresholds | None = None) -> Figure:
    """‖h_L‖, ‖g_L‖ and accuracy (rows) by architecture (columns), the methods side by side, a marker per seed."""
    thresholds = thresholds or DiagnosticThresholds()
    compared = ~np.isin(table.method, CONTROLS)
    table = table.select(compared) if compared.any() else table
    kinds = architectures(table)
    shown = list(dict.fromkeys(kinds))[:COLUMNS_AT_MOST]
    axes = [{name: value for name, value in own.items() if name != "arch"} for own in table.axes.tolist()]
    names, styles = _variants(zip(table.method.tolist(), axes, strict=True))
    figure, panels = _page("Architectures", styles, 3, len(shown), {**_FILLED, **_MARKS}, height=1.75, share=True)
    for row, what in enumerate((_STREAM, _GRADIENT, _ACCURACY)):
        values = [float(getattr(table, what.column)[i]) for i, kind in enumerate(kinds) if kind in shown]
        for column, kind in enumerate(shown):
            panel, last = panels[row * len(shown) + column], row == 2
            mine = np.array([i for i, one in enumerate(kinds) if one == kind])
            present = [name for name in styles if any(names[i] == name for i in mine)]
            title = printable(kind)[: 80 // len(shown)] if row == 0 else ""
            own = what._replace(title=title, unit="" if column else what.unit)
            panel.set_xlim(-0.6, len(present) - 0.4)
            _name_places(panel, present if last else [], letters=96 // len(shown))
            _runs(panel, own, table, thresholds, _side_by_side(names, present, mine), names, styles, mine, values)
            for text in [*panel.texts] if column + 1 < len(shown) else ():
                # the threshold that all columns share is named at the right
                text.set_visible(text.get_position()[0] != _AT_RIGHT)
    return _laid_out(figure)


@_fixed_style()
def rescue_figure(table: AuditTable, thresholds: DiagnosticThresholds | None = None) -> Figure:
    """The penalty's rescue: accuracy, growth and ‖g_L‖ of every condition (method and λ), a marker per seed.

    Lines in the panel of accuracies: the mean frozen baseline, the margin above it that (d) asks for, and BP without
    the penalty, where they are known.
    """
    thresholds = thresholds or DiagnosticThresholds()
    rows = np.array(sorted({i for family in families(table, "lam") for i in family.rows}), dtype=np.intp)
    drawn, styles = _variants((str(table.method[i]), table.axes[i]) for i in rows)
    names = dict(zip(rows.tolist(), drawn, strict=True))
    conditions = sorted(
        {names[i]: (str(table.method[i]), table.axes[i].get("lam") or 0.0) for i in rows}.items(),
        key=lambda one: one[1],
    )
    places = [name for name, _ in conditions]
    styles = {name: styles[name] for name in places}
    figure, panels = _page("Penalty rescue", styles, 1, 3, _FILLED)
    plain_bp = [i for i in range(len(table)) if table.method[i] == "bp" and not table.axes[i].get("lam")]
    baseline, bp = _mean(np.asarray(table.baseline)[rows]), _mean(np.asarray(table.acc)[plain_bp])
    pp = thresholds.frozen_acc_margin_pp
    levels = {"frozen": baseline, f"{pp:+g} pp": baseline + pp / 100, "BP": bp}
    levels = {name: level for name, level in levels.items() if math.isfinite(level)}
    for panel, what in zip(panels, _COURSES, strict=True):
        panel.set_xlim(-0.6, max(len(places), 1) - 0.4)
        _name_places(panel, places, letters=24)
        xs = _side_by_side(names, places, rows)
        more = [*levels.values()] if what.letter == "d" else []
        _runs(
            panel, what, table, thresholds, xs, names, styles, rows, [*getattr(table, what.column)[rows], *more], False
        )
        _levels(panel, levels if what.letter == "d" else {})
    return _laid_out(figure)


@_fixed_style()
def axis_figure(table: AuditTable, axis: str, thresholds: DiagnosticThresholds | None = None) -> Figure:
    """Accuracy, growth and ‖g_L‖ against a second axis (the penalty λ, width, depth), in the order of its values.

    One line per family: runs that differ along this axis and in nothing else (see `families`); it joins the
    means over their seeds. Families with a single point are left out. Runs without the axis are at the left
    (no penalty, for λ).
    """
    thresholds = thresholds or DiagnosticThresholds()
    drawn = families(table, axis)
    named, styles = _variants((family.method, family.axes) for family in drawn)
    places = _places(table, axis, drawn)
    rows = np.array([i for family in drawn for i in family.rows], dtype=np.intp)
    names = {i: name for family, name in zip(drawn, named, strict=True) for i in family.rows}
    figure, panels = _page(
        f"Audit against {axis}", styles, 1, 3, {**_FILLED, **_MARKS, "mean over seeds": {"linestyle": "-"}}
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
        _name_places(panel, [unset if value is None else str(value) for value in places], letters=24)
        _runs(panel, what, table, thresholds, xs, names, styles, rows, values[rows].tolist(), empty=empty)
        for family, name in zip(drawn, named, strict=True):
            means = {
                position: _mean(values[[i for i in family.rows if xs[i] == position]])
                for position in range(len(places))
            }
            known = {position: mean for position, mean in means.items() if math.isfinite(mean)}
            _line(panel, [*known], [*known.values()], styles[name], at=())
    return _laid_out(figure)


@_fixed_style()
def timeline_figure(timelines: Sequence[Timeline], thresholds: DiagnosticThresholds | None = None) -> Figure:
    """Accuracy, growth and ‖g_L‖ over epochs, a curve per run; dotted where a run's diagnostic first fires."""
    thresholds = thresholds or DiagnosticThresholds()
    names, styles = _variants((one.method, one.axes) for one in timelines)
    epochs = [point.epoch for one in timelines for point in one.points]
    figure, panels = _page("Diagnostics over epochs", styles, 1, 3, {"first fires": {"linestyle": ":"}})
    for panel, what in zip(panels, _COURSES, strict=True):
        values = [_number(getattr(point, what.column)) for one in timelines for point in one.points]
        panel.set(title=what.title, xlabel="epoch", ylabel=what.unit)
        _prepare(panel, values, what, thresholds, "not in these traces")
        panel.set_xlim(min(epochs, default=0) - 0.5, max(epochs, default=1) + 0.5)
        panel.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
        for one, name in zip(timelines, names, strict=True):
            ys = [_number(getattr(point, what.column)) for point in one.points]
            _line(panel, [point.epoch for point in one.points], ys, styles[name], at=[-1])
            if what.limit and (fire := one.first_fire.get(what.letter)) is not None:
                panel.axvline(fire, color=styles[name].colour, linewidth=0.8, linestyle=":")
    return _laid_out(figure)


@_fixed_style()
def gamma_figure(timelines: Sequence[Timeline]) -> Figure:
    """Deep Γ and Γ_l over epochs, a curve per run; shaded: two standard deviations of the widest null.

    A layer's null is √m times as wide as that of a mean over m layers. A single Γ that a log holds is of no layer.
    """
    drawn = [one for one in timelines if one.gamma_per_layer]
    styles = method_styles(one.method for one in drawn)
    layers = max((len(point.gamma) for one in drawn for point in one.points), default=0)
    ends = [mean + side * 2 * std for one in drawn if one.null for mean, std in [one.null] for side in (-1, 1)]
    epochs = [point.epoch for one in drawn for point in one.points]
    shown = [-1, *np.unique(np.linspace(0, layers - 1, min(layers, LAYERS_AT_MOST)).round().astype(int)).tolist()]
    figure, panels = _page("Γ over epochs", styles, math.ceil(len(shown) / 3), 3)
    for panel, layer in itertools.zip_longest(panels, shown):
        if layer is None:
            panel.set_visible(False)
            continue
        panel.set(title="deep Γ" if layer < 0 else f"Γ at l = {layer}", xlabel="epoch", ylabel="cosine")
        curves = [[_number(_gamma_at(point, layer)) for point in one.points] for one in drawn]
        band = [end * math.sqrt(max(layers - 1, 1)) if layer >= 0 else end for end in ends]
        _fit(panel, [*itertools.chain(*curves), *band, 0.0])
        if band:
            panel.axhspan(min(band), max(band), color=_MUTED, alpha=0.15, linewidth=0)
        panel.set_xlim(min(epochs, default=0) - 0.5, max(epochs, default=1) + 0.5)
        panel.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
        for one, ys in zip(drawn, curves, strict=True):
            _line(panel, [point.epoch for point in one.points], ys, styles[one.method], at=[-1])
    return _laid_out(figure)


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


_FILLED: Mapping[str, Any] = {
    "hollow: passes": {"marker": "o", "markerfacecolor": "white"},
    "filled: fires": {"marker": "o"},
}
_MARKS: Mapping[str, Any] = {
    "frozen baseline": {"marker": "_", "color": _MUTED},
    "with the margin of (d)": {"marker": "_", "color": _LIMIT},
}
_GROUPS = {"healthy group": "#eaf2fb", "degenerate group": "#ebebeb"}
"""What a legend says beside the methods, with the sign for it; groups with the colours behind their runs."""


def _page(
    title: str,
    styles: Mapping[str, MethodStyle],
    rows: int,
    columns: int,
    signs: Mapping[str, Any] | None = None,
    height: float = 2.45,
    share: bool = False,
) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels with one legend below them: the names with their styles, and what else is said."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    shown = [(printable(name), style) for name, style in [*styles.items()][:_NAMES_AT_MOST]]
    if left := len(styles) - len(shown):
        shown.append((f"and {left} more", MethodStyle("none", "")))
    handles: list[Any] = [
        Line2D([], [], color=style.colour, marker=style.marker, markersize=4.5, label=name) for name, style in shown
    ]
    for words, sign in (signs or {}).items() if styles else ():
        if isinstance(sign, str):
            handles.append(Patch(color=sign, label=words))
        else:
            handles.append(
                Line2D([], [], **{"linestyle": "none", "color": _INK, "markersize": 4.5, **sign}, label=words)
            )
    longest = max((len(handle.get_label()) for handle in handles), default=1)
    across = max(1, min(len(handles), _LETTERS_ACROSS // (longest + 7)))
    lines = math.ceil(len(handles) / across)
    size = (_WIDTH, height * rows + 0.1 + _LEGEND_LINE * lines)
    figure = Figure(figsize=size, layout="constrained", label=title)
    panels = figure.subplots(rows, columns, squeeze=False, sharey="row" if share else False).ravel().tolist()
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=across, columnspacing=1.6, handlelength=2.2)
    return figure, panels


def _variants(runs: Iterable[tuple[str, Mapping[str, Any]]]) -> tuple[list[str], dict[str, MethodStyle]]:
    """Each run's method, with the axes in which that method's runs differ; and the style of each such name.

    Variants have their method's colour and the next markers, the plain method its own.
    """
    found = [(str(method), axes) for method, axes in runs]
    names, values = [], dict[str, dict[str, set[str]]]()
    for method, axes in found:
        for axis in axes:
            values.setdefault(method, {}).setdefault(axis, set())
    for method, axes in found:
        for axis, seen in values.get(method, {}).items():
            seen.add(repr(axes.get(axis)))
    for method, axes in found:
        differ = sorted(axis for axis, seen in values.get(method, {}).items() if len(seen) > 1)
        words = ", ".join(f"{axis} {plain(axes[axis])}" for axis in differ if axes.get(axis) is not None)
        names.append(f"{method} ({words})" if words else method)
    own = method_styles(method for method, _ in found)
    of = dict(zip(names, (method for method, _ in found), strict=True))
    places: Counter[str] = Counter()
    styles = {}
    for name, method in sorted(of.items(), key=lambda one: one[0] != one[1]):
        colour, marker = own[method]
        styles[name] = MethodStyle(colour, MARKERS[(MARKERS.index(marker) + places[method]) % len(MARKERS)])
        places[method] += 1
    return names, {name: styles[name] for name in of}


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
    fires = (DIAGNOSTICS[what.letter].beyond(judged, limit) & finite) | always
    panel.set(title=what.title, ylabel=what.unit)
    floors: Floats = np.asarray(table.baseline, dtype=np.float64)
    marks = {_MUTED: floors, _LIMIT: floors + limit / 100} if what.letter == "d" and baselines else {}
    shown = [*(values[rows] if scale is None else scale), *(value for mark in marks.values() for value in mark[rows])]
    _prepare(panel, shown, what, thresholds, empty or f"({what.letter}) not measured on any run")
    for colour, mark in marks.items():
        known = rows[np.isfinite(mark[rows])]
        panel.plot(xs[known], mark[known], linestyle="none", marker="_", color=colour, markersize=5, zorder=1.5)
    for name, style in styles.items():
        mine = rows[[names[i] == name for i in rows.tolist()]]
        drawn = np.array(_at_most(values, mine[np.isfinite(values[mine])]), dtype=np.intp)
        for filled in (False, True):
            some = drawn[fires[drawn] == filled]
            _dots(panel, xs[some].tolist(), values[some].tolist(), style, filled)
    if not np.isfinite(values[rows]).any():
        return
    lost = [i for i in rows.tolist() if not math.isfinite(values[i])]
    for i in lost if len(rows) <= NAMED_AT_MOST else ():
        _note(panel, xs[i], *(("NaN/inf", _LIMIT) if always[i] else ("N/A", _MUTED)))


def _side_by_side(names: Sequence[str] | Mapping[int, str], places: Sequence[str], rows: Indices) -> Floats:
    """For every run the place of its name, runs of one name side by side within ±0.28."""
    xs = np.zeros(int(rows.max(initial=0)) + 1)
    for position, name in enumerate(places):
        mine = [i for i in rows.tolist() if names[i] == name]
        for order, i in enumerate(mine):
            xs[i] = position + (0.0 if len(mine) < 2 else 0.56 * (order / (len(mine) - 1) - 0.5))
    return xs


def _levels(panel: Axes, levels: Mapping[str, float]) -> None:
    """Lines across a panel, named at their right ends, the names apart from each other."""
    low, high = panel.get_ylim()
    above = -1.0
    for name, level in sorted(levels.items(), key=lambda one: one[1]):
        above = max((level - low) / (high - low), above + 0.05)
        panel.axhline(level, color=_MUTED, linewidth=0.9, linestyle=(0, (5, 3)), zorder=1)
        label = f"{name} {brief(level, 3)}" if "pp" not in name else name
        panel.text(_AT_RIGHT, above, label, transform=panel.transAxes, color=_MUTED, va="center", fontsize=6)


def _mean(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else math.nan


def _laid_out(figure: Figure) -> Figure:
    """The figure with every part in its final place: a layout that goes on with each drawing moves them."""
    figure.get_layout_engine().execute(figure)  # type: ignore[union-attr]
    figure.set_layout_engine("none")
    return figure


def _prepare(panel: Axes, values: Sequence[float], what: Panel, thresholds: DiagnosticThresholds, empty: str) -> None:
    """Scale a panel to its values and its diagnostic's threshold, if it has one; it says ``empty`` without values."""
    known = any(map(math.isfinite, values))
    limits = [DIAGNOSTICS[what.letter].limit(thresholds)] if what.limit and known else []
    _fit(panel, [*values, *limits], what.log, margin=0.06 if what.log else 0.1)
    for limit in limits:
        _threshold(panel, what.letter, limit)
    if not known:
        _say(panel, empty)


def _fit(panel: Axes, values: Iterable[float], log: bool = False, margin: float = 0.06) -> None:
    """Show all finite (on a log axis: positive) values; a log axis has ticks at powers of ten, two of them or more."""
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

    shown = [_drawable(value, log) for value in values]
    shown = [math.log10(value) if log else value for value in shown if math.isfinite(value)]
    low, high = min(shown, default=-1.0 if log else 0.0), max(shown, default=1.0)
    extra = max((high - low) * margin, 0.3 if log else 0.0)
    if low == high and not log:
        extra = abs(high) * 0.5 or 0.5
    low, high = low - extra, high + extra
    if not log:
        panel.set_ylim(low, high)
        return
    if math.floor(high) - math.ceil(low) < 1:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, -_WIDEST), min(high, _WIDEST)
    first, last = math.ceil(low), math.floor(high)
    stride = max(1, math.ceil((last - first + 1) / 8))
    decades = [exponent for exponent in range(first, last + 1) if exponent % stride == 0]
    panel.set_yscale("log")
    panel.set_ylim(10.0**low, 10.0**high)
    panel.set_yticks([10.0**exponent for exponent in decades], [power_of_ten(exponent) for exponent in decades])
    panel.yaxis.set_minor_locator(LogLocator(subs=range(2, 10)) if high - low < 4 else NullLocator())
    panel.yaxis.set_minor_formatter(NullFormatter())


def power_of_ten(exponent: int) -> str:
    """A tick of a log axis.

    >>> power_of_ten(-7), power_of_ten(0)
    ('10⁻⁷', '10⁰')
    """
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _drawable(value: float, log: bool) -> float:
    """The number that is drawn: NaN, which breaks a line, where the axis cannot show it."""
    if not math.isfinite(value) or (log and value <= 0):
        return math.nan
    return min(max(value, 1 / _LARGEST if log else -_LARGEST), _LARGEST)


def _line(
    panel: Axes,
    xs: Sequence[float],
    ys: Sequence[float],
    style: MethodStyle,
    alpha: float = 0.85,
    at: Sequence[int] | None = None,
) -> None:
    """Connected points, with markers at all of them or at those named; ``at=()`` draws the line alone."""
    drawn = [_drawable(y, panel.get_yscale() == "log") for y in ys]
    marked = None if at is None else [range(len(drawn))[i] for i in at if drawn]
    panel.plot(xs, drawn, color=style.colour, marker=style.marker, alpha=alpha, markevery=marked)


def _dots(panel: Axes, xs: Sequence[float], ys: Sequence[float], style: MethodStyle, filled: bool) -> None:
    drawn = [_drawable(y, panel.get_yscale() == "log") for y in ys]
    face = style.colour if filled else "white"
    panel.plot(xs, drawn, linestyle="none", marker=style.marker, color=style.colour, markerfacecolor=face)


def _threshold(panel: Axes, letter: str, value: float) -> None:
    """A diagnostic's threshold: a dashed line named at its right end, and the side that fires shaded."""
    low, high = panel.get_ylim()
    label = f"{DIAGNOSTICS[letter].bound}\n{f'{value:+g} pp' if letter == 'd' else brief(value)}"
    across = panel.get_yaxis_transform()
    if not low <= value <= high:
        edge, where = (1.0, "above") if value > high else (0.0, "below")
        label = f"{label}\n({where}\nthis axis)"
        panel.text(_AT_RIGHT, edge, label, transform=panel.transAxes, color=_LIMIT, va="center", fontsize=6)
        return
    panel.axhspan(value, high if DIAGNOSTICS[letter].fires_above else low, color=_LIMIT, alpha=0.06, linewidth=0)
    panel.axhline(value, color=_LIMIT, linewidth=0.9, linestyle=(0, (5, 3)))
    panel.text(_AT_RIGHT, value, label, transform=across, color=_LIMIT, va="center", fontsize=6)


def _say(panel: Axes, words: str) -> None:
    """Text in the middle of a panel without data, which needs no ticks."""
    panel.set_yticks([])
    panel.set_yticks([], minor=True)
    panel.text(0.5, 0.5, words, transform=panel.transAxes, ha="center", va="center", color=_MUTED)


def _name_places(panel: Axes, names: Sequence[str], letters: int) -> None:
    """Name the positions 0, 1, … of the horizontal axis: level where they fit in so many letters, else upright."""
    names = [printable(name) for name in names]
    level = [name.replace("_", "\n") for name in names]
    longest = max((len(part) for name in level for part in name.split("\n")), default=0)
    if (longest + 1) * len(names) <= letters:
        panel.set_xticks(range(len(names)), level)
    elif len(names) <= letters:
        cut = [name if len(name) <= 20 else f"{name[:19]}…" for name in names]
        panel.set_xticks(range(len(names)), cut, rotation=90)
    else:
        panel.set_xticks([])
        panel.set_xlabel(f"{len(names)} of them, in order")


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
    _prepare(panel, values, _GRADIENT if letter == "b" else _STREAM, thresholds, empty)
    panel.set_xlim(-0.2, max(deepest, 1) + 0.2)
    panel.set_xticks(range(0, deepest + 1, max(1, math.ceil((deepest + 1) / 13))))
    if len(rows) > CURVES_AT_MOST:
        _summary(panel, names, rows, styles)
        return
    for name, row in zip(names, rows, strict=True):
        _line(panel, range(len(row)), row, styles[name])


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
            _line(panel, layers, [float(pick(columns[l])) for l in layers], style, alpha, at)


def _note(panel: Axes, position: float, words: str, colour: str) -> None:
    """A word above a method's place, upright, so that neighbours do not overlap."""
    across = panel.get_xaxis_transform()
    panel.text(position, 0.02, words, transform=across, rotation=90, ha="center", va="bottom", color=colour, fontsize=6)


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
