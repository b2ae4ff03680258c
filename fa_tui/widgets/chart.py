"""Curves on a small canvas: 2×4 braille dots per cell, or plain characters.

1e4 ┤            ⢀⡠⠤⠒⠉a
 50 ┼╌╌╌╌╌╌╌⡠⠔⠊╌╌╌╌╌╌╌
  1 ┤⠤⠤⠤⠔⠊⠁         b
    0 ── epoch ── 40
"""

from __future__ import annotations

import math
from asyncio import TimerHandle
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.geometry import Size
from textual.screen import Screen

from fa_core.judgement.diagnostics import DIAGNOSTICS
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow
from fa_tui.session import Session
from fa_tui.terminal.painting import after
from fa_tui.views.scale import Scale, covering, tick_labels
from fa_tui.views.text import Glyphs
from fa_tui.views.words import told_apart
from fa_tui.widgets.line import Line
from fa_tui.widgets.matrix import Matrix
from fa_tui.widgets.painted import PaintedWidget, Row, joined

if TYPE_CHECKING:
    from fa_core.analysis.threshold_sweep import VerdictCurve


class End(NamedTuple):
    """Where a curve ends.

    Attributes:
        column, line: the cell.
        mark: its characters; the last one is in that cell.
        style: the tone of its colour.
    """

    column: int
    line: int
    mark: str
    style: str

    @property
    def cells(self) -> set[tuple[int, int]]:
        """What it covers."""
        return {(self.column - back, self.line) for back in range(len(self.mark))}


def not_covered(ends: Sequence[End], taken: Collection[tuple[int, int]]) -> tuple[list[End], int]:
    """The ends whose marks cover no other, and how many marks are nowhere then: of those that meet
    the last one stays.

    Args:
        ends: in drawing order.
        taken: cells (column, line) that are to be left as they are.

    >>> kept, dropped = not_covered([End(9, 0, "l=1", "x"), End(8, 0, "l=2", "y")], ())
    >>> [end.mark for end in kept], dropped
    (['l=2'], 1)
    """
    occupied, kept = {*taken}, list[End]()
    for end in reversed(ends):
        if occupied.isdisjoint(end.cells):
            kept.append(end)
            occupied |= end.cells
    return kept, len({end.mark for end in ends} - {end.mark for end in kept})


