"""Overlays: help, problems, the command palette."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec.toml
from textual import events
from textual.binding import Binding
from textual.command import CommandList, CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import OptionList

from fa_core.report.quantities import QUANTITIES
from fa_tui.screens.dialogs import use_preset
from fa_tui.screens.questions import Choice, Dialog, Question, helping, shown_choices
from fa_tui.session import Session
from fa_tui.settings import Presets
from fa_tui.views.words import problem_words
from fa_tui.widgets.entry import Entry
from fa_tui.widgets.line import KeyBar, Line, TextLines, offered

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp
    from fa_tui.key_list import KeyLine


_TALL, _SLIDERS = 34, 11
"""Lines from which a screen shows whole sliders; lines of the sliders, their count and the keys."""


class HelpScreen(Dialog["KeyLine"]):
    """What the program is, what the focused widget and those around it say, and every key.

    What is typed searches the keys of all pages; Enter runs the one under the cursor.

    Args:
        of: the screen below.
        every_key: lists the keys of all pages.
    """

    BINDINGS = [
        Binding("escape,question_mark,f1", "dismiss", "Close", key_display="esc", priority=True),
        Binding("enter", "take", "Do it", priority=True),
        Binding("up", "move(-1)", "Move", key_display="↑↓", priority=True),
        Binding("down", "move(1)", show=False, priority=True),
        Binding("pageup", "move(-10)", show=False, priority=True),
        Binding("pagedown", "move(10)", show=False, priority=True),
    ]

    def __init__(self, of: Screen[object], every_key: Callable[[], Sequence[KeyLine]]) -> None:
        super().__init__()
        self._every_key = every_key
        self.entry = Entry(placeholder="type to search the keys of all pages", id="help-search")
        self.pane = TextLines(list(help_lines(of)))
        self.pane.can_focus = False
        self.found = OptionList()
        self.found.can_focus = False
        self._keys: Sequence[KeyLine] = ()
        self._matching: Sequence[KeyLine] = ()

    def body(self) -> Iterable[Widget]:
        yield self.entry
        yield self.pane
        yield self.found

    def on_resize(self, event: events.Resize) -> None:
        # border, keys and a tall screen's sliders stay visible, and are not sent again
        height = event.size.height
        most = max(1, height - 4 - (_SLIDERS if height >= _TALL else 0))
        self.pane.styles.max_height = most
        self.found.styles.max_height = most

    def on_mount(self) -> None:
        self.found.display = False
        self.set_focus(self.entry)

    def on_input_changed(self) -> None:
        """Show the keys that match what is typed; the page again where nothing is."""
        words = self.entry.value.strip()
        if words and not self._keys:
            self._keys = self._every_key()
        self.found.display = bool(words)
        self.pane.display = not words
        self._matching = [line for line in self._keys if line.matches(words)]
        choices = []
        for line in self._matching:
            where = f" ({line.where})" if line.where else ""
            choices.append(Choice("", line.key, line.does + where, line))
        self.found.set_options(shown_choices(choices, self.app.terminal.glyphs))
        self.found.highlighted = 0

    def action_move(self, step: int) -> None:
        """Scroll the page, or move among the keys that were found."""
        if self.found.display:
            at = (self.found.highlighted or 0) + step
            self.found.highlighted = at % max(1, len(self._matching))
        else:
            self.pane.scroll_relative(y=step, animate=False)

    def action_take(self) -> None:
        """Run the key under the cursor; with nothing typed, close."""
        if not self.found.display:
            self.dismiss()
        elif self.found.highlighted is not None:
            self.dismiss(self._matching[self.found.highlighted])

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Run the key that was clicked."""
        self.dismiss(self._matching[event.option_index])


class ProblemsScreen(Dialog[None]):
    """Problems: unreadable paths, wrong settings, and mixed settings of measurements.

    Args:
        session: holds the problems.
    """

    BINDINGS = [
        Binding("escape,P", "dismiss", "Back", key_display="esc", tooltip="back to the page"),
        helping("what these lines say"),
    ]

    def __init__(self, session: Session) -> None:
        super().__init__()
        lines = [*(problem.message for problem in session.problems), *session.seen.uneven]
        words = [problem_words(session)]
        if session.seen.uneven:
            words.append("mixed settings")
        self._words = ", ".join(filter(None, words)) or "none"
        self.pane = TextLines(lines or ["Every path was read."])

    def body(self) -> Iterable[Widget]:
        yield Line((" problems ", "accent"), (f" {self._words}", "strong"), id="title")
        yield self.pane

    def on_mount(self) -> None:
        self.set_focus(self.pane)


