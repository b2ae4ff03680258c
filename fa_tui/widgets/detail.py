"""The run under the cursor: its layers, its verdict in words, where its numbers come from."""

from __future__ import annotations

from collections.abc import Sequence

from textual.binding import Binding

from fa_core.report import DiagnosticThresholds
from fa_core.rows import AuditRow
from fa_tui.widgets.detail_lines import detail_lines
from fa_tui.widgets.glyphs import UNICODE, Glyphs
from fa_tui.widgets.painted import PaintedScroll, Row


class DetailPane(PaintedScroll, can_focus=True):
    """Shows one run; `show` it another one and only the cells that differ are sent.

    Args:
        glyphs: characters to draw with.
    """

    DEFAULT_CSS = """
    DetailPane {
        height: 1fr;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
        & > .detail--name { color: $foreground; text-style: bold; }
        & > .detail--head { color: $text-muted; }
        & > .detail--dim { color: $text-muted; }
        & > .detail--note { color: $warning; }
        & > .detail--number { color: $foreground; }
        & > .detail--bar { color: $accent; }
        & > .detail--grows { color: $error; text-style: bold; }
        & > .detail--passes { color: $success; }
        & > .detail--fires { color: $error; text-style: bold; }
    }
    """
    COMPONENT_CLASSES = {
        f"detail--{part}" for part in ("name", "head", "dim", "note", "number", "bar", "grows", "passes", "fires")
    }
    BINDINGS = [
        Binding("up,k", "scroll_up", "Scroll", key_display="↑↓", tooltip="scroll the run's report"),
        Binding("down,j", "scroll_down", "Scroll down", show=False),
        Binding("home,g", "scroll_home", "Top", show=False),
        Binding("end,G", "scroll_end", "End", show=False),
        Binding("pageup,ctrl+b", "page_up", "Page up", show=False),
        Binding("pagedown,ctrl+f", "page_down", "Page down", show=False),
    ]

    help_text = """\
The run under the cursor. Each diagnostic with its number, its threshold and
how far it is from flipping; under a fired (b) its cause. An audit with
--resamples adds where 95 % of the resamples lie, and how many of them fire
at the thresholds of the sliders.
Then a line per layer: ‖h‖ and ‖g‖ with bars on a log scale, the growth of the
block below, and, as far as they fit, Γ (where the method's credit was saved),
1−cos between the gradient and its float64 version (--precision) and ρ
(--credit full). ▲ marks the block that grows most.

  ↑ ↓ or k j            scroll
  PgUp PgDn             by a screenful
  Home End or g G       to the top, to the end
"""

    def __init__(
        self,
        *,
        glyphs: Glyphs = UNICODE,
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self.glyphs = glyphs
        self._row: AuditRow | None = None
        self._thresholds = DiagnosticThresholds()
        self._gone = False

    def show(self, row: AuditRow | None, thresholds: DiagnosticThresholds, *, gone: bool = False) -> None:
        """Show a run, judged by `thresholds`; None shows that none is selected.

        Args:
            row: the run.
            thresholds: what it is judged by.
            gone: its file or folder is no longer there.
        """
        if row is not self._row:
            self.scroll_to(y=0, animate=False)
        self._row, self._thresholds, self._gone = row, thresholds, gone
        self.repaint()

    def cut_row(self, hidden: int) -> Row:
        return [(f"{self.glyphs.ellipsis} {hidden} more lines", "detail--dim")]

    def draw(self, width: int) -> Sequence[Row]:
        if self._row is None:
            return [[("no run selected", "detail--dim")]]
        return detail_lines(self._row, self._thresholds, width, self.glyphs, gone=self._gone)