_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of each dot of a braille cell, by row and column."""
_STOP = "stop"
AXIS = 8
"""Cells for the numbers next to the chart."""
SLICES = 400
"""Steps drawn at most: a braille dot is no finer on the widest screen."""


@dataclass(frozen=True)
class Curve:
    """Values over an axis.

    Attributes:
        points: (x, y) in order of x; a y that is not finite (or not positive on a log scale) is a
            gap.
        style: the tone of its colour.
        mark: characters at its last point, the last of them for all of it where there is no
            braille: curves must be distinct without colour; ``""`` for one in the background.
        stays: whether the mark stays on that point even where other curves end.
        name: of what it is drawn.
    """

    points: Sequence[tuple[float, float]]
    style: str
    mark: str
    stays: bool = False
    name: str = ""


@dataclass(frozen=True)
class Chart:
    """What to draw.

    Attributes:
        curves: drawn in order; later ones lie on top.
        x, y: the scales, shared by all curves.
        limit: a threshold: a dashed horizontal line below the curves; NaN for none.
        cursor: an x to mark with a vertical line.
        x_label: what x counts.
        stop: an x to mark with a dashed vertical line, as the place where something would have
            ended.
        x_spans: whether there is more than one x; the right end has no number if not.
        level: a y to mark with a horizontal line: with `cursor`, a cross.
        axis: cells for the numbers next to it.
        band: two values between which everything is shaded, below the curves.
    """

    curves: Sequence[Curve]
    x: Scale
    y: Scale
    limit: float = math.nan
    cursor: float | None = None
    x_label: str = ""
    stop: float | None = None
    x_spans: bool = True
    level: float = math.nan
    axis: int = AXIS
    band: tuple[float, float] | None = None


def draw_chart(chart: Chart, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    """The chart with its axes in `height` rows of `width` cells."""
    columns, lines = max(1, width - chart.axis), max(1, height - 1)
    cells = _Cells(columns, lines)
    low, high = (lines - 1 - chart.y.cell(y, lines) for y in chart.band) if chart.band else (-1, 0)
    for line in range(high, low + 1):
        cells.write(0, line, glyphs.say("░") * columns, "faint")
    # of the cross every other cell: each takes three bytes, more than all the words on the screen
    for y, text, tone in (
        (chart.limit, glyphs.firing, "limit"),
        (chart.level, f" {glyphs.rule}", "dim"),
    ):
        if chart.y.contains(y):
            cells.write(0, lines - 1 - chart.y.cell(y, lines), (text * columns)[:columns], tone)
    for x, glyph in ((chart.stop, glyphs.say("┊")), (chart.cursor, glyphs.divider)):
        if x is not None:
            for line in range(lines):
                cells.write(chart.x.cell(x, columns), line, glyph, "note")
    for curve in chart.curves:
        _draw_curve(cells, chart, curve, braille=glyphs.braille)
    taken: set[tuple[int, int]] = set()
    if chart.stop is not None:
        at = chart.x.cell(chart.stop, columns)
        if at + 1 + len(_STOP) <= columns:
            begin = at + 1
        else:
            begin = at - len(_STOP)
        cells.write(begin, 0, _STOP, "note")
        taken |= {(column, 0) for column in range(begin, begin + len(_STOP))}
    left_out = _mark_ends(cells, chart, taken)
    edge = chart.axis - 2
    labels = tick_labels(chart.y, lines, edge, glyphs)
    heads = [(f"{labels.get(line, ''):>{edge}} ", "dim") for line in range(lines)]
    rows = [[head, (glyphs.divider, "dim"), *cells.row(line)] for line, head in enumerate(heads)]
    left, right = (
        chart.x.tick(chart.x.lo, glyphs),
        chart.x.tick(chart.x.hi, glyphs) if chart.x_spans else "",
    )
    more = f"{chart.x_label}   +{left_out} more end{'s' if left_out > 1 else ''}"
    room = max(0, columns - len(left) - len(right))
    middle = glyphs.say(more if left_out and len(more) + 2 <= room else chart.x_label)[
        :room
    ].center(room)
    if height > 1:
        return [*rows, [(" " * chart.axis + left + middle + right, "dim")]]
    return rows


def _mark_ends(cells: _Cells, chart: Chart, taken: set[tuple[int, int]]) -> int:
    """Write the curves' marks at their ends; how many are left out."""
    ends: list[End] = []
    for curve in chart.curves:
        last = next(
            (point for point in reversed(curve.points) if _drawable(chart.y, point[1])), None
        )
        if last is None or not curve.mark:
            continue
        column, line = (
            chart.x.cell(last[0], cells.columns),
            cells.lines - 1 - chart.y.cell(last[1], cells.lines),
        )
        if curve.stays:
            cells.write(column, line, curve.mark, curve.style)
            taken.add((column, line))
        else:
            ends.append(End(column, line, curve.mark, curve.style))
    kept, left_out = not_covered(ends, taken)
    for column, line, mark, style in kept:
        cells.write(column - len(mark) + 1, line, mark, style)
    return left_out


