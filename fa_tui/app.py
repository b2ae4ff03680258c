"""The explorer's application, which owns its parts and opens screens.

Imports here delay the first paint: no NumPy, no torch, no heavy widget. Those follow later, or when
    their screen opens. No named tuples either: such a class takes four times as long to create as a
    `msgspec.Struct`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, ClassVar, cast

from rich.console import RenderableType
from rich.text import Text
from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.geometry import Size
from textual.screen import Screen
from textual.scrollbar import ScrollBar
from textual.worker import WorkerFailed

from fa_core.errors import INTERNAL_ERROR, FaError
from fa_core.formats.rows import Problem
from fa_core.report.numbers import count_text
from fa_tui.explorer import ExplorerScreen, classes_at
from fa_tui.follow import Following, Reading, news_of
from fa_tui.later import after
from fa_tui.session import History, News, Session, merged, with_work
from fa_tui.settings import Loaded, Settings, keep_theme
from fa_tui.terminal.abilities import Terminal, detect, forget_empty_no_color
from fa_tui.terminal.keys import DIALOGS, KeyQueue
from fa_tui.terminal.painting import Painter
from fa_tui.terminal.themes import THEMES, begin_with
from fa_tui.views.filters import ViewState, filter_of
from fa_tui.views.text import briefly
from fa_tui.views.words import SAMPLES, filter_name
from fa_tui.widgets.painted import PlainScrollBar, hidden

if TYPE_CHECKING:
    from fa_core.formats.run_folder import RunProgress
    from fa_tui.jobs.control import JobControl
    from fa_tui.jobs.measuring import Setup

LARGEST_SCREEN = (1000, 300)
"""Cells that are laid out of a terminal that states more."""

_WATCH_SECONDS = 0.3
"""Seconds after which the open folders are followed."""

_ENDS = "TERM", "HUP", "QUIT", "ALRM", "USR1", "USR2", "XCPU"
"""Signals that would end the process at once; schedulers send the last three."""

_SECONDS_TO_END = 3
"""Seconds after a signal that the explorer has to end by itself."""

DEBUG = "FA_TUI_DEBUG"
"""Environment variable for tracebacks, set by `--debug`."""


class ExplorerApp(App[int]):
    """The explorer.

    Args:
        session: the runs and what judges them.
        title: name of the opened paths (default: the paths).
        look: initial view state, completed by the settings.
        paths: paths to follow.
        since: when reading them began (`time.time`).
        settings: the user's settings and their problems.
        terminal: abilities of the terminal.
        setup: how to measure; the device ``auto`` is replaced by the settings' device.

    Attributes:
        history: the snapshots of what is open and how it is judged.
        begins: how the pages show it at first.
        opened: name of the opened paths; ``""``: the paths.
        opens_next: what is to be opened instead, once the explorer has closed.
        keys: forwards keys in order.
        painter: sends frames to the terminal.
        following: watches the paths.
    """

    CSS_PATH = "explorer.tcss"
    TITLE = "fa-tui"
    ENABLE_COMMAND_PALETTE = True
    # no text selection: Textual fails if the selected widget was just removed
    ALLOW_SELECT = False

    _UNDO = "undo the last change of a threshold or of the baseline (w)"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "ask('copy')", "Copy", tooltip="copy the value under the cursor"),
        hidden(
            "Y",
            "ask('command')",
            "Copy command",
            tooltip="copy the command that prints what is shown",
        ),
        Binding(
            "e",
            "ask('export')",
            "Export",
            tooltip="write what is shown into a file: CSV, JSON, a report, a figure",
        ),
        Binding(
            "p", "ask('presets')", "Presets", tooltip="thresholds saved by name: use, save, remove"
        ),
        Binding(
            "w",
            "ask('what_if')",
            "What if",
            tooltip="assume a frozen baseline for the runs without one",
        ),
        hidden(
            "o",
            "ask('open')",
            "Open",
            tooltip="open another file or folder, or one that was open before",
        ),
        hidden(
            "O",
            "ask('beside')",
            "Open beside",
            tooltip="open one more file or folder and compare the two",
        ),
        hidden("u", "travel('undo')", "Undo", tooltip=_UNDO),
        hidden("ctrl+r", "travel('redo')", "Redo", tooltip="take the last undo back"),
        hidden(
            "f",
            "widen",
            "All runs",
            tooltip="all runs; again: those of the first filter, of the last one",
        ),
        hidden("r", "rescan", "Look again", tooltip="look at the open files and folders again"),
        hidden("ctrl+z", "suspend_process", "Suspend", tooltip="back to the shell; fg comes back"),
        Binding(
            "question_mark,f1",
            "help",
            "Help",
            key_display="?",
            tooltip="what this pane shows and its keys",
        ),
        Binding("q", "quit", "Quit", tooltip="leave; asks while jobs run"),
        hidden("ctrl+q,ctrl+c", "quit", "Quit"),
        hidden(
            "ctrl+p",
            "command_palette",
            "Commands",
            key_display="^p :",
            tooltip="every command by its name, and the themes: dark, light",
            priority=True,
        ),
        hidden("colon", "command_palette"),
    ]

    def __init__(
        self,
        session: Session,
        *,
        title: str = "",
        look: ViewState = ViewState(),  # noqa: B008 (immutable)
        paths: Sequence[Path] = (),
        since: float = 0.0,
        settings: Loaded = Loaded(Settings()),  # noqa: B008 (immutable)
        terminal: Terminal | None = None,
        setup: Setup | None = None,
    ) -> None:
        forget_empty_no_color()
        self.terminal = terminal or detect()
        super().__init__(ansi_color=self.terminal.ansi_color)
        self.settings, self._complaints = settings
        chosen = self.settings.theme
        begin_with(self, chosen if chosen in self.themes_here else self.terminal.theme)
        if not self.terminal.unicode:
            self.add_class("-ascii")
            ScrollBar.renderer = PlainScrollBar
        if look.filter:
            shown = filter_of(look, session)
            session = session.but(filter=shown, filters=[shown] if shown else ())
        self.history = History(session)
        self.paths = list(paths)
        self.setup = setup
        self.painter = Painter(self)
        self.keys = KeyQueue(self, super().on_event)
        self.following = Following(self, since)
        self.opened = title
        self.opens_next: Path | None = None
        if not look.show:
            look = look._replace(show=self.settings.show)
        self.begins = look

    @cached_property
    def jobs(self) -> JobControl:
        """Measures runs."""
        from fa_tui.jobs.control import JobControl  # after the first paint

        return JobControl(self, self.setup)

    async def on_event(self, event: events.Event) -> None:
        self.painter.notice(event)
        if isinstance(event, events.Resize):
            event.size = Size(*map(min, event.size, LARGEST_SCREEN))
        if isinstance(event, events.InputEvent) and not self.screen_stack:
            return  # the app is closing
        if isinstance(event, events.Key):
            await self.keys.take(event)
        else:
            await super().on_event(event)

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        super()._display(screen, self.painter.update(renderable))

    def exit(
        self, result: int | None = None, return_code: int = 0, message: RenderableType | None = None
    ) -> None:
        self.painter.leave(partial(super().exit, result, return_code, message))

    def get_key_display(self, binding: Binding) -> str:
        """The name of a key in common characters."""
        return super().get_key_display(binding).replace("⏎", "enter").replace("⌫", "backspace")

    @property
    def themes_here(self) -> list[str]:
        """Themes for this terminal: all, or one without RGB."""
        if self.terminal.ansi_color:
            return [self.terminal.theme]
        return [theme.name for theme in THEMES]

    def panic(self, *renderables: RenderableType) -> None:
        # so ends Textual's thread of the input
        super().panic(*renderables)
        self._return_code = INTERNAL_ERROR

    def _fatal_error(self) -> None:
        """Exit after an internal error with one line; with a traceback under --debug."""
        self._return_code = INTERNAL_ERROR
        if os.environ.get(DEBUG):
            super()._fatal_error()
            return
        error: BaseException | None = self._exception
        if isinstance(error, WorkerFailed):
            error = error.error
        what = (
            f"fa-tui: internal error ({type(error).__name__}: {error}); run again with "
            "--debug and report it"
        )
        self._exit_renderables.append(Text(what))
        self._close_messages_no_wait()

    def get_default_screen(self) -> ExplorerScreen:
        # set before the first layout, which then need not be repeated
        classes = " ".join(classes_at(self.size))
        first = "Table" if self.begins.long else "Matrix"
        return ExplorerScreen(self.session, name=first, classes=classes)

    @property
    def explorer(self) -> ExplorerScreen:
        """The main screen."""
        return cast("ExplorerScreen", self.screen_stack[0])

    @property
    def session(self) -> Session:
        """The current snapshot."""
        return self.history.now

    def show(self, now: Session) -> None:
        """Show a later snapshot; it is no step of undo."""
        self.history.now = now
        self.explorer.show(now)

    def step(
        self, now: Session, series: str | None = None, *, is_drag: bool = False, words: str = ""
    ) -> None:
        """Show a snapshot with other thresholds or another baseline, which can be undone.

        Args:
            now: the snapshot.
            series: as in `History.record`.
            is_drag: as there.
            words: a message; an empty one clears the last.
        """
        self.history.record(now, series, time.monotonic(), is_drag=is_drag)
        self.explorer.show(self.session)
        if words or self.explorer.status.message:
            self.say(words, "accent")

    def action_travel(self, where: str) -> None:
        """Undo or redo the last step."""
        before = self.session
        now = self.history.travel(where)
        if now is before:
            self.say(f"nothing to {where}", "dim")
            return
        self.explorer.show(now)
        if now.baseline == before.baseline:
            self.say("")
            return
        from fa_tui.screens.dialogs import baseline_words  # after the first paint

        self.say(baseline_words(now.but(since=before)), "accent")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable the problems' key only with problems, and undo and redo on the pages."""
        if action == "travel":
            return not self.screen.is_modal
        session = self.session
        return action != "show_problems" or bool(session.wrong or session.seen.uneven)

    def post_call(self, callback: Callable[..., None], *values: object) -> None:
        """Call a function in the application's thread, from another thread."""
        if self.is_running:
            self.post_message(events.Callback(partial(callback, *values)))

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        for name in _ENDS:
            signal.signal(signal.Signals[f"SIG{name}"], partial(self._end, loop))
        if self.paths:
            after(_WATCH_SECONDS, self, self._follow)
        if self._complaints:
            self.add_problems(self._complaints)
            self.say(briefly(self._complaints[0]), "warn")

    def _end(self, loop: asyncio.AbstractEventLoop, number: int, _frame: object) -> None:
        """End after a signal as after `q`, which ends the alternate screen and the mouse mode; all
        the same where the loop is held up, by a terminal that is gone or a long computation."""
        last = Timer(_SECONDS_TO_END, os._exit, [128 + number])
        last.daemon = True
        last.start()
        loop.call_soon_threadsafe(self.exit, 128 + number)

    def add_problems(self, problems: Sequence[Problem]) -> None:
        """Show further problems, each once."""
        known = self.session.problems
        new = [problem for problem in problems if problem not in known]
        if new:
            self.show(self.session.but(problems=[*known, *new]))

    def _follow(self) -> None:
        follow = self.following.run if self.settings.live == "auto" else self.following.judge
        self.run_worker(follow(), group="follow")

    async def action_rescan(self) -> None:
        """Look at the open files and folders again."""
        if self.paths and not await self.following.look():
            self.say("looked again: nothing changed", "dim")

    def folders_changed(self, readings: Sequence[Reading]) -> None:
        """Show the new contents of places."""
        self.changed(*merged(self.session, readings))

    def changed(self, now: Session, news: News) -> None:
        """Show a later snapshot, and say what is new in it."""
        before = self.session
        self.show(now)
        text = news_of(before, now, news)
        if text:
            self.say(text, "warn" if news.gone else "accent")

    def work_changed(self, changed: dict[str, RunProgress | None]) -> None:
        """Show what other processes do with runs: run folder → its progress."""
        self.show(with_work(self.session, changed))
        self.jobs.show_later()

    def say(self, text: str, tone: str = "") -> None:
        """Show a message in the status line; an empty one clears the last."""
        self.explorer.status.say(text, tone)

    def dress(self, theme: str) -> None:
        self.theme = theme
        try:
            self.say(f"theme {theme}, kept in {keep_theme(theme)}", "good")
        except FaError as error:
            self.say(f"theme {theme} for now: {error}", "warn")

    def action_widen(self, *, at_once: bool = False) -> None:
        """Go from all runs to the first filter, to the last one, and to all (or there at once), on
        every page."""
        session = self.session
        turn = [None, *session.filters]
        if len(turn) == 1:
            self.say("these are all runs: / shows only those that match a filter", "dim")
            return
        place = 0 if at_once else (turn.index(session.filter) + 1) % len(turn)
        every = "all runs but the atlas" if self.opened == SAMPLES else "all runs"
        names = [every, *map(filter_name, session.filters)]
        self.show(session.but(filter=turn[place]))
        self.say(f"f goes on to {names[(place + 1) % len(turn)]}", "accent")

    def action_show_problems(self) -> None:
        """List unreadable paths and settings that differ between measurements."""
        from fa_tui.screens.help import ProblemsScreen  # after the first paint

        self.push_screen(ProblemsScreen(self.session))

    def action_ask(self, name: str) -> None:
        """Run one of `DIALOGS`."""
        from fa_tui.screens.dialogs import converse  # after the first paint

        self.run_worker(converse(self, name), group=DIALOGS, exclusive=True)

    def action_command_palette(self) -> None:
        """Open the command palette."""
        from fa_tui.key_list import palette  # after the first paint

        if not isinstance(self.screen, CommandPalette):
            self.push_screen(palette(self))

    def action_help(self) -> None:
        """Explain the focused pane."""
        from fa_tui.key_list import help_screen  # after the first paint

        self.push_screen(help_screen(self))

    async def action_quit(self) -> None:
        """Quit; asks first while jobs run."""
        self.leave_for(None)

    def leave_for(self, path: Path | None) -> None:
        """Quit, and open a path instead; asks first while jobs run."""
        from fa_tui.screens.questions import SureScreen  # after the first paint

        def leave(answer: bool | None) -> None:
            if answer:
                self.opens_next = path
                self.exit(0)

        unfinished = self.jobs.unfinished()
        if unfinished:
            asks = f"{count_text(unfinished, 'job')} not finished. Leave?"
            note = "Leaving ends what still runs; finished runs and files are on disk."
            self.push_screen(SureScreen(asks, note, self.jobs.unfinished), leave)
        else:
            leave(True)
