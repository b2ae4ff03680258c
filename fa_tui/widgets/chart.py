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
from typing import TYPE_CHECKING, NamedTuple

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.geometry import Size
from textual.screen import Screen

from fa_core.formats.rows import AuditRow
from fa_core.report.measurements import Interval
from fa_core.report.quantities import JUDGED
from fa_tui.later import Later
from fa_tui.views.glyphs import Glyphs
from fa_tui.views.looks import Look, end_labels
from fa_tui.views.scale import Scale, covering, tick_labels
from fa_tui.views.sparklines import Scales, norm_scales
from fa_tui.views.words import disambiguate
from fa_tui.widgets.line import Line
from fa_tui.widgets.matrix import Matrix
from fa_tui.widgets.painted import PaintedWidget, Row, joined

if TYPE_CHECKING:
    from fa_core.analysis.threshold_sweep import VerdictCurve


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


def not_covered(curves: Sequence[Sequence[End]], taken: Collection[Cell]) -> tuple[list[End], int]:
    """Places of marks that do not overlap, and the number of dropped marks.

    The last curve comes first. A mark whose place is taken moves to the next one on its curve.

    Args:
        curves: in drawing order, the places of each one's mark, the best first.
        taken: cells (column, line) to avoid.

    >>> one, other = End(9, 0, "l=1", "x"), End(8, 0, "l=2", "y")
    >>> kept, dropped = not_covered([[one], [other]], ())
    >>> [end.mark for end in kept], dropped
    (['l=2'], 1)
    >>> kept, dropped = not_covered([[one, End(3, 1, "l=1", "x")], [other]], ())
    >>> [end.column for end in kept], dropped
    ([8, 3], 0)
    """
    occupied = {*taken}
    kept = list[End]()
    for places in reversed(curves):
        free = next((end for end in places if occupied.isdisjoint(end.cells)), None)
        if free is not None:
            kept.append(free)
            occupied |= free.cells
    marks = {places[0].mark for places in curves}
    marks.difference_update(end.mark for end in kept)
    return kept, len(marks)


