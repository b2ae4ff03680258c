"""The figures of a paper's appendix by Matplotlib: from a table or traces to SVG, PDF and PNG.

The same input gives the same bytes: style, font and ids are fixed, and no date or version is written.
"""

from __future__ import annotations

import io
import itertools
import math
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from fa_core.analysis.method_groups import Family, families
from fa_core.diagnostics import DIAGNOSTICS, DiagnosticThresholds
from fa_core.errors import printable
from fa_core.method_style import MARKERS, MethodStyle, method_styles
from fa_core.reporting.numbers import brief
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
_STYLING = threading.Lock()


@contextmanager
def fixed_style() -> Iterator[None]:
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
    with fixed_style():
        canvas = get_registered_canvas_class(ending)(figure)
        figure.dpi = _DOTS_PER_INCH
        # not savefig, which draws twice, for a layout that is final here
        getattr(canvas, f"print_{ending}")(content, metadata={"Title": figure.get_label(), **_WITHOUT_DATES[kind]})
    return content.getvalue()


@fixed_style()
def audit_figure(table: AuditTable, thresholds: DiagnosticThresholds | None = None) -> Figure:
    """The four-panel audit figure: ‖h_l‖ and ‖g_l‖ over layers, drift cosine and margin per method.

    Thresholds are dashed, the side that fires is shaded; runs on which the panel's diagnostic fires
    have filled markers. What was not measured is not drawn, and said.
    """
    thresholds = thresholds or DiagnosticThresholds()
    styles = method_styles(map(str, table.method))
    figure, panels = _page("Four-diagnostic audit", list(styles.items()), 2, 2)
    for panel, letter in zip(panels, "abcd", strict=True):
        (_layers if letter in "ab" else _strip)(panel, table, letter, styles, thresholds)
    return _laid_out(figure)


@fixed_style()
def axis_figure(table: AuditTable, axis: str, thresholds: DiagnosticThresholds | None = None) -> Figure:
    """Accuracy, growth and ‖g_L‖ against a second axis (the penalty λ, width, depth).

    One line per family: runs that differ along this axis and in nothing else (see `families`); it joins the
    means over their seeds. Families with a single point are left out. Runs without the axis are at the left
    (no penalty, for λ).
    """
    thresholds = thresholds or DiagnosticThresholds()
    drawn = families(table, axis)
    styles = _family_styles(drawn)
    places = _places(table, axis, drawn)
    rows = [i for family in drawn for i in family.rows]
    names = [(_family_name(one, drawn), style) for one, style in zip(drawn, styles, strict=True)]
    figure, panels = _page(f"Audit against {axis}", names, 1, 3)
    # a run without λ has no penalty; one without another axis has whatever its default is
    unset = "none" if axis == "lam" else "unset"
    empty = "not measured on any run" if drawn else f"no two runs differ in {axis} alone"
    for panel, (column, title, unit, letter) in zip(panels, _COURSES, strict=True):
        values: Floats = np.asarray(getattr(table, column), dtype=np.float64)
        panel.set(title=title, xlabel=AXIS_NAMES.get(axis, axis), ylabel=unit)
        _prepare(panel, values[rows].tolist(), bool(letter), letter, thresholds, empty)
        panel.set_xlim(-0.4, max(len(places), 1) - 0.6)
        _name_places(panel, [unset if value is None else str(value) for value in places], letters=24)
        for family, style in zip(drawn, styles, strict=True):
            _axis_curve(panel, table, values, family, axis, places, style)
    return _laid_out(figure)


@fixed_style()
def timeline_figure(timelines: Sequence[Timeline], thresholds: DiagnosticThresholds | None = None) -> Figure:
    """Accuracy, growth and ‖g_L‖ over epochs, a curve per run; dotted where a run's diagnostic first fires."""
    thresholds = thresholds or DiagnosticThresholds()
    styles = method_styles(one.method for one in timelines)
    epochs = [point.epoch for one in timelines for point in one.points]
    figure, panels = _page("Diagnostics over epochs", list(styles.items()), 1, 3)
    for panel, (name, title, unit, letter) in zip(panels, _COURSES, strict=True):
        values = [_number(getattr(point, name)) for one in timelines for point in one.points]
        panel.set(title=title, xlabel="epoch", ylabel=unit)
        _prepare(panel, values, bool(letter), letter, thresholds, "not in these traces")
        panel.set_xlim(min(epochs, default=0) - 0.5, max(epochs, default=1) + 0.5)
        panel.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
        for one in timelines:
            style = styles[one.method]
            ys = [_number(getattr(point, name)) for point in one.points]
            _line(panel, [point.epoch for point in one.points], ys, style, at=[-1])
            if (fire := one.first_fire.get(letter)) is not None:
                panel.axvline(fire, color=style.colour, linewidth=0.8, linestyle=":")
    return _laid_out(figure)


