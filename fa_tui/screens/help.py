"""Overlays: help, problems, the command palette."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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

from fa_core.report.quantities import QUANTITIES
from fa_tui.screens.dialogs import use_preset
from fa_tui.screens.questions import Dialog, Question, helping
from fa_tui.session import Session
from fa_tui.settings import Presets
from fa_tui.views.words import problem_words
from fa_tui.widgets.line import KeyBar, Line, TextLines, offered

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp


class HelpScreen(Dialog[None]):
    """What the program is, what the focused widget and those around it say, and their keys.

    Args:
        of: the screen below.
    """

    BINDINGS = [
        Binding("escape,question_mark,f1,enter", "dismiss", "Close", key_display="esc"),
        Binding("up,k", "scroll_up", "Scroll", key_display="↑↓", tooltip="scroll the help"),
    ]

    def __init__(self, of: Screen[object]) -> None:
        super().__init__()
        self.pane = TextLines(list(help_lines(of)))

    def body(self) -> Iterable[Widget]:
        yield self.pane

    def on_mount(self) -> None:
        self.set_focus(self.pane)


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
    """Commands of the palette: the keys of all pages, the matrix's contents, presets, themes."""

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
        lines = app.every_key(self.screen)
        for line in sorted(lines, key=lambda line: line.key not in left_out):
            where = f"; {line.where}" if line.where else ""
            run = partial(app.run_action, line.action, line.node or app.explorer)
            yield line.name, f"{line.does} ({line.key}{where})", run
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