def help_lines(screen: Screen[object]) -> Iterator[str]:
    """What the program is, the help of the focused widget and of what holds it (`help.toml`), then
    the screen's keys."""
    node = screen.focused
    seen: set[str] = set()
    texts = msgspec.toml.decode(
        Path(__file__).with_name("help.toml").read_bytes(), type=dict[str, str]
    )
    title, *about = texts["HelpScreen"].strip().splitlines()
    yield f"# {title}"
    yield from about
    yield ""
    for holder in node.ancestors_with_self if node is not None else [screen]:
        # a page has its text itself
        known = (
            (vars(kind).get("HELP"), texts.get(kind.__name__)) for kind in type(holder).__mro__
        )
        text = next(filter(None, chain.from_iterable(known)), "")
        title, _, body = text.partition("\n")
        # the sliders' container repeats a slider's help
        lines = [line for line in body.rstrip().splitlines() if not line or line not in seen]
        if title and title not in seen:
            yield f"# {title}"
            yield from lines
            yield ""
        seen.update((title, *lines))
    yield "# Keys that work here"
    does: dict[str, list[str]] = {}
    for active, key in offered(screen, attrgetter("tooltip")):
        does.setdefault(active.binding.tooltip, []).append(key)
    for tooltip, keys in does.items():
        yield f"  {' '.join(keys):<12} {tooltip}"


class Palette(CommandPalette, Question[None]):
    """Textual's command palette, restyled without signs that ASCII or fonts lack."""

    def __init__(self) -> None:
        super().__init__(
            placeholder="type what to do; enter does it, esc leaves", id="--command-palette"
        )
        self.set_class(not self.app.terminal.unicode, "-ascii")

    def _on_mount(self, event: events.Mount) -> None:
        # Textual fails if the palette closes while it opens
        if self not in self.app.screen_stack:
            event.prevent_default()

    def _action_command_list(self, action: str) -> None:
        # Textual fails to page a list that is not laid out yet
        if self.query_one(CommandList).size.area:
            super()._action_command_list(action)


_LESS = 0.9
"""Weight of matches in a command's explanation, relative to its name."""


class ExplorerCommands(Provider):
    """Commands of the palette: the screen's bindings with a tooltip, the matrix's contents, the
    themes."""

    @property
    def application(self) -> ExplorerApp:
        """The application with its own type."""
        return cast("ExplorerApp", self.app)

    async def discover(self) -> Hits:
        for name, explains, callback in self._commands():
            yield DiscoveryHit(name, callback, help=explains)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name, explains, callback in self._commands():
            score = max(matcher.match(name), _LESS * matcher.match(explains))
            if score:
                yield Hit(score, matcher.highlight(name), callback, help=explains)

    def _commands(self) -> Iterator[tuple[str, str, Callable[[], object]]]:
        """Name, explanation and callback of a command, in the terminal's characters."""
        say = self.application.terminal.glyphs.say
        for name, explains, callback in self._found():
            yield say(name), say(explains), callback

    def _found(self) -> Iterator[tuple[str, str, Callable[[], object]]]:
        app = self.application
        # first the bindings that the key bar has no room for
        left_out = {key for bar in self.screen.query(KeyBar) for key in bar.left_out}
        bindings = offered(self.screen, attrgetter("tooltip"))
        for active, key in sorted(bindings, key=lambda each: each[0].binding.key not in left_out):
            run = partial(app.run_action, active.binding.action, active.node)
            yield active.binding.description, f"{active.binding.tooltip} ({key})", run
        if app.explorer.page.id == "Matrix":
            show = app.explorer.matrix.show_quantity
            yield "Show verdicts", "letters in the matrix", partial(show, None)
            for quantity in QUANTITIES:
                yield (
                    f"Show {quantity.title}",
                    "a number per run instead of letters",
                    partial(show, quantity),
                )
        for name, thresholds in Presets().read().items():
            yield (
                f"Thresholds: {name}",
                "move all sliders",
                partial(use_preset, app, name, thresholds),
            )
        yield "Settings", "what the explorer begins with", partial(app.action_ask, "settings")
        for theme in app.themes_here:
            yield (
                f"Theme: {theme}",
                "change the colours, now and from now on",
                partial(app.dress, theme),
            )