_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of each dot of a braille cell, by row and column."""
_STOP = "stop"
BACKGROUND = "faint"
"""Tone of curves in the background."""
AXIS = 8
"""Width of the vertical axis in cells."""
SLICES = 400
"""Steps drawn at most, as fine as braille dots on the widest screen."""


@dataclass(frozen=True)
class Curve:
    """Values over an axis.

    Attributes:
        points: (x, y) in order of x; a y that the scale cannot show is a gap.
        style: the tone of its colour.
        mark: characters at its last point; without braille, the last of them draws the curve.
            ``""`` for a curve in the background.
        stays: whether the mark keeps its place if other curves end there.
        name: of the run.
    """

    points: Points
    style: str
    mark: str
    stays: bool = False
    name: str = ""


@dataclass(frozen=True)
class Chart:
    """Curves on common axes.

    Attributes:
        curves: in drawing order.
        x, y: the scales.
        limit: y of a threshold, a dashed line below the curves; NaN for none.
        cursor: x of a vertical line.
        x_label: unit of x.
        stop: x of an early stop, a dashed vertical line.
        x_spans: whether there is more than one x; if not, the right end has no number.
        axis: width of the vertical axis in cells.
        band: range of y shaded below the curves.
    """

    curves: Sequence[Curve]
    x: Scale
    y: Scale
    limit: float = math.nan
    cursor: float | None = None
    x_label: str = ""
    stop: float | None = None
    x_spans: bool = True
    axis: int = AXIS
    band: Interval | None = None


def draw_chart(chart: Chart, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    """The chart with its axes in `height` rows of `width` cells."""
    cells = _Cells(chart, max(1, width - chart.axis), max(1, height - 1), glyphs)
    cells.draw_lines()
    for curve in chart.curves:
        cells.draw_curve(curve)
    taken = cells.draw_stop()
    left_out = _mark_ends(cells, chart, taken)
    edge = chart.axis - 2
    labels = tick_labels(chart.y, cells.lines, edge, glyphs)
    rows: list[Row] = []
    for line in range(cells.lines):
        head = f"{labels.get(line, ''):>{edge}} "
        rows.append([(head, "dim"), (glyphs.divider, "dim"), *cells.row(line)])
    if height > 1:
        axis = " " * chart.axis + _x_axis(chart, cells.columns, left_out, glyphs)
        rows.append([(axis, "dim")])
    return rows


def _x_axis(chart: Chart, columns: int, left_out: int, glyphs: Glyphs) -> str:
    """The ends and the unit of the axis, and the number of marks left out, if it fits."""
    left = chart.x.tick(chart.x.lo, glyphs)
    right = ""
    if chart.x_spans:
        right = chart.x.tick(chart.x.hi, glyphs)
    room = max(0, columns - len(left) - len(right))
    label = chart.x_label
    if left_out:
        plural = "s" if left_out > 1 else ""
        more = f"{label}   +{left_out} more end{plural}"
        if len(more) + 2 <= room:
            label = more
    return left + glyphs.say(label)[:room].center(room) + right


def _mark_ends(cells: _Cells, chart: Chart, taken: set[Cell]) -> int:
    """Write the curves' marks at their ends. Returns the number of marks left out."""
    ends: list[list[End]] = []
    for curve in chart.curves:
        drawn = [point for point in curve.points if drawable(chart.y, point[1])]
        if not drawn or not curve.mark:
            continue
        if curve.stays:
            column, line = cells.place(drawn[-1])
            cells.write(column, line, curve.mark, curve.style)
            taken.add((column, line))
        else:
            least = len(curve.mark) - 1
            places = []
            for column, line in map(cells.place, reversed(drawn)):
                places.append(End(max(least, column), line, curve.mark, curve.style))
            ends.append(places)
    kept, left_out = not_covered(ends, taken)
    for end in kept:
        cells.write(end.column - len(end.mark) + 1, end.line, end.mark, end.style)
    return left_out


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
        if not 0 <= line < self.lines:
            return
        for place, character in enumerate(text, column):
            if 0 <= place < self.columns:
                self._characters[line][place] = (character, style)

    def row(self, line: int) -> Row:
        return joined(self._characters[line])

    def draw_lines(self) -> None:
        """Draw the band, and horizontal and vertical lines."""
        chart = self._chart
        glyphs = self._glyphs
        if chart.band is not None:
            low, high = chart.band
            shade = glyphs.say("░ ") * self.columns
            for line in range(self._line(high), self._line(low) + 1):
                self.write(0, line, shade, "faint")
        # blanks save bytes: a cell takes three
        self._draw_across(chart.limit, f"{glyphs.firing}  ", "limit")
        self._draw_down(chart.stop, glyphs.say("┊"))
        self._draw_down(chart.cursor, glyphs.divider)

    def _line(self, y: float) -> int:
        return self.lines - 1 - self._chart.y.cell(y, self.lines)

    def _draw_across(self, y: float, text: str, tone: str) -> None:
        if self._chart.y.contains(y):
            self.write(0, self._line(y), text * self.columns, tone)

    def _draw_down(self, x: float | None, glyph: str) -> None:
        if x is not None:
            column = self._chart.x.cell(x, self.columns)
            for line in range(self.lines):
                self.write(column, line, glyph, "note")

    def draw_stop(self) -> set[Cell]:
        """Name the stop in the first line. Returns the cells of the name."""
        chart = self._chart
        if chart.stop is None:
            return set()
        begin = chart.x.cell(chart.stop, self.columns) + 1
        end = begin + len(_STOP)
        if end > self.columns:
            end = begin - 1
            begin = end - len(_STOP)
        self.write(begin, 0, _STOP, "note")
        return {(column, 0) for column in range(begin, end)}

    def draw_curve(self, curve: Curve) -> None:
        """Draw the lines between a curve's points; in the background dotted."""
        braille = self._glyphs.braille
        across = up = 1
        if braille:
            across, up = 2, 4
        mark = curve.mark[-1:] or "."
        previous: Cell | None = None
        for point in curve.points:
            if not drawable(self._chart.y, point[1]):
                previous = None
                continue
            here = self.place(point, across, up)
            for column, line in _segment(previous or here, here):
                if curve.style == BACKGROUND and column // across % 4:
                    continue
                if braille:
                    self._dot(column, line, curve.style)
                else:
                    self.write(column, line, mark, curve.style)
            previous = here

    def _dot(self, x: int, y: int, style: str) -> None:
        """Set one of 2×4 dots per cell."""
        column, right = divmod(x, 2)
        line, below = divmod(y, 4)
        if 0 <= column < self.columns and 0 <= line < self.lines:
            _, held = self._characters[line][column]
            if held == BACKGROUND and style != BACKGROUND:
                # a cell has one colour: dots of the background would look like the curve's
                self._dots[line, column] = 0
            self._dots[line, column] |= _DOTS[below][right]
            character = chr(0x2800 | self._dots[line, column])
            self._characters[line][column] = (character, style)


