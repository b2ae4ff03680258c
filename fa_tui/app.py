"""The explorer's application, which owns its parts and opens screens.

Imports here delay the first paint: no NumPy, no torch, no heavy widget. Those follow later, or when
    their screen opens. No named tuples either: such a class takes four times as long to create as a
    `msgspec.Struct`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from rich.console import RenderableType
from textual import events
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.notifications import Notification, Notify, SeverityLevel
from textual.screen import Screen
from textual.worker import WorkerFailed

from fa_core.errors import INTERNAL_ERROR, FaError
from fa_core.report.thresholds import DiagnosticThresholds
from fa_tui.follow import Following
from fa_tui.jobs.control import JobControl
from fa_tui.jobs.measuring import Setup
from fa_tui.reading import Reading
from fa_tui.screens.application import ApplicationScreen, ExplorerApplication
from fa_tui.session import Flip, Session
from fa_tui.settings import NOTHING_SET, Loaded, remember
from fa_tui.terminal.abilities import Terminal, detect, forget_empty_no_color
from fa_tui.terminal.keys import DIALOGS, KeyQueue
from fa_tui.terminal.painting import Painter, after
from fa_tui.terminal.themes import THEMES, begin_with
from fa_tui.views.filters import ViewState
from fa_tui.views.text import briefly

if TYPE_CHECKING:
    from fa_core.formats.run_progress import RunWork
    from fa_tui.jobs.listing import Listed
    from fa_tui.screens.explorer import ExplorerScreen
    from fa_tui.screens.key_list import KeyLine
    from fa_tui.threshold_history import ThresholdHistory
    from fa_tui.widgets.sliders_panel import BaselineChanged, SlidersPanel

_WATCH_SECONDS = 0.3
"""Seconds after which the open folders are followed."""

_LEAST_SHOWN_SECONDS = 0.5

DEBUG = "FA_TUI_DEBUG"
"""Environment variable for tracebacks, set by `--debug`."""


def _palette() -> type[Provider]:
    from fa_tui.screens.help import ExplorerCommands

    return ExplorerCommands


class Lasting(Notification):
    """A message that stays on screen for a moment.

    A new screen shows it again for the remaining time. If that is negative, Textual creates a timer
    that never ends and blocks the exit.
    """

    @property
    def time_left(self) -> float:
        return max(_LEAST_SHOWN_SECONDS, super().time_left)

    @property
    def has_expired(self) -> bool:
        return super().time_left <= 0


class ExplorerApp(ExplorerApplication):
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
        keys: forwards keys in order.
    """

    CSS_PATH = "explorer.tcss"
    TITLE = "fa-tui"
    ENABLE_COMMAND_PALETTE = True
    # no text selection: Textual fails if the selected widget was just removed
    ALLOW_SELECT = False
    COMMANDS = {_palette}

    _UNDO = "undo the last change of a threshold or of the baseline (w)"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy", "Copy", tooltip="copy the value under the cursor"),
        Binding(
            "Y",
            "copy(True)",
            "Copy command",
            show=False,
            tooltip="copy the command that prints what is shown",
        ),
        Binding(
            "e",
            "ask('export')",
            "Export",
            tooltip="write what is shown as CSV or JSON, or a report, into a file",
        ),
        Binding(
            "p", "ask('presets')", "Presets", tooltip="thresholds saved by name: use, save, remove"
        ),
        Binding(
            "w", "ask('what_if')", "What if", tooltip="assume another frozen baseline for all runs"
        ),
        # a focused slider shows these bindings itself
        Binding("u", "travel('undo')", "Undo", show=False, tooltip=_UNDO),
        Binding("ctrl+r", "travel('redo')", "Redo", show=False, tooltip="take the last undo back"),
        Binding(
            "f",
            "widen",
            "All runs",
            show=False,
            tooltip="all runs, or again only those that pass the filter",
        ),
        Binding(
            "r",
            "rescan",
            "Look again",
            show=False,
            tooltip="look at the open files and folders again",
        ),
        Binding(
            "R",
            "restore_all",
            "Restore all",
            show=False,
            tooltip="all four thresholds at their defaults",
        ),
        Binding(
            "ctrl+z",
            "suspend_process",
            "Suspend",
            show=False,
            tooltip="back to the shell; fg comes back",
        ),
        Binding(
            "question_mark,f1",
            "help",
            "Help",
            key_display="?",
            tooltip="what this pane shows and its keys",
        ),
        Binding("q", "quit", "Quit", tooltip="leave; asks while jobs run"),
        Binding("ctrl+q,ctrl+c", "quit", "Quit", show=False),
    ]

    def __init__(
        self,
        session: Session,
        *,
        title: str = "",
        look: ViewState = ViewState(),  # noqa: B008 (immutable)
        paths: Sequence[Path] = (),
        since: float = 0.0,
        settings: Loaded = NOTHING_SET,
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
            from textual.scrollbar import ScrollBar

            from fa_tui.widgets.painted import PlainScrollBar

            self.add_class("-ascii")
            ScrollBar.renderer = PlainScrollBar
        self.session = session
        self.paths = list(paths)
        self.setup = setup or Setup()
        self.painter = Painter(self, self.terminal)
        self.keys = KeyQueue(self, super().on_event)
        self.following = Following(self, since)
        self.jobs = JobControl(self, self.setup)
        self.removed_presets: list[tuple[str, DiagnosticThresholds]] = []
        self._opened = title
        if look.show:
            self._begins = look
        else:
            self._begins = look._replace(show=self.settings.show.replace("stability", "drift"))
        self._history: ThresholdHistory | None = None

    async def on_event(self, event: events.Event) -> None:
        self.painter.notice(event)
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

    def _handle_exception(self, error: Exception) -> None:
        super()._handle_exception(error)
        self._return_code = INTERNAL_ERROR

    def _fatal_error(self) -> None:
        """Exit after an internal error with one line; with a traceback under --debug."""
        if os.environ.get(DEBUG):
            super()._fatal_error()
            return
        from rich.text import Text

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
        from fa_tui.screens.explorer import HEIGHTS, WIDTHS, ExplorerScreen
        from fa_tui.screens.threshold_screen import classes_at

        # set before the first layout, which then need not be repeated
        classes = " ".join(classes_at(self.size, WIDTHS, HEIGHTS))
        return ExplorerScreen(self.session, title=self._opened, look=self._begins, classes=classes)

    @property
    def explorer(self) -> ExplorerScreen:
        """The main screen."""
        return cast("ExplorerScreen", self.screen_stack[0])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable the problems' key only with problems, and the thresholds' keys only on judging
        screens."""
        if action == "ask" and parameters and parameters[0] in ("presets", "what_if"):
            return not isinstance(self.screen, ApplicationScreen) or self.screen.judges
        if action == "travel":
            return self._sliders is not None
        return action != "show_problems" or bool(self.session.problems or self.session.uneven)

    def on_mount(self) -> None:
        if sys.platform != "win32":
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                # these end the alternate screen and the mouse mode
                asyncio.get_running_loop().add_signal_handler(number, self.exit, 128 + number)
        if self.paths and self.settings.live == "auto":
            after(_WATCH_SECONDS, self, self._follow)
        if self._complaints:
            self.session.problems += self._complaints
            self.explorer.say(briefly(self._complaints[0]), "warn")

    def close_jobs(self) -> None:
        """End the workers, even if the connection is lost."""
        self.jobs.close()

    def _follow(self) -> None:
        self.run_worker(self.following.run(), group="follow")

    async def action_rescan(self) -> None:
        """Look at the open files and folders again."""
        if self.paths and not await self.following.look():
            self.say("looked again: nothing changed", "dim")

    def folders_changed(self, readings: Sequence[Reading]) -> None:
        news, text = self.following.take(readings)
        if news:
            self.rows_changed(only=None if news.added else [*news.changed, *news.gone, *news.back])
        if text:
            self.say(text, "warn" if news.gone else "accent")

    def work_changed(self, changed: dict[str, RunWork | None]) -> None:
        rows = self.session.take_work(changed)
        self.explorer.work_changed(rows)
        self.jobs.moved(None)

    def rows_changed(self, flips: Sequence[Flip] = (), only: Sequence[int] | None = None) -> None:
        from fa_tui.screens.threshold_screen import JudgedScreen

        self.explorer.rows_changed(flips, only)
        if isinstance(self.screen, JudgedScreen):
            # a screen that is opening shows it later
            self.screen.call_later(self.screen.runs_changed)

    def states_changed(self, rows: Iterable[int]) -> None:
        self.explorer.states_changed(rows)

    def marks_changed(self) -> None:
        self.explorer.marks_changed()

    def baseline_changed(self, flips: Sequence[Flip]) -> None:
        from fa_tui.screens.threshold_screen import JudgedScreen

        self.explorer.judged_otherwise(flips)
        if isinstance(self.screen, JudgedScreen):
            self.screen.call_later(self.screen.runs_changed)

    def jobs_changed(self, jobs: Sequence[Listed]) -> None:
        self.explorer.jobs_changed(jobs)
        from fa_tui.screens.jobs import JobsScreen

        for screen in self.screen_stack:
            if isinstance(screen, JobsScreen):
                screen.jobs_changed()

    def say(self, text: str, tone: str = "", *, aloud: bool = True) -> None:
        self.explorer.say(text, tone)
        if aloud and self.screen is not self.explorer:
            self.notify(
                text, severity="warning" if tone in ("warn", "bad") else "information", markup=False
            )

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Show a message on any screen as a `Lasting`."""
        if timeout is None:
            seconds = self.NOTIFICATION_TIMEOUT
        else:
            seconds = timeout
        self.post_message(Notify(Lasting(message, title, severity, seconds, markup=markup)))

    def dress(self, theme: str) -> None:
        self.theme = theme
        try:
            self.say(f"theme {theme}, kept in {remember('theme', theme)}", "good")
        except FaError as error:
            self.say(f"theme {theme} for now: {error}", "warn")

    async def action_go(self, tab: str) -> None:
        """Open a screen of the tab bar, from the main screen."""
        while self.screen is not self.explorer:
            self.screen.dismiss()
        if tab == "Jobs":
            self.action_show_jobs()
        elif tab != "Table":
            self.explorer.action_lens(tab.lower())
        elif not self.explorer.shown_runs.in_table:
            await self.explorer.action_toggle_table()

    def action_show_jobs(self) -> None:
        """Open the jobs screen."""
        from fa_tui.screens.jobs import JobsScreen

        self.push_screen(JobsScreen(self.jobs))

    def action_restore_all(self) -> None:
        """Reset all thresholds to their defaults as one step of undo."""
        from fa_tui.screens.dialogs import use_preset

        use_preset(
            self,
            "at their defaults",
            DiagnosticThresholds(),
        )

    def action_widen(self) -> None:
        """Toggle between all runs and those that pass the filter, on every screen."""
        session = self.session
        if session.filter is None:
            self.say("every run is in scope: / narrows it to those that match a filter", "dim")
            return
        session.widen()
        self.rows_changed()
        wide = f"all runs: f goes back to {session.filter.text}"
        self.say(
            wide if session.wide else f"only {session.filter.text}: f shows all runs",
            "accent",
            aloud=False,
        )

    def action_show_problems(self) -> None:
        """List unreadable paths and settings that differ between measurements."""
        from fa_tui.screens.help import ProblemsScreen

        self.push_screen(ProblemsScreen(self.session))

    def action_copy(self, command: bool = False) -> None:
        """Copy the value under the cursor, or the command that prints what is shown."""
        from fa_tui.screens.dialogs import copy_text, shared_by
        from fa_tui.share import typed

        shared = shared_by(self)
        if shared.value and not command:
            copy_text(self, shared.value)
        else:
            copy_text(self, typed(shared.command) if shared.command else "")

    def action_ask(self, name: str) -> None:
        """Open a dialog: export, presets, what_if."""
        from fa_tui.screens.dialogs import converse

        self.run_worker(converse(self, name), group=DIALOGS, exclusive=True)

    @property
    def history(self) -> ThresholdHistory:
        if self._history is None:
            # after the first paint
            from fa_tui.threshold_history import Judging, ThresholdHistory

            self._history = ThresholdHistory(
                Judging(self.session.thresholds, self.session.baseline)
            )
        return self._history

    @property
    def _sliders(self) -> SlidersPanel | None:
        """The threshold sliders of the current screen."""
        if isinstance(self.screen, ApplicationScreen):
            return self.screen.sliders
        return None

    async def action_travel(self, where: str) -> None:
        """Undo or redo the last change of thresholds and baseline."""
        if self._sliders is None or not self._sliders.check_action(where, ()):
            self.say(f"nothing to {where}", "dim")
        else:
            await self._sliders.run_action(where)

    def on_baseline_changed(self, message: BaselineChanged) -> None:
        """Show the baseline after undo or redo changed it."""
        from fa_tui.screens.dialogs import assume

        assume(self, message.baseline)

    def action_command_palette(self) -> None:
        """Open the command palette."""
        from fa_tui.screens.help import Palette

        if not isinstance(self.screen, Palette):
            self.push_screen(Palette())

    def action_help(self) -> None:
        """Explain the focused pane."""
        from fa_tui.screens.help import HelpScreen

        self.push_screen(HelpScreen(self.screen), self._run_key)

    async def _run_key(self, line: KeyLine | None) -> None:
        """Run a key that was chosen in help; one of another screen opens that."""
        if line is None:
            return
        while line.where and self.screen is not self.explorer:
            await self.pop_screen()
        if line.action:
            await self.run_action(line.action, line.node or self.explorer)

    async def action_quit(self) -> None:
        """Quit; asks first while jobs run."""
        unfinished = self.jobs.unfinished()
        if not unfinished:
            self.exit(0)
            return
        from fa_tui.screens.questions import QuitScreen

        def leave(answer: bool | None) -> None:
            if answer:
                self.exit(0)

        self.push_screen(QuitScreen(unfinished), leave)
