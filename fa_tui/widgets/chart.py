"""Curves on a small canvas: 2×4 braille dots per cell, or plain characters.

1e4 ┤            ⢀⡠⠤⠒⠉a
 50 ┼╌╌╌╌╌╌╌⡠⠔⠊╌╌╌╌╌╌╌
  1 ┤⠤⠤⠤⠔⠊⠁         b
    0 ── epoch ── 40
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from fa_core.formats.rows import AuditRow
from fa_tui.views.glyphs import Glyphs
from fa_tui.views.looks import Look, end_labels
from fa_tui.views.scale import Scale, axis_of, tick_labels
from fa_tui.views.words import disambiguate
from fa_tui.widgets.line import Line
from fa_tui.widgets.painted import PaintedWidget, Row, joined

Point = tuple[float, float]
"""x and y."""

Points = Sequence[Point]

Cell = tuple[int, int]
"""Column and line."""


class End(NamedTuple):
    """The end of a curve.

    Attributes:
        column, line: the cell of its mark's last character.
        mark: its characters.
        style: the tone of its colour.
    """

    column: int
    line: int
    mark: str
    style: str

    @property
    def cells(self) -> set[Cell]:
        """The cells of the mark."""
        return {(self.column - place, self.line) for place in range(len(self.mark))}


def not_covered(curves: Sequence[Sequence[End]], taken: Collection[Cell]) -> list[End]:
    """Places of marks that do not overlap.

    The last curve comes first. A mark whose place is taken moves to the next one on its curve;
    a mark without any is dropped.

    Args:
        curves: in drawing order, the places of each one's mark, the best first.
        taken: cells (column, line) to avoid.

    >>> one, other = End(9, 0, "l=1", "x"), End(8, 0, "l=2", "y")
    >>> [end.mark for end in not_covered([[one], [other]], ())]
    ['l=2']
    >>> [end.column for end in not_covered([[one, End(3, 1, "l=1", "x")], [other]], ())]
    [8, 3]
    """
    occupied = {*taken}
    kept = list[End]()
    for places in reversed(curves):
        free = next((end for end in places if occupied.isdisjoint(end.cells)), None)
        if free is not None:
            kept.append(free)
            occupied |= free.cells
    return kept


_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of each dot of a braille cell, by row and column."""
AXIS = 9
"""Width of the vertical axis in cells."""


@dataclass(frozen=True)
class Curve:
    """Values over an axis.

    Attributes:
        points: (x, y) in order of x; a y that the scale cannot show is a gap; a 0 stands at the
            foot.
        style: the tone of its colour.
        mark: characters at its last point; without braille, the last of them draws the curve.
        stays: whether the mark keeps its place if other curves end there.
    """

    points: Points
    style: str
    mark: str
    stays: bool = False


@dataclass(frozen=True)
class Chart:
    """Curves on common axes.

    Attributes:
        curves: in drawing order.
        x, y: the scales.
        limits: y and tone of thresholds, dashed lines below the curves.
        behind: other curves, dim, without marks and only where the scales hold them.
        x_label: unit of x.
        x_spans: whether there is more than one x; if not, the right end has no number.
    """

    curves: Sequence[Curve]
    x: Scale
    y: Scale
    limits: Sequence[tuple[float, str]] = ()
    behind: Sequence[Points] = ()
    x_label: str = ""
    x_spans: bool = True