def drawable(scale: Scale, value: float) -> bool:
    return math.isfinite(value) and (value > 0 or not scale.log)


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


def curve_chart(curve: VerdictCurve, threshold: float, runs: int) -> Chart:
    """Numbers of runs that fire and of walk-backs over one threshold, whose value the cursor marks.

    Args:
        curve: the step functions.
        threshold: its current value.
        runs: number of runs.
    """
    log = JUDGED[curve.letter].log
    drawn = curve.points
    if log:
        drawn = drawn[drawn > 0]
    # the points are sorted: the outermost ones set the axis
    outermost = [*drawn[:1].tolist(), *drawn[-1:].tolist(), threshold]
    x = covering(outermost, log=log) or Scale(0.0, 1.0)
    kept: Sequence[int] = range(len(curve.fired))
    if len(kept) > SLICES + 1:
        # the last step of each small slice of the axis
        slices = [x.value(slice_ / SLICES) for slice_ in range(SLICES + 1)]
        last = curve.points.searchsorted(slices, side="right").tolist()
        kept = sorted({0, *last})
    points = [float(curve.points[at - 1]) for at in kept[1:]]
    fired = [int(curve.fired[at]) for at in kept]
    walked = [int(curve.walk_backs[at]) for at in kept]
    curves = [
        Curve(steps(points, fired, x), "curve-1", curve.letter),
        Curve(steps(points, walked, x), "text", "w"),
    ]
    # divisible by four: quarters are whole numbers
    y = Scale(0.0, 4.0 * math.ceil(max(1, runs) / 4))
    label = f"threshold of ({curve.letter})"
    if log:
        label += ", log"
    return Chart(curves, x, y, cursor=threshold, x_label=label)


def steps(points: Sequence[float], counts: Sequence[int], x: Scale) -> list[Point]:
    """A step function as the corners of its line.

    >>> steps([2.0, 3.0], [5, 1, 0], Scale(1.0, 4.0))
    [(1.0, 5.0), (2.0, 5.0), (2.0, 1.0), (3.0, 1.0), (3.0, 0.0), (4.0, 0.0)]
    """
    corners = []
    starts = [x.lo, *points]
    ends = [*points, x.hi]
    for start, end, count in zip(starts, ends, counts, strict=True):
        corners += [(start, float(count)), (end, float(count))]
    return corners


class Canvas(PaintedWidget):
    """Shows a `Chart`.

    Attributes:
        chart: the shown one.
    """

    chart: Chart | None = None

    def set_chart(self, chart: Chart) -> None:
        """Show another chart."""
        self.chart = chart
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        if self.chart is None:
            return []
        return draw_chart(self.chart, width, height, self._glyphs)


class LayerCharts(Horizontal):
    """Charts of ‖h_l‖ and ‖g_l‖, whose curves have the looks of the runs."""

    def __init__(self) -> None:
        super().__init__()
        self._canvases = {"‖h_l‖ residual stream": Canvas(), "‖g_l‖ BP gradient": Canvas()}

    @property
    def charts(self) -> list[tuple[str, Chart]]:
        """The drawn charts with their titles."""
        charts = []
        for title, canvas in self._canvases.items():
            if canvas.chart is not None:
                charts.append((title, canvas.chart))
        return charts

    def compose(self) -> ComposeResult:
        for title, canvas in self._canvases.items():
            line = Line()
            line.set((f" {title}", "strong"), (" log", "dim"))
            yield Vertical(line, canvas)

    def show(self, rows: Sequence[AuditRow], scales: Scales, looks: Sequence[Look]) -> None:
        """Draw the runs' norms on these scales; a chart without a scale stays empty."""
        names = list(map("".join, disambiguate(rows)))
        labels = end_labels(rows, looks, names)
        fields = ("residual_norms", "bp_grad_norms")
        for canvas, field, scale in zip(self._canvases.values(), fields, scales, strict=True):
            curves = []
            for row, look, label, name in zip(rows, looks, labels, names, strict=True):
                points = list(enumerate(map(float, row.report.stream(field))))
                curves.append(Curve(points, look.style, label, name=name))
            canvas.set_chart(layer_chart(curves, scale))


