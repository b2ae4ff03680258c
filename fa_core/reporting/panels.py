"""Parts of every figure: style, page, legend, axes, curves, markers, thresholds.

The same input gives the same bytes: style, font and ids are fixed, and no date or version is
written.
"""

from __future__ import annotations

import io
import math
import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from fa_core.facts.method_style import MARKERS, MethodStyle, method_styles
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.diagnostics import DIAGNOSTICS
from fa_core.numbers import brief, power_of_ten, with_axes
from fa_core.sanitize import sanitize
from fa_core.table import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIGURE_KINDS = (".svg", ".pdf", ".png")
"""File endings that `rendered` knows."""

_NAMES_AT_MOST = 120
"""Names in a legend; it says how many more there are."""

_LARGEST, _WIDEST = 1e300, 301
"""Numbers beyond are drawn at this; the exponent where an axis ends. Floats end at 1e308."""

INK, MUTED, LIMIT, NULL = "#1b1f24", "#57606a", "#c1121f", "#dde1e6"

_STYLE = Path(__file__).with_name("figures.mplstyle")

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

FAINT = 0.85
"""Opacity of curves, which may lie on each other."""

AT_RIGHT = 1.01
"""Of a panel's width: where lines across it are named."""

_DASHED: Mapping[str, Any] = {"linewidth": 0.9, "linestyle": (0, (5, 3))}

_STYLING = threading.Lock()


@contextmanager
def fixed_style() -> Iterator[None]:
    """Matplotlib's defaults with `_STYLE`, whatever the user's own settings are; they belong to the
    whole process."""
    import matplotlib

    with _STYLING, matplotlib.rc_context(fname=_STYLE), warnings.catch_warnings():
        # letters that the font does not have are drawn as boxes
        warnings.simplefilter("ignore")
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
        getattr(canvas, f"print_{ending}")(
            content, metadata={"Title": figure.get_label(), **_WITHOUT_DATES[kind]}
        )
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


FILLED: Mapping[str, Any] = {
    "hollow: passes": {"marker": "o", "markerfacecolor": "white"},
    "filled: fires": {"marker": "o"},
}

HALF: Mapping[str, Any] = {"fillstyle": "left", "markerfacecoloralt": "white"}

UNDECIDED: Mapping[str, Any] = {"half: undecided": {"marker": "o", **HALF}}

UNMEASURED = "#b3b9c0"

UNJUDGED: Mapping[str, Any] = {"grey: not measured": {"marker": "o", "markerfacecolor": UNMEASURED}}

BASELINES: Mapping[str, Any] = {
    "frozen baseline": {"marker": "_", "color": MUTED},
    "with the margin of (d)": {"marker": "_", "color": LIMIT},
}

GROUPS = {"healthy group": "#eaf2fb", "degenerate group": "#ebebeb"}
"""What a legend says next to the methods, with the sign for it; groups with the colours behind
their runs."""


