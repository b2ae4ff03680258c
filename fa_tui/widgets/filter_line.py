"""The filter line: applied while typing, with errors and completions below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.message import Message

from fa_core.errors import UsageError
from fa_tui.later import Later
from fa_tui.session import Session
from fa_tui.views.filters import Filter, how_to_use, names, split
from fa_tui.views.grid import own_axes
from fa_tui.widgets.entry import Entry
from fa_tui.widgets.line import Line

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp

_KEYS = "enter keeps it, esc goes back"
_HINT = "words, method:dfa  flag:ab  growth>100  lam:0.01  is:walkback; -term: not so"


class FilterLine(Vertical):
    """The input of a filter; every valid one makes the application's next snapshot.

    Enter and leaving keep the filter, Escape restores the previous one; a key goes back to the
    first.

    Args:
        session: the runs to filter.

    Attributes:
        is_done: whether the filter was kept or dropped, and the line is closing.
    """

    app: ExplorerApp

    BINDINGS = [
        Binding("enter", "keep", "Keep", priority=True),
        Binding("escape,ctrl+c", "drop", "Drop", key_display="esc", priority=True),
        # here a question mark is text
        Binding(
            "f1", "app.help", "Help", key_display="F1", tooltip="what is typed here and its keys"
        ),
    ]

    class Closed(Message):
        """The line is done; the focus returns to the runs."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._before = session
        self._axes = own_axes(session.rows)
        self._note = Line(id="filter-error")
        self._wrong = ""
        self._applied = session.scope_text
        self._catch_up_later = Later(self, self._catch_up)
        self.is_done = False
        # a trailing blank starts a new term
        before = self._applied and f"{self._applied} "
        # a click elsewhere may close the line before it is composed
        self.entry = Entry(
            before, placeholder="method:dfa flag:b growth>100", select_on_focus=False
        )

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Line((" filter / ", "accent"), id="filter-sign")
            yield self.entry
        yield self._note

    def on_mount(self) -> None:
        # a message on the last filter would not be true any more
        self.app.say("")
        self._take_in()

    def on_input_changed(self, event: Entry.Changed) -> None:
        event.stop()
        self._catch_up_later()

    def _catch_up(self) -> None:
        # the input may have changed since the event
        if self.is_attached and not self.is_done:
            self._take_in()

    def _take_in(self, *, is_whole: bool = False) -> None:
        """Apply the typed filter, without its last term while that is incomplete.

        Args:
            is_whole: whether typing is done, so that the beginning of a name is a word.
        """
        text = self.entry.value
        self._wrong = note = ""
        try:
            chosen = Filter(text, self._axes)
        except UsageError as wrong:
            self._wrong = note = str(wrong)
            chosen = self._without_last(text)
        now = self._filtered(chosen)
        if not note and chosen.text and not now.in_scope:
            last = split(text)[-1]
            note = "no run matches"
            begun = [name for name in names(self._axes) if name.lower().startswith(last.lower())]
            if begun and not is_whole:
                note = f"no run is called {last}; write {how_to_use(begun[0])}"
                chosen = self._without_last(text)
                now = self._filtered(chosen)
        if chosen.text != self._applied:
            self._applied = chosen.text
            self.app.show(now)
        note = self.entry.full_words or note
        explained = _KEYS if text.strip() else _HINT
        self._note.set((f" {note or explained}", "warn" if note else "dim"))

    def _filtered(self, chosen: Filter) -> Session:
        """The snapshot with a filter; an empty one is none."""
        before = self._before.filters
        if chosen.text:
            first = [one for one in before[:1] if one.text != chosen.text]
            return self.app.session.but(filter=chosen, filters=[*first, chosen])
        return self.app.session.but(filter=None, filters=before)

    def _without_last(self, text: str) -> Filter:
        kept = split(text)
        while kept:
            kept.pop()
            try:
                return Filter(" ".join(kept), self._axes)
            except UsageError:
                continue
        return Filter("")

    def action_keep(self) -> None:
        """Close the line and keep the filter; an invalid one stays open."""
        # the last letters may be unprocessed
        self._take_in(is_whole=True)
        if not self._wrong:
            self._close()

    def leave(self) -> None:
        """Close the line after it lost the focus, and keep the valid part of the filter."""
        if not self.is_done:
            self._take_in()
            self._close()

    def action_drop(self) -> None:
        """Close the line and restore the previous filter."""
        before = self._before
        self.app.show(self.app.session.but(filter=before.filter, filters=before.filters))
        self._close()

    def _close(self) -> None:
        # further keys are not for this line
        self.is_done = True
        self.post_message(self.Closed())