def layer_chart(curves: Sequence[Curve], scale: Scale | None) -> Chart:
    """Curves over l = 0..L; None draws nothing."""
    depth = max((len(curve.points) for curve in curves), default=0)
    x = Scale(0.0, float(max(depth - 1, 1)))
    if scale is None:
        return Chart([], x, Scale(0.0, 1.0), x_label="layer")
    return Chart(curves, x, scale, x_label="layer")


_LEAST = Size(50, 12)
"""Smallest readable chart."""
_HIGHEST = 24
_BESIDE = Size(40, 22)
"""Least room for two charts next to the matrix."""
_RESTS_SECONDS = 0.05
"""Delay after cursor moves: a chart costs some thousand bytes."""
_RUNS = 6
"""Curves whose colours are distinct."""
_SHARED = 500
"""Up to so many runs, curves share the scale of all; beyond, the line's runs have their own."""


class LineCharts(Vertical):
    """Charts of the line under the cursor, next to the matrix' columns or below its lines.

    Without enough room there are no charts.

    Args:
        matrix: with the cursor.

    Attributes:
        draw_later: draws the current line.
    """

    def __init__(self, matrix: Matrix) -> None:
        super().__init__()
        self._matrix = matrix
        self._title = Line()
        self._charts = LayerCharts()
        self._beside = Size(0, 0)
        self._wanted: tuple[str, list[AuditRow]] = ("", [])
        self.draw_later = Later(_RESTS_SECONDS, self, self._draw)

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._charts

    def on_mount(self) -> None:
        self.screen.screen_layout_refresh_signal.subscribe(self, self._laid_out)

    def _laid_out(self, screen: Screen[None]) -> None:
        """Follow a new size of the matrix."""
        if self._matrix.size != self._beside:
            self.follow()

    @property
    def charts(self) -> list[tuple[str, Chart]]:
        """The shown charts with their titles."""
        if self.display:
            return self._charts.charts
        return []

    def follow(self) -> None:
        """Draw the line under the cursor after a delay, if there is room and a measured run."""
        matrix = self._matrix
        self._beside = matrix.size
        # next to the columns, else below the lines
        left = matrix.virtual_size.width + 1
        top = 0
        room = Size(matrix.size.width - left - 2, min(2 * _HIGHEST, matrix.size.height))
        least = _BESIDE
        beside = room.width >= least.width and room.height >= least.height
        if not beside:
            left = 0
            top = matrix.line_count() + 2
            least = _LEAST
            room = Size(matrix.size.width - 1, min(_HIGHEST, matrix.size.height - top))
        self.set_class(beside, "-beside")
        on_line = matrix.rows_on_line
        measured = [row for row in on_line if self._matrix.session.rows[row].report.residual_norms]
        fits = room.width >= least.width and room.height >= least.height
        self.display = bool(measured) and matrix.display and fits
        if not self.display:
            return
        self.styles.offset = (left, top)
        self.styles.width, self.styles.height = room
        count = ""
        if len(measured) > _RUNS:
            count = f" first {_RUNS} of {len(on_line)} "
        wanted = (count, [self._matrix.session.rows[row] for row in measured[:_RUNS]])
        if wanted != self._wanted:
            self._wanted = wanted
            self.draw_later.again()

    def _draw(self) -> None:
        count, rows = self._wanted
        looks = self._matrix.cells.looks.drawn(rows)
        legend = []
        for look, (name, end) in zip(looks, disambiguate(rows), strict=True):
            legend.append((f" {look.mark} {name}{end} ", look.style))
        # the count first, as the names may be cut
        self._title.set((count, "warn"), *legend)
        session = self._matrix.session
        if len(session.in_scope) <= _SHARED:
            drawn = session.scoped
        else:
            drawn = rows
        self._charts.show(rows, norm_scales(drawn), looks)
