"""A chart as a widget: a change repaints the cells it touches."""

from __future__ import annotations

from collections.abc import Sequence

from fa_tui.widgets.chart import Chart, draw_chart
from fa_tui.widgets.glyphs import UNICODE, Glyphs
from fa_tui.widgets.painted import PaintedWidget, Row


class Canvas(PaintedWidget):
    """Shows a `Chart`.

    Curves and levels take their styles from ``chart--1`` .. ``chart--6``, ``chart--fires``, ``chart--level``.

    Args:
        glyphs: characters to draw with.
    """

    DEFAULT_CSS = """
    Canvas {
        height: 1fr;
        & > .chart--axis { color: $text-muted; }
        & > .chart--cursor { color: $warning; }
        & > .chart--level { color: $text-muted; }
        & > .chart--fires { color: $error; text-style: bold; }
        & > .chart--1 { color: $primary; }
        & > .chart--2 { color: $error; }
        & > .chart--3 { color: $accent; }
        & > .chart--4 { color: $warning; }
        & > .chart--5 { color: $secondary; }
        & > .chart--6 { color: $foreground; }
    }
    """
    COMPONENT_CLASSES = {f"chart--{part}" for part in ("axis", "cursor", "level", "fires", *"123456")}

    help_text = """\
Curves over one shared scale. Dashed lines are thresholds, the letter at a curve's end names it, letters
side by side are of curves that end in one place, and a gap is a value that is not finite (or not positive
on a log scale).
"""

    def __init__(
        self,
        chart: Chart | None = None,
        *,
        glyphs: Glyphs = UNICODE,
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._chart = chart
        self._glyphs = glyphs

    def set_chart(self, chart: Chart) -> None:
        """Show another chart."""
        self._chart = chart
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        return [] if self._chart is None else draw_chart(self._chart, width, height, self._glyphs)
