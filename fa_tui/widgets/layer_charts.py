"""‖h_l‖ and ‖g_l‖ of several runs over the layers, as two charts: what a large screen has room for.

The layers of the runs on one line of the matrix, drawn in the room that a short matrix leaves below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.geometry import Size
from textual.screen import Screen
from textual.timer import Timer

from fa_core.report import DiagnosticReport
from fa_tui.session import Session
from fa_tui.terminal.glyphs import Glyphs
from fa_tui.views.scale import Scale, covering
from fa_tui.views.words import told_apart
from fa_tui.widgets.chart import Canvas, Chart, Curve
from fa_tui.widgets.line import Line
from fa_tui.widgets.matrix import Matrix

_TITLES = (("h", "‖h_l‖ residual stream"), ("g", "‖g_l‖ BP gradient"))


class LayerCharts(Horizontal):
    """Two charts side by side; a run's curves are marked by its number.

    Args:
        glyphs: characters to draw with.
    """

    DEFAULT_CSS = "LayerCharts Vertical { width: 1fr; }"

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._canvases = {name: Canvas(glyphs=glyphs) for name, _ in _TITLES}

    def compose(self) -> ComposeResult:
        for name, title in _TITLES:
            line = Line(self._glyphs)
            line.set((f" {title}", "strong"), (" log", "dim"))
            yield Vertical(line, self._canvases[name])

    def show(self, reports: Sequence[DiagnosticReport], h: Scale | None, g: Scale | None) -> None:
        """Draw the runs' norms on these scales; nothing where there is no scale."""
        for name, norms, scale in (
            ("h", [report.residual_norms for report in reports], h),
            ("g", [report.bp_grad_norms for report in reports], g),
        ):
            self._canvases[name].set_chart(layer_chart(norms, scale))


def layer_chart(norms: Sequence[Sequence[float]], scale: Scale | None) -> Chart:
    """One curve per run over l = 0..L, marked 1, 2, …

    Args:
        norms: per run, one value per layer.
        scale: None draws nothing.
    """
    curves = [
        Curve([(float(layer), norm) for layer, norm in enumerate(run)], f"curve-{number}", str(number))
        for number, run in enumerate(norms, 1)
        if scale is not None
    ]
    depth = max(map(len, norms), default=0)
    return Chart(curves, Scale(0.0, float(max(1, depth - 1))), scale or Scale(0.0, 1.0), x_label="layer")


_LEAST = Size(50, 12)
"""Below this no chart can be read."""
_HIGHEST = 24
_RESTS_SECONDS = 0.15
"""A cursor on its way draws nothing: a chart costs some thousand bytes."""
_RUNS = 6
"""Curves whose colours are distinct."""
_SHARED = 500
"""Runs on whose common scale the curves stand; of more of them, those on the line have one of their own."""


class LineCharts(Vertical):
    """Stands on the matrix without taking room from it: where there are more lines, there are no charts.

    Args:
        session: the runs.
        matrix: whose line under the cursor is drawn.
        glyphs: characters to draw with.
    """

    DEFAULT_CSS = """
    LineCharts {
        layer: charts;
        display: none;
        & LayerCharts { height: 1fr; }
    }
    """

    def __init__(self, session: Session, matrix: Matrix, glyphs: Glyphs) -> None:
        super().__init__()
        self._session, self._matrix = session, matrix
        self._title = Line(glyphs)
        self._charts = LayerCharts(glyphs)
        self._rows: list[int] = []
        self._beside = Size(0, 0)
        self._count = ""
        self._drawn: tuple[str, list[DiagnosticReport]] = ("", [])
        self._waiting: Timer | None = None

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
    def is_due(self) -> bool:
        """Whether the cursor has just come to the line and it is still to be drawn."""
        return self._waiting is not None

    def follow(self) -> None:
        """Draw the line under the cursor once it rests there, if the matrix leaves room and a run was measured."""
        matrix = self._matrix
        self._beside = matrix.size
        top = matrix.line_count() + 2
        room = Size(matrix.size.width - 1, min(_HIGHEST, matrix.size.height - top))
        measured = (row for row in matrix.rows_on_line if self._session.rows[row].report.residual_norms)
        rows = list(islice(measured, _RUNS + 1))
        more, rows = len(rows) > _RUNS, rows[:_RUNS]
        self.display = bool(rows) and matrix.display and room.width >= _LEAST.width and room.height >= _LEAST.height
        if not self.display:
            return
        self.styles.offset = (0, top)
        self.styles.width, self.styles.height = room
        if rows == self._rows and self.is_due:
            return
        self._rows = rows
        self._count = f" first {len(rows)} of {len(matrix.rows_on_line)} " if more else ""
        if self._waiting is not None:
            self._waiting.stop()
            self._waiting = None
        if (self._count, [self._session.rows[row].report for row in rows]) != self._drawn:
            self._waiting = self.set_timer(_RESTS_SECONDS, self._draw)

    def _draw(self) -> None:
        self._waiting = None
        rows = [row for row in self._rows if row < len(self._session.rows)]
        reports = [self._session.rows[row].report for row in rows]
        self._drawn = (self._count, reports)
        told = told_apart([self._session.rows[row] for row in rows])
        names = "  ".join(f"{number} {method}{rest}" for number, (method, rest) in enumerate(told, 1))
        # in front: the names may be cut
        self._title.set((self._count, "warn"), (f" {names}", "dim"))
        self._charts.show(reports, *self._scales(reports))

    def _scales(self, reports: list[DiagnosticReport]) -> tuple[Scale | None, Scale | None]:
        rows = self._session.rows
        shown = [row.report for row in rows] if len(rows) <= _SHARED else reports
        h = [norm for report in shown for norm in report.residual_norms]
        g = [norm for report in shown for norm in report.bp_grad_norms]
        return covering(h, log=True), covering(g, log=True)