@fixed_style()
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
    figure, panels = _page("Γ over epochs", list(styles.items()), math.ceil(len(shown) / 3), 3)
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


_COURSES = (
    ("acc", "accuracy", "fraction", ""),
    ("growth", "(a) growth per block", "ratio", "a"),
    ("g_L", "(b) deepest BP gradient norm", "median ‖g_L‖", "b"),
)
"""Column, title, unit and letter of the panels that follow an axis or the epochs."""


def _page(title: str, names: Sequence[tuple[str, MethodStyle]], rows: int, columns: int) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels with one legend below them."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    shown = [(printable(name), style) for name, style in names[:_NAMES_AT_MOST]]
    if more := len(names) - len(shown):
        shown.append((f"and {more} more", MethodStyle("none", "")))
    longest = max((len(name) for name, _ in shown), default=1)
    across = max(1, min(len(shown), _LETTERS_ACROSS // (longest + 7)))
    lines = math.ceil(len(shown) / across)
    figure = Figure(figsize=(_WIDTH, 2.45 * rows + 0.1 + _LEGEND_LINE * lines), layout="constrained", label=title)
    panels = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    handles = [
        Line2D([], [], color=style.colour, marker=style.marker, markersize=4.5, label=name) for name, style in shown
    ]
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=across, columnspacing=1.6, handlelength=2.2)
    return figure, panels


def _laid_out(figure: Figure) -> Figure:
    """The figure with every part in its final place: a layout that goes on with each drawing moves them."""
    figure.get_layout_engine().execute(figure)  # type: ignore[union-attr]
    figure.set_layout_engine("none")
    return figure


def _prepare(
    panel: Axes, values: Sequence[float], log: bool, letter: str, thresholds: DiagnosticThresholds, empty: str
) -> None:
    """Scale a panel to its values and a letter's threshold, if any; it says ``empty`` where no value is finite."""
    limits = [DIAGNOSTICS[letter].limit(thresholds)] if letter and any(map(math.isfinite, values)) else []
    _fit(panel, [*values, *limits], log)
    for limit in limits:
        _threshold(panel, letter, limit)
    if not any(map(math.isfinite, values)):
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
        panel.text(1.01, edge, label, transform=panel.transAxes, color=_LIMIT, va="center", fontsize=6)
        return
    panel.axhspan(value, high if DIAGNOSTICS[letter].fires_above else low, color=_LIMIT, alpha=0.06, linewidth=0)
    panel.axhline(value, color=_LIMIT, linewidth=0.9, linestyle=(0, (5, 3)))
    panel.text(1.01, value, label, transform=across, color=_LIMIT, va="center", fontsize=6)


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
    panel: Axes, table: AuditTable, letter: str, styles: Mapping[str, MethodStyle], thresholds: DiagnosticThresholds
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
    _prepare(panel, values, True, letter if letter == "b" else "", thresholds, empty)
    panel.set_xlim(-0.2, max(deepest, 1) + 0.2)
    panel.set_xticks(range(0, deepest + 1, max(1, math.ceil((deepest + 1) / 13))))
    if len(rows) > CURVES_AT_MOST:
        _summary(panel, table, rows, styles)
        return
    for method, row in zip(table.method, rows, strict=True):
        _line(panel, range(len(row)), row, styles[str(method)])


def _summary(
    panel: Axes, table: AuditTable, rows: Sequence[Sequence[float]], styles: Mapping[str, MethodStyle]
) -> None:
    """Each method's median per layer as a line, and its smallest and largest as faint ones."""
    for method, style in styles.items():
        mine = [row for row, name in zip(rows, table.method, strict=True) if str(name) == method and row]
        depth = max((len(row) for row in mine), default=0)
        columns = [[row[l] for row in mine if l < len(row) and math.isfinite(row[l])] for l in range(depth)]
        layers = [l for l, column in enumerate(columns) if column]
        for pick, alpha, at in ((np.median, 0.95, None), (np.min, 0.35, ()), (np.max, 0.35, ())):
            _line(panel, layers, [float(pick(columns[l])) for l in layers], style, alpha, at)


def _strip(
    panel: Axes, table: AuditTable, letter: str, styles: Mapping[str, MethodStyle], thresholds: DiagnosticThresholds
) -> None:
    diagnostic = DIAGNOSTICS[letter]
    values, finite, always = table.judged(letter)
    limit = diagnostic.limit(thresholds)
    title, unit, more = {
        "c": ("(c) drift between batches", "mean pairwise cosine", ""),
        "d": ("(d) margin over frozen blocks", "percentage points", _assumed(table)),
    }[letter]
    panel.set(title=title, xlabel=f"filled markers: fires{more}", ylabel=unit)
    _fit(panel, [*values[finite].tolist(), *([limit] if finite.any() else [])], margin=0.1)
    panel.set_xlim(-0.6, max(len(styles), 1) - 0.4)
    _name_places(panel, list(styles), letters=58)
    fires = diagnostic.beyond(values, limit)
    for position, (method, style) in enumerate(styles.items()):
        mine = np.flatnonzero(np.asarray(table.method) == method)
        drawn = _at_most(values, mine[finite[mine]])
        for fired in (False, True):
            places = [(position + _jitter(order, len(drawn)), i) for order, i in enumerate(drawn) if fires[i] == fired]
            _dots(panel, [x for x, _ in places], [float(values[i]) for _, i in places], style, fired)
        if lost := int(always[mine].sum()):
            _note(panel, position, f"{lost} NaN/inf", _LIMIT)
        elif not drawn and finite.any():
            _note(panel, position, "N/A", _MUTED)
    if finite.any():
        _make_room(panel)
        _threshold(panel, letter, limit)
    elif not always.any():
        _say(panel, f"({letter}) not measured on any run")


def _note(panel: Axes, position: float, words: str, colour: str) -> None:
    """A word above a method's place, upright, so that neighbours do not overlap."""
    across = panel.get_xaxis_transform()
    panel.text(position, 0.02, words, transform=across, rotation=90, ha="center", va="bottom", color=colour, fontsize=6)


def _make_room(panel: Axes) -> None:
    """Move the lower end of a panel down, so that its notes are below the data."""
    low, high = panel.get_ylim()
    longest = max((len(note.get_text()) for note in panel.texts), default=0)
    share = min(0.5, 0.036 * longest)
    panel.set_ylim(low - (high - low) * share / (1 - share), high)


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


def _jitter(order: int, n: int) -> float:
    """Side-by-side places for the points of one method, within ±0.28."""
    return 0.0 if n < 2 else 0.56 * (order / (n - 1) - 0.5)


def _family_styles(drawn: Sequence[Family]) -> list[MethodStyle]:
    """Per family the method's colour, and its marker for the first one, then the next ones."""
    own = method_styles(family.method for family in drawn)
    seen = dict.fromkeys(own, 0)
    styles = []
    for family in drawn:
        colour, marker = own[family.method]
        styles.append(MethodStyle(colour, MARKERS[(MARKERS.index(marker) + seen[family.method]) % len(MARKERS)]))
        seen[family.method] += 1
    return styles


def _family_name(family: Family, drawn: Sequence[Family]) -> str:
    """The method, and the axes in which its families differ."""
    rivals = [one.axes for one in drawn if one.method == family.method]
    names = {name for axes in rivals for name in axes}
    differ = sorted(name for name in names if len({repr(axes.get(name)) for axes in rivals}) > 1)
    words = ", ".join(f"{name} {family.axes.get(name, 'unset')}" for name in differ)
    return f"{family.method} ({words})" if words else family.method


def _places(table: AuditTable, axis: str, drawn: Sequence[Family]) -> list[object]:
    found = {table.axes[i].get(axis) for family in drawn for i in family.rows}
    numbers = sorted(v for v in found if isinstance(v, (int, float)))
    words = sorted(str(v) for v in found if v is not None and not isinstance(v, (int, float)))
    return [*([None] if None in found else []), *numbers, *words]


def _axis_curve(
    panel: Axes,
    table: AuditTable,
    values: Floats,
    family: Family,
    axis: str,
    places: Sequence[object],
    style: MethodStyle,
) -> None:
    """Every run hollow, and a line through the means of each place."""
    points: list[tuple[int, float]] = []
    means: dict[int, float] = {}
    for position, place in enumerate(places):
        mine = [float(values[i]) for i in family.rows if table.axes[i].get(axis) == place and math.isfinite(values[i])]
        points += [(position, value) for value in mine]
        if mine:
            means[position] = sum(mine) / len(mine)
    _dots(panel, [x for x, _ in points], [y for _, y in points], style, filled=False)
    _line(panel, list(means), list(means.values()), style)


def _number(value: float | None) -> float:
    return math.nan if value is None else value
