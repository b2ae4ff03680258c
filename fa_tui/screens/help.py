"""Overlays: help, problems, the command palette."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.command import CommandList, CommandPalette, SimpleProvider
from textual.errors import NoWidget
from textual.widget import Widget

from fa_core.report.numbers import count_text
from fa_tui.screens.questions import Dialog, Question
from fa_tui.session import Session
from fa_tui.widgets.entry import Entry
from fa_tui.widgets.line import Line, TextLines
from fa_tui.widgets.painted import MOVES, SCROLLS, Row, hidden


class HelpScreen(Dialog[None]):
    """What the program is, what the focused widget and those around it say, and their keys.

    What is typed searches the text of all panes, and every key.

    Args:
        lines: the help of a pane.
        every_line: returns those of all panes, and all keys.
    """

    BINDINGS = [
        hidden("question_mark,f1", "dismiss", priority=True),
        Binding("enter", "open", "Whole section", priority=True),
        # letters are text to type, ^u and ^d edit it
        *(
            hidden(keys.partition(",")[0], f"pane({action!r})", priority=True)
            for keys, action in zip(MOVES, SCROLLS, strict=True)
            if not keys.startswith("ctrl")
        ),
    ]

    def __init__(self, lines: Sequence[str], every_line: Callable[[], Iterable[str]]) -> None:
        super().__init__()
        self.entry = Entry(placeholder="type to search all of the help")
        self.pane = TextLines(lines)
        self._here, self._every_line = lines, every_line
        self._every: Sequence[str] = ()
        self._open = True

    def body(self) -> Iterable[Widget]:
        yield self.entry
        yield self.pane

    def on_input_changed(self) -> None:
        """Show the lines that hold what is typed; where nothing is, the help of the pane."""
        typed = self.entry.value.strip()
        self._open, lines = not typed, self._here
        if typed:
            self._every = self._every or [*self._every_line()]
            lines = [*found_lines(self._every, typed)]
        self.pane.set_lines(lines or [f"no match for {typed}"])
        self.pane.scroll_home(animate=False)

    def action_open(self) -> None:
        """Show the whole sections of what was found; close where they are shown."""
        if self._open:
            self.dismiss()
        else:
            self._open = True
            self.pane.set_lines([*found_lines(self._every, self.entry.value, whole=True)])

    async def action_pane(self, action: str) -> None:
        """Scroll the text while something is typed."""
        await self.app.run_action(action, self.pane)


class ReadScreen(Dialog[None]):
    """Lines to read, wrapped.

    Args:
        title: above them.
        lines: the text.
    """

    def __init__(self, title: Row, lines: Sequence[str]) -> None:
        super().__init__()
        self._title, self.pane = title, TextLines(lines)

    def body(self) -> Iterable[Widget]:
        yield Line(*self._title, id="title")
        yield self.pane


class ProblemsScreen(ReadScreen):
    """Problems: unreadable paths, wrong settings, and mixed settings of measurements.

    Args:
        session: holds the problems.
    """

    BINDINGS = [
        hidden("P", "dismiss", "Problems"),
    ]

    def __init__(self, session: Session) -> None:
        lines = [*(problem.message for problem in session.wrong), *session.seen.uneven]
        words = f" {count_text(len(lines), 'problem')}"
        super().__init__([(" problems ", "accent"), (words, "strong")], lines)


def found_lines(lines: Iterable[str], typed: str, *, whole: bool = False) -> Iterator[str]:
    """The lines that hold all typed words, below the titles of their sections, or these sections;
    where no line does, the sections that do.

    >>> list(found_lines(["# Page", "one", "two three", "# Keys", "four"], "THREE two"))
    ['# Page', 'two three']
    """

    def holds(text: str) -> bool:
        return all(word in text.casefold() for word in typed.casefold().split())

    sections: list[list[str]] = []
    for line in lines:
        if line.startswith("# ") or not sections:
            sections.append([])
        sections[-1].append(line)
    found = [section for section in sections if any(map(holds, section))]
    for section in found or [section for section in sections if holds(" ".join(section))]:
        yield section[0]
        yield from (line for line in section[1:] if whole or not found or holds(line))


class _Commands(CommandList, can_focus=False):
    async def _on_click(self, event: events.Click) -> None:
        # Textual fails if the commands have changed since the click
        event.prevent_default()
        with suppress(IndexError):
            await super()._on_click(event)


class Palette(CommandPalette, Question[None]):
    """Textual's command palette, restyled without signs that ASCII or fonts lack.

    Args:
        commands: what it offers.
    """

    BINDINGS = [hidden("ctrl+c,ctrl+q", "escape", priority=True)]

    def __init__(self, commands: SimpleProvider) -> None:
        asks = "type what to do; enter does it, esc leaves"
        # as Textual passes one
        super().__init__([commands], placeholder=asks, id="--command-palette")  # type: ignore[list-item]

    def compose(self) -> ComposeResult:
        for widget in super().compose():
            yield _Commands() if isinstance(widget, CommandList) else widget

    def _on_click(self, event: events.Click) -> None:  # type: ignore[override]
        # Textual fails if the terminal has become smaller since the click
        event.prevent_default()
        with suppress(NoWidget):
            super()._on_click(event)

    def _on_mount(self, event: events.Mount) -> None:
        # Textual fails if the palette closes while it opens
        if self not in self.app.screen_stack:
            event.prevent_default()

    def _watch__list_visible(self) -> None:
        # Textual fails if the palette closes while commands are found
        if self.query(CommandList):
            super()._watch__list_visible()

    def _action_command_list(self, action: str) -> None:
        # Textual fails to page a list that is not laid out yet
        if self.query_one(CommandList).size.area:
            super()._action_command_list(action)
