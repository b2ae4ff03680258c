"""‖h_l‖ and ‖g_l‖ of several runs over the layers, as two charts: what a large screen has room for."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from fa_core.report import DiagnosticReport
from fa_tui.widgets.canvas import Canvas
from fa_tui.widgets.chart import Chart, Curve
from fa_tui.widgets.glyphs import Glyphs
from fa_tui.widgets.line import Line
from fa_tui.widgets.scale import Scale

_TITLES = (("h", "‖h_l‖ residual stream"), ("g", "‖g_l‖ BP gradient"))


class LayerCharts(Horizontal):
    """Two charts side by side; a run's curves are marked by its number.

    Args:
        glyphs: characters to draw with.
    """

    DEFAULT_CSS = """
    LayerCharts {
        & Vertical { width: 1fr; }
        & Canvas > .chart--2 { color: $warning; }
        & Canvas > .chart--4 { color: $secondary-lighten-2; }
        & Canvas > .chart--5 { color: $primary-darken-2; }
        & Canvas > .chart--6 { color: $accent-darken-2; }
    }
    """

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
        Curve([(float(layer), norm) for layer, norm in enumerate(run)], f"chart--{number}", str(number))
        for number, run in enumerate(norms, 1)
        if scale is not None
    ]
    depth = max(map(len, norms), default=0)
    return Chart(curves, Scale(0.0, float(max(1, depth - 1))), scale or Scale(0.0, 1.0), x_label="layer")
