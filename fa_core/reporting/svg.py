"""The few SVG shapes that the figures need, as text: no plotting library, no web font, no script."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from fa_core.errors import printable
from fa_core.reporting.numbers import brief
from fa_core.reporting.scale import Scale

INK = "#1b1f24"
MUTED = "#6a737d"
GRID = "#e3e6ea"
LIMIT = "#c1121f"

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#000000", "#e69f00")
"""Okabe and Ito's colours, told apart with any colour vision; yellow darkened to show on white."""

MARKERS = ("circle", "square", "triangle", "diamond", "down", "right", "left", "bar")
"""One per colour, so that no line is told by its colour alone."""

_FONT = "font-family='system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif'"


def document(width: float, height: float, body: Sequence[str], title: str) -> str:
    """One SVG file: a white page, a title for screen readers, the shapes."""
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:g} {height:g}' "
            f"width='{width:g}' height='{height:g}' role='img' aria-label={quoteattr(printable(title))} {_FONT}>",
            f"<title>{escape(printable(title))}</title>",
            f"<rect width='{width:g}' height='{height:g}' fill='#ffffff'/>",
            *body,
            "</svg>",
        ]
    )


def text(
    x: float, y: float, words: str, size: float = 11, anchor: str = "start", fill: str = INK, more: str = ""
) -> str:
    """Words at a point; ``anchor`` is start, middle or end."""
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size:g}' text-anchor='{anchor}' fill='{fill}' {more}>"
        f"{escape(printable(words))}</text>"
    )


def line(x1: float, y1: float, x2: float, y2: float, stroke: str = INK, width: float = 1, dash: str = "") -> str:
    """A straight line; ``dash`` as in stroke-dasharray."""
    dashed = f" stroke-dasharray='{dash}'" if dash else ""
    return (
        f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' "
        f"stroke='{stroke}' stroke-width='{width:g}'{dashed}/>"
    )


def polyline(points: Sequence[tuple[float, float]], stroke: str, width: float = 1.5, opacity: float = 1) -> str:
    """Connected points."""
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (
        f"<polyline points='{joined}' fill='none' stroke='{stroke}' stroke-width='{width:g}' "
        f"stroke-linejoin='round' stroke-opacity='{opacity:g}'/>"
    )


def band(x: float, y: float, width: float, height: float, fill: str, opacity: float) -> str:
    """A filled rectangle."""
    return (
        f"<rect x='{x:.1f}' y='{y:.1f}' width='{max(width, 0):.1f}' height='{max(height, 0):.1f}' "
        f"fill='{fill}' fill-opacity='{opacity:g}'/>"
    )


def marker(kind: str, x: float, y: float, fill: str, size: float = 3.2, hollow: bool = False) -> str:
    """A data point of one of `MARKERS`; hollow for a run without a flag, say."""
    paint = f"fill='{'#ffffff' if hollow else fill}' stroke='{fill}' stroke-width='1.2'"
    s = size
    if kind == "circle":
        return f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{s:g}' {paint}/>"
    shapes = {
        "square": [(-s, -s), (s, -s), (s, s), (-s, s)],
        "triangle": [(0, -1.25 * s), (1.15 * s, s), (-1.15 * s, s)],
        "down": [(0, 1.25 * s), (1.15 * s, -s), (-1.15 * s, -s)],
        "diamond": [(0, -1.35 * s), (1.35 * s, 0), (0, 1.35 * s), (-1.35 * s, 0)],
        "right": [(1.25 * s, 0), (-s, 1.15 * s), (-s, -1.15 * s)],
        "left": [(-1.25 * s, 0), (s, 1.15 * s), (s, -1.15 * s)],
        "bar": [(-0.5 * s, -1.3 * s), (0.5 * s, -1.3 * s), (0.5 * s, 1.3 * s), (-0.5 * s, 1.3 * s)],
    }
    corners = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in shapes[kind])
    return f"<polygon points='{corners}' {paint}/>"