def draw_chart(chart: Chart, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    """The chart with its axes in `height` rows of `width` cells."""
    cells = _Cells(chart, max(1, width - AXIS), max(1, height - 1), glyphs)
    cells.draw_limits()
    cells.draw_behind()
    for curve in chart.curves:
        cells.draw_curve(curve)
    _mark_ends(cells, chart)
    edge = AXIS - 3
    labels = tick_labels(chart.y, cells.lines, edge, glyphs)
    rows: list[Row] = []
    for line in range(cells.lines):
        head = f"{labels.get(line, ''):>{edge}} {glyphs.divider} "
        rows.append([(head, "dim"), *cells.row(line)])
    if height > 1:
        rows.append([(" " * AXIS + _x_axis(chart, cells.columns, glyphs), "dim")])
    return rows


def _x_axis(chart: Chart, columns: int, glyphs: Glyphs) -> str:
    """The ends and the unit of the axis."""
    left = chart.x.tick(chart.x.lo, glyphs)
    right = ""
    if chart.x_spans:
        right = chart.x.tick(chart.x.hi, glyphs)
    room = max(0, columns - len(left) - len(right))
    return left + glyphs.say(chart.x_label)[:room].center(room) + right


def _mark_ends(cells: _Cells, chart: Chart) -> None:
    """Write the curves' marks at their ends."""
    ends: list[list[End]] = []
    taken: set[Cell] = set()
    for curve in chart.curves:
        drawn = [point for point in curve.points if chart.y.contains(point[1])]
        if not drawn:
            continue
        if curve.stays:
            column, line = cells.place(drawn[-1])
            cells.write(column, line, curve.mark, curve.style)
            taken.add((column, line))
        else:
            least = len(curve.mark) - 1
            places = map(cells.place, reversed(drawn))
            ends.append([End(max(least, x), y, curve.mark, curve.style) for x, y in places])
    for end in not_covered(ends, taken):
        cells.write(end.column - len(end.mark) + 1, end.line, end.mark, end.style)


class _Cells:
    """The canvas of characters and dots."""

    def __init__(self, chart: Chart, columns: int, lines: int, glyphs: Glyphs) -> None:
        self._chart = chart
        self.columns = columns
        self.lines = lines
        self._glyphs = glyphs
        self._characters = [[(" ", "")] * columns for _ in range(lines)]
        self._dots: dict[Cell, int] = defaultdict(int)

    def place(self, point: Point, across: int = 1, up: int = 1) -> Cell:
        """The cell of a point, or its dot among `across` × `up` per cell."""
        x, y = point
        lines = self.lines * up
        column = self._chart.x.cell(x, self.columns * across)
        return column, lines - 1 - self._chart.y.cell(y, lines)

    def write(self, column: int, line: int, text: str, style: str) -> None:
        for place, character in enumerate(text, column):
            if place < self.columns:
                self._characters[line][place] = (character, style)

    def row(self, line: int) -> Row:
        return joined(self._characters[line])

    def draw_limits(self) -> None:
        """Draw the thresholds that the scale holds."""
        for y, tone in self._chart.limits:
            if self._chart.y.contains(y):
                line = self.lines - 1 - self._chart.y.cell(y, self.lines)
                # blanks save bytes: a cell takes three
                self.write(0, line, f"{self._glyphs.firing}  " * self.columns, tone)

    def draw_behind(self) -> None:
        """Draw the dim curves; the others will share no cell with them."""
        x, y = self._chart.x, self._chart.y
        for curve in self._chart.behind:
            points = []
            for across, up in curve:
                if x.contains(across):
                    points.append((across, up if y.contains(up) else math.nan))
            self.draw_curve(Curve(points, "faint", self._glyphs.unmeasured))
        self._dots.clear()

    def draw_curve(self, curve: Curve) -> None:
        """Draw the lines between a curve's points."""
        braille = self._glyphs.unicode
        across = up = 1
        if braille:
            across, up = 2, 4
        mark = curve.mark[-1:]
        previous: Cell | None = None
        for point in curve.points:
            if not self._chart.y.contains(point[1]):
                previous = None
                if point[1] == 0:
                    column, line = self.place((point[0], self._chart.y.lo))
                    self.write(column, line, "0", curve.style)
                continue
            here = self.place(point, across, up)
            for column, line in _segment(previous or here, here):
                if braille:
                    self._dot(column, line, curve.style)
                else:
                    self.write(column, line, mark, curve.style)
            previous = here

    def _dot(self, x: int, y: int, style: str) -> None:
        """Set one of 2×4 dots per cell."""
        column, right = divmod(x, 2)
        line, below = divmod(y, 4)
        self._dots[line, column] |= _DOTS[below][right]
        character = chr(0x2800 | self._dots[line, column])
        self._characters[line][column] = (character, style)


def _segment(start: Cell, end: Cell) -> Iterator[Cell]:
    """The cells of a straight line, ends included."""
    column, line = start
    last_column, last_line = end
    across = last_column - column
    down = last_line - line
    steps = max(abs(across), abs(down), 1)
    for step in range(steps + 1):
        share = step / steps
        yield round(column + share * across), round(line + share * down)


def layer_chart(curves: Sequence[Curve]) -> Chart:
    """Curves over l = 0..L on their common scale."""
    depth = max((len(curve.points) for curve in curves), default=0)
    x = Scale(0.0, float(max(depth - 1, 1)))
    y = axis_of([norm for curve in curves for _, norm in curve.points], log=True)
    return Chart(curves, x, y, x_label="layer")


class Canvas(PaintedWidget):
    """Shows a `Chart`.

    Attributes:
        chart: the shown one.
    """

    chart = layer_chart(())

    def set_chart(self, chart: Chart) -> None:
        """Show another chart."""
        self.chart = chart
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        return draw_chart(self.chart, width, height, self._glyphs)


class LayerCharts(Horizontal):
    """Charts of ‖h_l‖ and ‖g_l‖, whose curves have the looks of the runs."""

    def __init__(self) -> None:
        super().__init__()
        self._canvases = {
            "‖h_l‖ residual stream": ("residual_norms", Canvas()),
            "‖g_l‖ BP gradient": ("bp_grad_norms", Canvas()),
        }

    def compose(self) -> ComposeResult:
        for title, (_, canvas) in self._canvases.items():
            yield Vertical(Line((f" {title}", "strong"), (", log", "dim")), canvas)

    def show(self, rows: Sequence[AuditRow], looks: Sequence[Look]) -> None:
        """Draw the runs' norms over l = 0..L; a norm that no run has stays empty."""
        labels = end_labels(rows, looks, disambiguate(rows))
        for field, canvas in self._canvases.values():
            curves = []
            for row, look, label in zip(rows, looks, labels, strict=True):
                points = list(enumerate(row.report.stream(field)))
                curves.append(Curve(points, look.style, label))
            canvas.set_chart(layer_chart(curves))
