"""The line a filter is typed in: applied while typing, what is wrong with it said at its end."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input

from fa_core.errors import UsageError
from fa_tui.views.filters import Filter
from fa_tui.widgets.line import Line


class FilterLine(Horizontal):
    """Posts `Changed` for every filter that can be understood. Enter keeps it, Escape drops it."""

    help_text = """\
The filter: only the runs that match are shown
  dfa              the method, the run's name or its source contains dfa
  method:dfa flag:b growth>100    all three hold
  -seed:42         not seed 42
  flag:ab          a and b fire          covers:d   d was measured
  is:walkback      also is:trustworthy, is:measured, is:marked, is:differs (from the recorded verdict)
  g_L<1e-6         also growth, stability, margin, acc, h_L, frozen, gamma, seed, and axes such as lam; < <= > >= =
"""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "keep", "Keep", priority=True),
        Binding("escape", "drop", "Drop", key_display="esc", priority=True),
    ]

    DEFAULT_CSS = """
    FilterLine {
        height: 1;
        & #filter-sign { width: 10; }
        & Input { width: 1fr; height: 1; border: none; padding: 0; background: $panel; }
        & Input:focus { border: none; }
        & #filter-error { width: 1fr; padding-left: 2; }
    }
    """

    class Changed(Message):
        """Another filter."""

        def __init__(self, chosen: Filter) -> None:
            self.filter = chosen
            super().__init__()

    class Closed(Message):
        """The line is gone: the focus goes back to the runs."""

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        yield Line(id="filter-sign")
        yield Input(self._text, placeholder="method:dfa flag:b growth>100", select_on_focus=False)
        yield Line(id="filter-error")

    def on_mount(self) -> None:
        self.query_one("#filter-sign", Line).set((" filter / ", "accent"))
        self.query_one(Input).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        error = self.query_one("#filter-error", Line)
        try:
            self.post_message(self.Changed(Filter(event.value)))
        except UsageError as wrong:
            error.set((str(wrong), "warn"))
        else:
            error.set(("enter keeps it, esc drops it", "dim"))

    def action_keep(self) -> None:
        """Close the line and keep the filter."""
        self._close()

    def action_drop(self) -> None:
        """Close the line and show all runs again."""
        self.post_message(self.Changed(Filter("")))
        self._close()

    def _close(self) -> None:
        self.post_message(self.Closed())
        self.remove()