class _Cells:
    """Characters and dots under way to rows."""

    def __init__(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        self._characters = [[(" ", "")] * columns for _ in range(lines)]
        self._dots: dict[tuple[int, int], int] = {}

    def dot(self, x: int, y: int, style: str) -> None:
        """Set one of 2×4 dots per cell."""
        column, line = x // 2, y // 4
        if 0 <= column < self.columns and 0 <= line < self.lines:
            bits = self._dots.get((line, column), 0) | _DOTS[y % 4][x % 2]
            self._dots[line, column] = bits
            self._characters[line][column] = (chr(0x2800 | bits), style)

    def write(self, column: int, line: int, text: str, style: str) -> None:
        for offset, character in enumerate(text):
            if 0 <= column + offset < self.columns and 0 <= line < self.lines:
                self._characters[line][column + offset] = (character, style)

    def row(self, line: int) -> Row:
        return joined(self._characters[line])


def _draw_curve(cells: _Cells, chart: Chart, curve: Curve, braille: bool) -> None:
    across, up = (2, 4) if braille else (1, 1)
    columns, lines = cells.columns * across, cells.lines * up
    previous: tuple[int, int] | None = None
    for x, y in curve.points:
        if not _drawable(chart.y, y):
            previous = None
            continue
        here = (chart.x.cell(x, columns), lines - 1 - chart.y.cell(y, lines))
        for column, line in _segment(previous or here, here):
            if braille:
                cells.dot(column, line, curve.style)
            else:
                cells.write(column, line, curve.mark[-1:] or ".", curve.style)
        previous = here


def _drawable(scale: Scale, value: float) -> bool:
    return math.isfinite(value) and (value > 0 or not scale.log)


def _segment(start: tuple[int, int], end: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """The cells of a straight line, ends included."""
    steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
    for step in range(steps + 1):
        share = step / steps
        yield (
            round(start[0] + share * (end[0] - start[0])),
            round(start[1] + share * (end[1] - start[1])),
        )


def curve_chart(curve: VerdictCurve, threshold: float, runs: int) -> Chart:
    """How many runs fire and how many need walk-back, as functions of one threshold, which the
    cursor marks.

    Args:
        curve: the step functions.
        threshold: its value now.
        runs: how many there are.
    """
    diagnostic = DIAGNOSTICS[curve.letter]
    if diagnostic.log:
        drawn = curve.points[curve.points > 0]
    else:
        drawn = curve.points
    # they are sorted, and many: the outermost two say how far they go
    x = covering(
        [*drawn[:1].tolist(), *drawn[-1:].tolist(), threshold], log=diagnostic.log
    ) or Scale(0.0, 1.0)
    kept: Sequence[int] = range(1, len(curve.points) + 1)
    if len(kept) > SLICES:
        # of each small slice of the axis the last step
        slices = [x.value(slice_ / SLICES) for slice_ in range(SLICES + 1)]
        kept = sorted({*curve.points.searchsorted(slices, side="right").tolist()} - {0})
    points = [float(curve.points[at - 1]) for at in kept]
    fired, walked = (
        [int(counts[at]) for at in (0, *kept)] for counts in (curve.fired, curve.walk_backs)
    )
    curves = [
        Curve(steps(points, fired, x), "curve-1", curve.letter),
        Curve(steps(points, walked, x), "text", "w"),
    ]
    # quarters of it are whole numbers
    y = Scale(0.0, 4.0 * math.ceil(max(1, runs) / 4))
    label = f"threshold of ({curve.letter}){', log' if diagnostic.log else ''}"
    return Chart(curves, x, y, cursor=threshold, x_label=label)


def steps(points: Iterable[float], counts: Iterable[int], x: Scale) -> list[tuple[float, float]]:
    """A step function as the corners of its line.

    >>> steps([2.0, 3.0], [5, 1, 0], Scale(1.0, 4.0))
    [(1.0, 5.0), (2.0, 5.0), (2.0, 1.0), (3.0, 1.0), (3.0, 0.0), (4.0, 0.0)]
    """
    edges = [x.lo, *(edge for point in points for edge in (point, point)), x.hi]
    return list(zip(edges, (float(count) for count in counts for _ in range(2)), strict=True))


class Canvas(PaintedWidget):
    """Shows a `Chart`.

    Attributes:
        chart: what it shows.
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


_TITLES = (("h", "‖h_l‖ residual stream"), ("g", "‖g_l‖ BP gradient"))


class LayerCharts(Horizontal):
    """Two charts side by side; a run's curves are marked by its number."""

    def __init__(self) -> None:
        super().__init__()
        self._canvases = {name: Canvas() for name, _ in _TITLES}

    @property
    def charts(self) -> list[tuple[str, Chart]]:
        """What is drawn, with titles."""
        drawn = ((title, self._canvases[name].chart) for name, title in _TITLES)
        return [(title, chart) for title, chart in drawn if chart is not None]

    def compose(self) -> ComposeResult:
        for name, title in _TITLES:
            line = Line()
            line.set((f" {title}", "strong"), (" log", "dim"))
            yield Vertical(line, self._canvases[name])

    def show(
        self,
        reports: Sequence[DiagnosticReport],
        h: Scale | None,
        g: Scale | None,
        names: Sequence[str],
    ) -> None:
        """Draw the runs' norms on these scales, named so; nothing where there is no scale."""
        for name, stream, scale in (("h", "residual_norms", h), ("g", "bp_grad_norms", g)):
            norms = [report.stream(stream) for report in reports]
            self._canvases[name].set_chart(layer_chart(norms, scale, names))


def layer_chart(
    norms: Sequence[Sequence[float]], scale: Scale | None, names: Sequence[str] = ()
) -> Chart:
    """One curve per run over l = 0..L, marked 1, 2, …

    Args:
        norms: per run, one value per layer.
        scale: None draws nothing.
        names: of the runs.
    """
    curves = [
        Curve([*enumerate(map(float, run))], f"curve-{number}", str(number), name=name)
        for number, (run, name) in enumerate(zip_longest(norms, names, fillvalue=""), 1)
        if scale is not None
    ]
    depth = max(map(len, norms), default=0)
    return Chart(
        curves, Scale(0.0, float(max(1, depth - 1))), scale or Scale(0.0, 1.0), x_label="layer"
    )


_LEAST = Size(50, 12)
"""Below this no chart can be read."""
_HIGHEST = 24
_BESIDE = Size(40, 22)
"""Next to the matrix, one below the other."""
_RESTS_SECONDS = 0.05
"""A cursor on its way draws nothing: a chart costs some thousand bytes."""
_RUNS = 6
"""Curves whose colours are distinct."""
_SHARED = 500
"""Up to so many runs, curves share the scale of all of them; of more, those on the line have their
own."""


class LineCharts(Vertical):
    """Lies on the matrix where it leaves room, next to its columns or below its lines: else there
    are no charts.

    Args:
        session: the runs.
        matrix: whose line under the cursor is drawn.

    Attributes:
        waiting: runs until a line that the cursor has just come to is drawn.
    """

    def __init__(self, session: Session, matrix: Matrix) -> None:
        super().__init__()
        self._session, self._matrix = session, matrix
        self._title = Line()
        self._charts = LayerCharts()
        self._beside = Size(0, 0)
        self._wanted: tuple[str, list[AuditRow]] = ("", [])
        self.waiting: TimerHandle | None = None

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._charts

    def on_mount(self) -> None:
        self.screen.screen_layout_refresh_signal.subscribe(self, self._laid_out)

    def _laid_out(self, screen: Screen[None]) -> None:
        """The matrix has its size only now, whatever it was that changed it."""
        if self._matrix.size != self._beside:
            self.follow()

    @property
    def charts(self) -> list[tuple[str, Chart]]:
        """What is drawn now, with titles; nothing where there is no room."""
        if self.display:
            return self._charts.charts
        return []

    def follow(self) -> None:
        """Draw the line under the cursor once it rests there, if the matrix leaves room and a run
        was measured."""
        matrix = self._matrix
        self._beside = matrix.size
        # next to the columns, where they end; else below the lines
        left, top = matrix.virtual_size.width + 1, 0
        room = Size(matrix.size.width - left - 2, min(2 * _HIGHEST, matrix.size.height))
        least = _BESIDE
        beside = room.width >= least.width and room.height >= least.height
        if not beside:
            left, top, least = 0, matrix.line_count() + 2, _LEAST
            room = Size(matrix.size.width - 1, min(_HIGHEST, matrix.size.height - top))
        self.set_class(beside, "-beside")
        measured = (
            row for row in matrix.rows_on_line if self._session.rows[row].report.residual_norms
        )
        rows = list(islice(measured, _RUNS + 1))
        more, rows = len(rows) > _RUNS, rows[:_RUNS]
        self.display = (
            bool(rows)
            and matrix.display
            and room.width >= least.width
            and room.height >= least.height
        )
        if not self.display:
            return
        self.styles.offset = (left, top)
        self.styles.width, self.styles.height = room
        if more:
            count = f" first {len(rows)} of {len(matrix.rows_on_line)} "
        else:
            count = ""
        wanted = count, [self._session.rows[row] for row in rows]
        if wanted != self._wanted:
            self._wanted = wanted
            if self.waiting is not None:
                self.waiting.cancel()
            self.waiting = after(_RESTS_SECONDS, self, self._draw)

    def _draw(self) -> None:
        self.waiting = None
        count, rows = self._wanted
        reports = [row.report for row in rows]
        runs = ["".join(name) for name in told_apart(rows)]
        names = "  ".join(f"{number} {name}" for number, name in enumerate(runs, 1))
        # in front: the names may be cut
        self._title.set((count, "warn"), (f" {names}", "dim"))
        self._charts.show(reports, *self._scales(reports), runs)

    def _scales(self, reports: list[DiagnosticReport]) -> tuple[Scale | None, Scale | None]:
        rows = self._session.in_scope
        if len(rows) <= _SHARED:
            shown = [self._session.rows[row].report for row in rows]
        else:
            shown = reports
        h = [norm for report in shown for norm in report.residual_norms]
        g = [norm for report in shown for norm in report.bp_grad_norms]
        return covering(h, log=True), covering(g, log=True)
