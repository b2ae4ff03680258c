"""Parts of every figure: style, page, legend, axes, curves, markers, thresholds.

The same input gives the same bytes: style, font and ids are fixed; dates and versions are left out.
"""

from __future__ import annotations

import io
import math
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fa_core.analysis.method_groups import Condition
from fa_core.formats.table import Floats
from fa_core.report.diagnostics import BOUND, DIAGNOSTICS, PROXY
from fa_core.report.method_style import MethodStyle, method_styles
from fa_core.report.names import differing_axes
from fa_core.report.numbers import exact, power_of_ten, with_axes
from fa_core.report.quantities import Quantity
from fa_core.report.report_facts import DiagnosticThresholds
from fa_core.sanitize import short_line

Look: TypeAlias = Mapping[str, Any]
"""Properties of Matplotlib's lines."""

Signs: TypeAlias = dict[str, Look]
"""Entries of a legend."""

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIGURE_KINDS = (".svg", ".pdf", ".png")
"""Known file endings of figures."""

_LARGEST = 1e250
"""Largest drawn number: with its margins an axis stays within floats, which end at 1e308."""

INK, MUTED, LIMIT = "#1b1f24", "#57606a", "#c1121f"

_WITHOUT_DATES: Mapping[str, Mapping[str, None]] = {
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    ".png": {"Software": None},
}

_WIDTH, _HEIGHT, _LEGEND_LINE = 7.2, 2.45, 0.155
"""Inches: the text width of most papers, a row of panels, and a line of the legend."""

_DOTS_PER_INCH = 200
"""Of PNG files."""

_PLACES = 24
"""Names that fit below a panel of the usual width."""

_LETTERS_ACROSS = 110
"""Letters in one line of the legend."""

_LONGEST_LABEL, _LETTERS_BELOW = 60, 6000
"""Letters of a name, and of all names below a panel, which are laid out one by one: longer names
are cut in the middle."""

FAINT = 0.85
"""Opacity of curves, which may overlap."""

_DASHED: Look = {"linewidth": 0.9, "linestyle": (0, (5, 3))}

_STYLING = threading.Lock()


@contextmanager
def fixed_style() -> Iterator[None]:
    """Matplotlib's defaults with `STYLE` instead of the user's settings, which are global."""
    from fa_core.reporting.plotting import STYLE, matplotlib

    with _STYLING, matplotlib.rc_context(fname=STYLE), warnings.catch_warnings():
        # glyphs missing from the font are drawn as boxes
        warnings.simplefilter("ignore")
        yield


def rendered(figure: Figure, kind: str = ".svg") -> bytes:
    """A figure as the content of a file.

    Args:
        figure: a figure with a final layout.
        kind: one of `FIGURE_KINDS`.
    """
    from fa_core.reporting.plotting import get_registered_canvas_class

    content = io.BytesIO()
    ending = kind[1:]
    with fixed_style():
        canvas = get_registered_canvas_class(ending)(figure)
        figure.dpi = _DOTS_PER_INCH
        # savefig would draw twice to lay the figure out
        getattr(canvas, f"print_{ending}")(
            content, metadata={"Title": figure.get_label(), **_WITHOUT_DATES[kind]}
        )
    return content.getvalue()


STAR: Look = {"marker": (6, 2, 0), "markersize": 5.5}
"""Of an undecided run: neither hollow nor filled, at every size."""

UNMEASURED = "#b3b9c0"

FACES: Signs = {
    "hollow: passes": {"marker": "o", "markerfacecolor": "white"},
    "filled: fires": {"marker": "o"},
    "star: undecided": STAR,
}
"""Faces of markers."""

BASELINES: Signs = {
    "grey: not measured": {"marker": "o", "markerfacecolor": UNMEASURED},
    "frozen baseline": {"marker": "_", "color": MUTED},
    "with the margin of (d)": {"marker": "_", "color": LIMIT},
}


def page(
    title: str,
    styles: Mapping[str, MethodStyle],
    count: int,
    columns: int,
    signs: Signs,
    places: int = 0,
) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels in columns, with a legend of styles and signs below them; wider
    for many named places below a panel."""
    from fa_core.reporting.plotting import Figure

    handles = _legend(styles, signs)
    longest = max((len(handle.get_label()) for handle in handles), default=1)
    across = max(1, min(len(handles), _LETTERS_ACROSS // (longest + 7)))
    lines = math.ceil(len(handles) / across)
    rows = math.ceil(count / columns)
    size = _WIDTH * max(1.0, places / _PLACES), _HEIGHT * rows + 0.1 + _LEGEND_LINE * lines
    figure = Figure(figsize=size, layout="constrained", label=title)
    panels = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for surplus in panels[count:]:
        surplus.set_visible(False)
    if handles:
        figure.legend(
            handles=handles,
            loc="outside lower center",
            ncols=across,
            columnspacing=1.6,
            handlelength=2.2,
        )
    return figure, panels[:count]


def _legend(styles: Mapping[str, MethodStyle], signs: Signs) -> list[Any]:
    """Matplotlib's handles of a legend; none without a name or sign."""
    from fa_core.reporting.plotting import Line2D

    handles: list[Any] = []
    for name, style in styles.items():
        text = short_line(name, _LONGEST_LABEL)
        handles.append(
            Line2D([], [], color=style.colour, marker=style.marker, markersize=4.5, label=text)
        )
    for text, sign in signs.items():
        look = {"linestyle": "none", "color": INK, "markersize": 4.5, **sign}
        handles.append(Line2D([], [], label=text, **look))
    return handles