def page(
    title: str,
    styles: Mapping[str, MethodStyle],
    rows: int,
    columns: int,
    signs: Mapping[str, Any],
    height: float = 2.45,
    share: bool = False,
) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels with one legend below them: the names with their styles, and what
    else is said."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    shown = [(sanitize(name), style) for name, style in [*styles.items()][:_NAMES_AT_MOST]]
    if left := len(styles) - len(shown):
        shown.append((f"and {left} more", MethodStyle("none", "")))
    handles: list[Any] = [
        Line2D([], [], color=style.colour, marker=style.marker, markersize=4.5, label=name)
        for name, style in shown
    ]
    if not styles:
        signs = {}
    for words, sign in signs.items():
        if isinstance(sign, str):
            handles.append(Patch(color=sign, label=words))
        else:
            look = {"linestyle": "none", "color": INK, "markersize": 4.5, **sign}
            handles.append(Line2D([], [], label=words, **look))
    longest = max((len(handle.get_label()) for handle in handles), default=1)
    across = max(1, min(len(handles), _LETTERS_ACROSS // (longest + 7)))
    lines = math.ceil(len(handles) / across)
    size = (_WIDTH, height * rows + 0.1 + _LEGEND_LINE * lines)
    figure = Figure(figsize=size, layout="constrained", label=title)
    sharey: Literal["none", "row"] = "row" if share else "none"
    panels = figure.subplots(rows, columns, squeeze=False, sharey=sharey).ravel().tolist()
    if handles:
        figure.legend(
            handles=handles,
            loc="outside lower center",
            ncols=across,
            columnspacing=1.6,
            handlelength=2.2,
        )
    return figure, panels


def variants(
    runs: Iterable[tuple[str, Mapping[str, Any]]],
) -> tuple[list[str], dict[str, MethodStyle]]:
    """Each run's method, with the axes in which that method's runs differ; and the style of each
    such name.

    Variants have their method's colour and the next markers, the plain method its own.
    """
    found = [(str(method), axes) for method, axes in runs]
    seen: dict[str, list[Mapping[str, Any]]] = {}
    for method, axes in found:
        seen.setdefault(method, []).append(axes)
    differ = {method: _differing(own) for method, own in seen.items()}
    of: dict[str, str] = {}
    names = []
    for method, axes in found:
        name = with_axes(method, {axis: axes.get(axis) for axis in differ[method]})
        names.append(name)
        of[name] = method
    own = method_styles(seen)
    places: Counter[str] = Counter()
    styles = {}
    plain = [name for name, method in of.items() if name == method]
    for name in dict.fromkeys([*plain, *of]):
        method = of[name]
        colour, marker = own[method]
        place = MARKERS.index(marker) + places[method]
        styles[name] = MethodStyle(colour, MARKERS[place % len(MARKERS)])
        places[method] += 1
    return names, {name: styles[name] for name in of}


def _differing(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The axes whose values differ between some runs."""
    differing = []
    for axis in sorted(set(chain.from_iterable(runs))):
        values = {repr(axes.get(axis)) for axes in runs}
        if len(values) > 1:
            differing.append(axis)
    return differing


def level_lines(panel: Axes, levels: Mapping[str, float]) -> None:
    """Lines across a panel, named at their right ends, the names apart from each other."""
    low, high = panel.get_ylim()
    above = -1.0
    for name in sorted(levels, key=levels.__getitem__):
        level = levels[name]
        above = max((level - low) / (high - low), above + 0.05)
        panel.axhline(level, color=MUTED, zorder=1, **_DASHED)
        label = name
        if "pp" not in name:
            label = f"{name} {brief(level, 3)}"
        panel.text(
            AT_RIGHT, above, label, transform=panel.transAxes, color=MUTED, va="center", fontsize=6
        )


def laid_out(figure: Figure) -> Figure:
    """The figure with every part in its final place: a layout that goes on with each drawing moves
    them."""
    figure.get_layout_engine().execute(figure)  # type: ignore[union-attr]
    figure.set_layout_engine("none")
    return figure


def prepare(
    panel: Axes, values: Sequence[float], what: Panel, thresholds: DiagnosticThresholds, empty: str
) -> None:
    """Name a panel, and scale it to its values and its diagnostic's threshold, if it has one.

    Without finite values it says ``empty``.
    """
    panel.set(title=what.title, ylabel=what.unit)
    known = any(map(math.isfinite, values))
    if what.limit and known:
        limits = [DIAGNOSTICS[what.letter].limit(thresholds)]
    else:
        limits = []
    fit(panel, [*values, *limits], what.log, margin=0.06 if what.log else 0.1)
    for limit in limits:
        threshold_line(panel, what.letter, limit)
    if not known:
        panel.set_yticks([])
        panel.set_yticks([], minor=True)
        panel.text(
            0.5, 0.5, empty, transform=panel.transAxes, ha="center", va="center", color=MUTED
        )


def fit(panel: Axes, values: Iterable[float], log: bool = False, margin: float = 0.06) -> None:
    """Show all finite (on a log axis: positive) values; a log axis has ticks at powers of ten, two
    of them or more."""
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
    panel.set_yticks(
        [10.0**exponent for exponent in decades], [power_of_ten(exponent) for exponent in decades]
    )
    panel.yaxis.set_minor_locator(
        LogLocator(subs=range(2, 10)) if high - low < 4 else NullLocator()
    )
    panel.yaxis.set_minor_formatter(NullFormatter())


def _drawable(value: float, log: bool) -> float:
    """The number that is drawn: NaN, which breaks a line, where the axis cannot show it."""
    if not math.isfinite(value) or (log and value <= 0):
        return math.nan
    return min(max(value, 1 / _LARGEST if log else -_LARGEST), _LARGEST)


def plot(
    panel: Axes,
    xs: Sequence[float] | Floats,
    ys: Sequence[float] | Floats,
    style: MethodStyle,
    **look: Any,
) -> None:
    """Points in a style, connected and marked unless ``look``, properties of Matplotlib's lines,
    says otherwise."""
    drawn = [_drawable(y, panel.get_yscale() == "log") for y in ys]
    panel.plot(xs, drawn, **{"color": style.colour, "marker": style.marker, **look})


def threshold_line(panel: Axes, letter: str, value: float) -> None:
    """A diagnostic's threshold: a dashed line named at its right end, and the side that fires
    shaded."""
    diagnostic = DIAGNOSTICS[letter]
    low, high = panel.get_ylim()
    number = f"{value:+g} pp" if letter == "d" else brief(value)
    label = f"{diagnostic.bound}\n{number}"
    across, height = panel.get_yaxis_transform(), value
    if low <= value <= high:
        end = high if diagnostic.fires_above else low
        panel.axhspan(value, end, color=LIMIT, alpha=0.06, linewidth=0)
        panel.axhline(value, color=LIMIT, **_DASHED)
    else:
        across, height, where = panel.transAxes, 0.0, "below"
        if value > high:
            height, where = 1.0, "above"
        label += f"\n({where}\nthis axis)"
    panel.text(AT_RIGHT, height, label, transform=across, color=LIMIT, va="center", fontsize=6)


def name_places(panel: Axes, names: Sequence[str], letters: int) -> None:
    """Name the positions 0, 1, … of the horizontal axis: level where they fit in so many letters,
    else upright."""
    names = [sanitize(name) for name in names]
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
