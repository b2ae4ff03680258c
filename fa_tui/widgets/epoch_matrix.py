"""The matrix as it was at an epoch; it doubles as the legend of the curves."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType

from fa_tui.session import Session
from fa_tui.views.grid import build_grid
from fa_tui.widgets.epoch_chart import COLOURS, Look, marks_for
from fa_tui.widgets.glyphs import Glyphs
from fa_tui.widgets.matrix import Matrix


class EpochMatrix(Matrix):
    """A matrix whose lines are led by the character and colour of their curves."""

    lead = 2

    help_text = """\
The matrix as it was at the scrubbed epoch; a run not begun by then reads ?····
The character before a method marks its curves; the run under the cursor is drawn on top of the others.

  ↑ ↓ ← → or h j k l   choose a run
  space                draw this run, and only those marked so
  *                    draw all again
  v, V                 show a number instead of letters
"""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", "Draw", tooltip="draw only the runs marked so"),
        Binding("asterisk", "unmark", "Draw all", show=False, tooltip="draw all runs again"),
    ]

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"legend--{colour}" for colour in range(1, COLOURS + 1)}

    DEFAULT_CSS = """
    EpochMatrix {
        & .legend--1 { color: $primary; text-style: bold; }
        & .legend--2 { color: $warning; text-style: bold; }
        & .legend--3 { color: $accent; text-style: bold; }
        & .legend--4 { color: $secondary-lighten-2; text-style: bold; }
        & .legend--5 { color: $primary-darken-2; text-style: bold; }
        & .legend--6 { color: $accent-darken-2; text-style: bold; }
    }
    """

    def __init__(self, session: Session, *, glyphs: Glyphs, id: str | None = None) -> None:
        self._looks: dict[int, Look] = {}
        super().__init__(session, glyphs=glyphs, id=id)

    def look(self, run: int) -> Look:
        """How a run's curve looks."""
        return self._looks[run]

    def refit(self) -> None:
        """Runs came or went."""
        grid = build_grid(self._session.rows)
        lines = [line for line in grid.lines if not line.is_heading]
        marks = marks_for([line.label for line in lines])
        self._looks = {
            run: Look(mark, f"chart--{place % COLOURS + 1}")
            for place, (line, mark) in enumerate(zip(lines, marks, strict=True))
            for run in line.runs()
        }
        self.lay_out()

    def on_mount(self) -> None:
        self.refit()

    def frozen(self, line: int | None) -> list[Segment]:
        first, *rest = super().frozen(line)
        looks = (
            [self._looks[run] for run in self._grid.lines[line].runs() if run in self._looks]
            if line is not None
            else []
        )
        if not looks:
            return [first, *rest]
        look = looks[0]
        return [Segment(look.mark, self._legend(look)), Segment(first.text[1:], first.style), *rest]

    def _legend(self, look: Look) -> Style:
        return self.get_component_rich_style(look.style.replace("chart", "legend"))

    def action_unmark(self) -> None:
        """Draw all runs again."""
        self._session.marked.clear()
        self.refresh()
        self.post_message(self.Marked())