def variants(
    conditions: Sequence[Condition],
) -> tuple[list[str], dict[str, MethodStyle]]:
    """Each method with the axes that differ among its runs, and the style of each such name.

    Variants have their method's colour and the next markers, the plain method its own.
    """
    differ = differing_axes((one.method, one.all_axes) for one in conditions)
    names = []
    for one in conditions:
        axes = {axis: one.all_axes.get(axis) for axis in differ[one.method]}
        names.append(with_axes(one.method, axes))
    return names, method_styles(names)


def laid_out(figure: Figure) -> Figure:
    """The figure with a final layout, which later drawing does not change."""
    figure.get_layout_engine().execute(figure)  # type: ignore[union-attr]
    figure.set_layout_engine("none")
    return figure


def prepare(panel: Axes, what: Quantity, kinds: Mapping[str, str]) -> None:
    """Name a panel before its number is drawn.

    Args:
        panel: the panel.
        what: its number.
        kinds: letters whose numbers are not all exact, for the title.
    """
    title = f"({what.marks}) {what.words}"
    kind = kinds.get(what.letter)
    if kind in (BOUND, PROXY):
        title = f"{title.replace('deepest ', '')}, or its {kind}"
    panel.set(title=title, ylabel=what.axis)
    if what.log:
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter(_decade)
        panel.yaxis.set_minor_formatter("")


def finish(panel: Axes, what: Quantity, thresholds: DiagnosticThresholds) -> None:
    """Draw the threshold of a panel's number, or say that there is no number."""
    if not any(np.isfinite(line.get_ydata()).any() for line in panel.lines):
        panel.set_yticks([])
        panel.set_yticks([], minor=True)
        if not panel.texts:
            word = panel.text(0.5, 0.5, "not measured", transform=panel.transAxes)
            word.set(color=MUTED, ha="center", va="center")
    elif what.letter:
        threshold_line(panel, what, thresholds)
    low, high = map(math.log10, panel.get_ylim()) if what.log else (0, 0)
    if math.floor(high) < low:  # no power of ten to read it by
        panel.set_yticks(np.logspace(low, high, 5)[1:-1])
        panel.yaxis.set_major_formatter("{x:.3g}")


def _decade(value: float, _: object) -> str:
    # ticks beyond an axis may be beyond floats
    if 0 < value < math.inf:
        return power_of_ten(round(math.log10(value)))
    return ""


def drawable(ys: Sequence[float] | Floats, log: bool) -> Floats:
    """The numbers to draw; NaN, which breaks a line, where the axis cannot show one."""
    values = np.array(ys, dtype=np.float64)
    values[~np.isfinite(values) | (log & (values <= 0))] = math.nan
    return values.clip(1 / _LARGEST if log else -_LARGEST, _LARGEST)


def plot(
    panel: Axes,
    xs: Sequence[float] | Floats,
    ys: Sequence[float] | Floats,
    style: MethodStyle,
    **look: Any,
) -> None:
    """Draw points in a style, connected and marked unless ``look`` says otherwise."""
    drawn = drawable(ys, panel.get_yscale() == "log")
    panel.plot(xs, drawn, **{"color": style.colour, "marker": style.marker, **look})


def threshold_line(panel: Axes, what: Quantity, thresholds: DiagnosticThresholds) -> None:
    """Draw a threshold as a dashed line with its name, and shade the side that fires."""
    diagnostic = DIAGNOSTICS[what.letter]
    value = diagnostic.limit(thresholds)
    if what.log and value <= 0:
        # a log axis has no zero
        return
    number = exact(value)
    if what.letter == "d":
        number = f"{'+' if value > 0 else ''}{number} pp"
    panel.axhline(value, color=LIMIT, **_DASHED)
    low, high = panel.get_ylim()
    end = high if diagnostic.fires_above else low
    panel.axhspan(value, end, color=LIMIT, alpha=0.06, linewidth=0)
    panel.set_ylim(low, high)
    name = panel.text(1.01, value, f"{diagnostic.bound}\n{number}", color=LIMIT, fontsize=6)
    name.set(transform=panel.get_yaxis_transform(), va="center")


def name_places(panel: Axes, names: Sequence[str]) -> None:
    """Name the positions 0, 1, … of the horizontal axis."""
    longest = min(_LONGEST_LABEL, _LETTERS_BELOW // (len(names) + 1))
    labels = [short_line(name, longest) for name in names]
    panel.set_xticks(range(len(labels)), labels, rotation=45, ha="right", rotation_mode="anchor")
    panel.set_xlim(-0.6, max(len(labels), 1) - 0.4)