class Panel:
    """One pair of axes: shapes are added in data coordinates and drawn by `shapes`.

    Args:
        left, top, width, height: the plot area, without labels.
        x: horizontal axis, from ``left`` to ``left + width``.
        y: vertical axis, from ``top + height`` up to ``top``.
        title: above the area.
        x_label, y_label: units and names.
    """

    def __init__(
        self,
        left: float,
        top: float,
        width: float,
        height: float,
        x: Scale,
        y: Scale,
        title: str,
        x_label: str = "",
        y_label: str = "",
    ) -> None:
        self.left, self.top, self.width, self.height = left, top, width, height
        self.x, self.y = x, y
        self._title, self._x_label, self._y_label = title, x_label, y_label
        self._marks: list[str] = []
        self._x_ticks: list[tuple[float, str]] | None = None

    def x_ticks(self, ticks: Sequence[tuple[float, str]]) -> None:
        """Name positions on the horizontal axis instead of numbering it."""
        self._x_ticks = list(ticks)

    def curve(
        self, xs: Sequence[float], ys: Sequence[float], colour: str, kind: str = "", opacity: float = 0.85
    ) -> None:
        """Connected points; values that the axis cannot show (NaN, inf, ≤ 0 on a log axis) break the line."""
        run: list[tuple[float, float]] = []
        for x, y in zip(xs, ys, strict=True):
            if self._showable(y):
                run.append((self.x.at(x), self.y.at(y)))
                continue
            self._close(run, colour, kind, opacity)
            run = []
        self._close(run, colour, kind, opacity)

    def point(
        self, x: float, y: float, colour: str, kind: str = "circle", hollow: bool = False, size: float = 3.6
    ) -> None:
        """One data point; nothing where the axis cannot show it."""
        if self._showable(y):
            self._marks.append(marker(kind, self.x.at(x), self.y.at(y), colour, size, hollow))

    def limit(self, value: float, words: str, fires_above: bool) -> None:
        """A threshold: a dashed line, and the side that fires shaded."""
        if not (self._showable(value) and self.y.lo <= value <= self.y.hi):
            where = "above" if value > self.y.hi else "below"
            self._marks.append(
                text(self.left + self.width - 4, self.top + 11, f"{words} ({where} this axis)", 9, "end", LIMIT)
            )
            return
        y = self.y.at(value)
        edge = self.top if fires_above else y
        height = y - self.top if fires_above else self.top + self.height - y
        self._marks.insert(0, band(self.left, edge, self.width, height, LIMIT, 0.06))
        self._marks.append(line(self.left, y, self.left + self.width, y, LIMIT, 1, "5 3"))
        self._marks.append(text(self.left + self.width - 4, y - 4, words, 9, "end", LIMIT))

    def note(self, words: str, x: float | None = None, colour: str = MUTED, raised: int = 0) -> None:
        """Small words in the area's middle, or at the bottom above a position; ``raised`` lines higher."""
        if x is None:
            self._marks.append(
                text(self.left + self.width / 2, self.top + self.height / 2, words, 10, "middle", colour)
            )
        else:
            self._marks.append(
                text(self.x.at(x), self.top + self.height - 5 - 10 * raised, words, 8.5, "middle", colour)
            )

    def upright(self, x: float, colour: str) -> None:
        """A thin vertical line, for an event."""
        self._marks.append(line(self.x.at(x), self.top, self.x.at(x), self.top + self.height, colour, 0.9, "2 2"))

    def shapes(self) -> list[str]:
        """Everything as SVG elements."""
        bottom = self.top + self.height
        drawn = [text(self.left, self.top - 9, self._title, 12, more="font-weight='600'")]
        for value in self.y.ticks():
            y = self.y.at(value)
            drawn.append(line(self.left, y, self.left + self.width, y, GRID))
            drawn.append(text(self.left - 6, y + 3.5, _tick(value, self.y), 9.5, "end", MUTED))
        ticks = [(value, f"{value:g}") for value in self.x.ticks()] if self._x_ticks is None else self._x_ticks
        for value, words in ticks:
            x = self.x.at(value)
            drawn.append(line(x, bottom, x, bottom + 4, MUTED))
            for row, words_in_row in enumerate(words.split("\n")):
                drawn.append(text(x, bottom + 15 + 11 * row, words_in_row, 9.5, "middle", MUTED))
        drawn.append(line(self.left, bottom, self.left + self.width, bottom, INK))
        drawn.append(line(self.left, self.top, self.left, bottom, INK))
        drawn.append(text(self.left + self.width / 2, bottom + 30, self._x_label, 10.5, "middle"))
        middle = self.top + self.height / 2
        turn = f"transform='rotate(-90 {self.left - 44:.1f} {middle:.1f})'"
        drawn.append(text(self.left - 44, middle, self._y_label, 10.5, "middle", more=turn))
        return [*drawn, *self._marks]

    def _showable(self, y: float) -> bool:
        return math.isfinite(y) and (y > 0 or not self.y.log)

    def _close(self, run: list[tuple[float, float]], colour: str, kind: str, opacity: float) -> None:
        if len(run) > 1:
            self._marks.append(polyline(run, colour, opacity=opacity))
        if kind or len(run) == 1:
            self._marks.extend(marker(kind or "circle", x, y, colour, 2.4) for x, y in run)


def legend(left: float, top: float, names: Sequence[tuple[str, str, str]], width: float) -> tuple[list[str], float]:
    """Colour and marker of each name, in rows; returns shapes and the height they take.

    Args:
        names: (name, colour, marker kind).
    """
    shapes, x, y = [], left, top
    for name, colour, kind in names:
        needed = 26 + 6.6 * len(name)
        if x + needed > left + width and x > left:
            x, y = left, y + 17
        shapes.append(line(x, y, x + 16, y, colour, 1.5))
        shapes.append(marker(kind, x + 8, y, colour))
        shapes.append(text(x + 21, y + 3.8, name, 11))
        x += needed
    return shapes, y - top + 17


def _tick(value: float, scale: Scale) -> str:
    if scale.log:
        exponent = round(math.log10(value))
        return f"{value:g}" if -2 <= exponent <= 3 else f"1e{exponent}"
    return brief(0.0 if abs(value) < 1e-12 * max(abs(scale.lo), abs(scale.hi)) else value, 4)
