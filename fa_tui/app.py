"""The explorer's application: it opens paths, wires screens to the session and the jobs, and starts fast.

What is imported here is paid before the first paint: no NumPy, no torch, no heavy widget. They come
after it (`ExplorerScreen` settles), or when their screen opens.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.message import Message
from textual.screen import Screen

from fa_core.report import DiagnosticThresholds
from fa_tui.config.settings import NOTHING_SET, Loaded, load_settings
from fa_tui.live.following import FollowingApp
from fa_tui.session import Baseline, Flip, Session
from fa_tui.terminal.abilities import Terminal, detect, preferring
from fa_tui.terminal.themes import THEMES

if TYPE_CHECKING:
    from fa_core.engine import MeasureOptions
    from fa_tui.jobs.command_form import Planned
    from fa_tui.jobs.launches import Launches
    from fa_tui.jobs.listing import Jobs, Listed
    from fa_tui.jobs.measuring import Measured, Measuring
    from fa_tui.screens.explorer import ExplorerScreen


class JobMoved(Message):
    """A job's state or progress changed (posted from threads of the pool and of commands)."""


class CommandEnded(Message):
    """A command that was started here is over (posted from a thread of its own)."""

    def __init__(self, listed: Listed) -> None:
        self.listed = listed
        super().__init__()


class RunMeasured(Message):
    """A run was measured and saved (posted from the pool's threads)."""

    def __init__(self, measured: Measured) -> None:
        self.measured = measured
        super().__init__()


DEBUG = "FA_TUI_DEBUG"
"""Environment variable that asks for tracebacks; `--debug` sets it."""


def _palette() -> type[Provider]:
    from fa_tui.screens.palette import ExplorerCommands

    return ExplorerCommands


class ExplorerApp(FollowingApp):
    """The explorer.

    Args:
        session: the runs and what judges them.
        title: what is open.
        paths: what to follow while it is open.
        since: when reading them began (`time.time`).
        settings: what the person prefers; what is wrong with it is told.
        terminal: what the terminal can show.
        device: where to measure: ``auto``, ``cpu``, ``cuda:1``, or several with commas.
        out: results file for checkpoints that lie in no run folder.
        options: how to measure.
        measure: ``module:callable`` that workers measure with (tests).
    """

    CSS_PATH = "explorer.tcss"
    TITLE = "fa-tui"
    ENABLE_COMMAND_PALETTE = True
    COMMANDS = {_palette}

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "ask('copy')", "Copy", tooltip="copy a cell, row, report, figure or command line"),
        Binding("e", "ask('export')", "Export", tooltip="write a report, table or picture into a file"),
        Binding("p", "ask('presets')", "Presets", tooltip="thresholds saved by name: use, save, remove"),
        Binding("w", "ask('what_if')", "What if", tooltip="assume another frozen baseline for all runs"),
        Binding("N", "start", "New", show=False, tooltip="start a training run or an audit, with a form"),
        Binding("question_mark", "help", "Help", key_display="?", tooltip="what this pane shows and its keys"),
        Binding("ctrl+o", "jump", "Jump", show=False, tooltip="a letter on every pane; typing it goes there"),
        Binding("q", "quit", "Quit", tooltip="leave; asks while jobs run"),
        Binding("ctrl+q,ctrl+c", "quit", "Quit", show=False),
    ]

    def __init__(
        self,
        session: Session,
        *,
        title: str = "",
        paths: Sequence[Path] = (),
        since: float = 0.0,
        settings: Loaded = NOTHING_SET,
        terminal: Terminal | None = None,
        device: str = "auto",
        out: Path | None = None,
        options: MeasureOptions | None = None,
        measure: str | None = None,
    ) -> None:
        self.terminal = terminal or detect()
        prefers, self._complaints = settings
        super().__init__(session, paths, since, prefers, ansi_color=self.terminal.ansi_color)
        self._opened = title
        self._device, self._out, self._options, self._measure = device, out, options, measure
        self._measuring: Measuring | None = None
        self._jobs: Jobs | None = None
        self._launches: Launches | None = None
        self._stop_commands = False
        self.farewell: list[str] = []
        self._jobs_due = False
        for theme in THEMES:
            self.register_theme(theme)
        if prefers.themes:
            from fa_tui.terminal.own_themes import own_themes

            for theme in own_themes(prefers.themes):
                self.register_theme(theme)
        has_colours = self.terminal.colours > 16
        self._begin_with(prefers.theme if prefers.theme and has_colours else self.terminal.theme)
        if not self.terminal.unicode:
            from textual.scrollbar import ScrollBar

            from fa_tui.widgets.plain_scrollbar import PlainScrollBar

            self.add_class("-ascii")
            ScrollBar.renderer = PlainScrollBar

    def _fatal_error(self) -> None:
        """Leave after a defect of ours with one line; with its traceback where --debug asked for it."""
        if os.environ.get(DEBUG):
            super()._fatal_error()
            return
        from rich.text import Text

        error = self._exception
        what = f"internal error ({type(error).__name__}: {error}); run again with --debug and report it"
        self._exit_renderables.append(Text(f"fa-tui: {what}"))
        self._close_messages_no_wait()

    def _begin_with(self, theme: str) -> None:
        """Set the theme before the start: an assignment would have every stylesheet parsed a second time."""
        self.set_reactive(App.theme, theme)
        dark = self.current_theme.dark
        self.set_class(dark, "-dark-mode")
        self.set_class(not dark, "-light-mode")
        self.add_class(f"-theme-{theme}")
        self.stylesheet.set_variables(self.get_css_variables())

    def get_default_screen(self) -> ExplorerScreen:
        from fa_tui.screens.explorer import ExplorerScreen

        screen = ExplorerScreen(self.session, title=self._opened, glyphs=self.terminal.glyphs, show=self.settings.show)
        # known before the first layout, so that nothing is styled and laid out twice
        screen.set_classes(screen.classes_at(self.size))
        return screen

    @property
    def explorer(self) -> ExplorerScreen:
        """The main screen."""
        from fa_tui.screens.explorer import ExplorerScreen

        screen = self.screen_stack[0]
        assert isinstance(screen, ExplorerScreen)
        return screen

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Problems are only offered where there are some."""
        return action != "show_problems" or bool(self.session.problems)

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        for name in ("SIGTERM", "SIGHUP"):
            # without these the alternate screen and the mouse mode stay on
            if hasattr(signal, name) and sys.platform != "win32":
                number = getattr(signal, name)
                loop.add_signal_handler(number, self.exit, 128 + number)
        from fa_tui.jobs.saving import Results

        self.follow([Results(self._out).out])
        if self._complaints:
            self.session.problems += self._complaints
            self.explorer.say(self._complaints[0].message, "warn")

    def rows_changed(self, flips: Sequence[Flip] = (), only: Sequence[int] | None = None) -> None:
        from fa_tui.screens.judged import JudgedScreen

        self.explorer.rows_changed(flips, only)
        if isinstance(self.screen, JudgedScreen):
            self.screen.runs_changed()

    # Measuring.

    @property
    def measuring(self) -> Measuring:
        """The jobs of this explorer."""
        if self._measuring is None:
            from fa_tui.jobs.measuring import Measuring

            self._measuring = Measuring(
                self._device,
                on_job=lambda _: self.tell(JobMoved()),
                on_measured=lambda measured: self.tell(RunMeasured(measured)),
                out=self._out,
                options=self._options,
                measure=self._measure,
            )
        return self._measuring

    @property
    def jobs(self) -> Jobs:
        """What the jobs screen lists."""
        if self._jobs is None:
            from fa_tui.jobs.listing import Jobs

            self._jobs = Jobs(self.measuring, self.launches)
        return self._jobs

    @property
    def launches(self) -> Launches:
        """The commands that were started here."""
        if self._launches is None:
            from fa_tui.jobs.launches import Launches

            self._launches = Launches(self._command_moved)
        return self._launches

    def _command_moved(self, listed: Listed) -> None:
        self.tell(CommandEnded(listed) if listed.over else JobMoved())

    def start(self, planned: Planned) -> None:
        """Start a command among the jobs, and follow what it writes."""
        try:
            self.launches.start(planned)
        except OSError as error:
            self.say(f"{planned.words[0]} cannot be started: {error}", "bad")
            return
        self.also_follow(planned.out)
        self.say(f"started {planned.words[0]}: J shows how far it is", "accent")

    def on_command_ended(self, message: CommandEnded) -> None:
        job = message.listed
        self.on_job_moved()
        tone = {"done": "good", "failed": "bad"}.get(job.state, "warn")
        self.say(f"{job.name}: {job.error or job.state}", tone)

    def tell_screen(self, screen: Screen[None], message: Message) -> None:
        """Hand a screen a message from another thread, while it is there to take it."""
        if self.is_running and screen.is_running:
            screen.post_message(message)

    def say(self, text: str, tone: str = "") -> None:
        """One line about what just happened, where the person looks now."""
        self.explorer.say(text, tone)
        if self.screen is not self.explorer:
            self.notify(text, severity="warning" if tone in ("warn", "bad") else "information", markup=False)

    def send(self, sequence: str) -> None:
        """Send the terminal a sequence that shows nothing."""
        if self._driver is not None:
            self._driver.write(sequence)

    def send_soon(self, sequence: str) -> None:
        """`send` from another thread."""
        self.call_from_thread(self.send, sequence)

    def measure(self, indices: Sequence[int]) -> None:
        """Queue runs to be measured; say so, or say why none can be."""
        from fa_core.errors import FaError

        rows = [(index, self.session.rows[index]) for index in self.session.measurable(indices)]
        if not rows:
            self.explorer.say("no checkpoint to measure here: open a run folder or a weights file", "warn")
            return
        try:
            started = self.measuring.start(rows)
        except FaError as error:
            self.explorer.say(str(error), "bad")
            return
        self.session.marked.clear()
        self.explorer.marks_changed()
        self.explorer.say(f"{len(started)} queued" if started else "already queued", "dim")

    def on_job_moved(self) -> None:
        if not self._jobs_due:
            self._jobs_due = True
            self.set_timer(_JOBS_SECONDS, self._show_jobs)

    def _show_jobs(self) -> None:
        self._jobs_due = False
        if not self.screen_stack:
            return  # the app is closing
        self.explorer.jobs_changed(self.jobs.listed())
        from fa_tui.screens.jobs import JobsScreen

        if isinstance(self.screen, JobsScreen):
            self.screen.jobs_changed()

    def on_run_measured(self, message: RunMeasured) -> None:
        measured = message.measured
        self.session.replace_row(measured.index, measured.row)
        self.explorer.row_changed(measured.index)
        from fa_tui.screens.judged import JudgedScreen

        if isinstance(self.screen, JudgedScreen):
            self.screen.runs_changed()
        name = self.session.label(measured.index)
        if measured.problem:
            self.explorer.say(f"{name} measured, but not saved: {measured.problem}", "bad")
        else:
            self.explorer.say(f"{name} measured, saved in {short_path(measured.saved)}", "good")

    # Screens.

    def action_show_jobs(self) -> None:
        """Open the jobs screen."""
        from fa_tui.screens.jobs import JobsScreen

        self.push_screen(JobsScreen(self.jobs, glyphs=self.terminal.glyphs))

    def action_show_lens(self, name: str) -> None:
        """Open compare, timeline or analysis; a threshold moved there is moved here too."""
        from fa_core.errors import FaError
        from fa_tui.screens.lenses import lens

        try:
            self.push_screen(lens(name, self), lambda _: self.explorer.catch_up())
        except FaError as error:
            self.explorer.say(str(error), "warn")

    def action_show_problems(self) -> None:
        """Open the list of paths that could not be opened."""
        from fa_tui.screens.problems import ProblemsScreen

        self.push_screen(ProblemsScreen(self.session.problems, glyphs=self.terminal.glyphs))

    def action_jump(self) -> None:
        """Put a letter on every pane; typing it goes there."""
        from fa_tui.screens.jump import JumpScreen, targets_of

        screen = self.screen
        self.push_screen(
            JumpScreen(list(targets_of(screen))),
            lambda pane: None if pane is None else screen.set_focus(pane),
        )

    def action_ask(self, name: str) -> None:
        """Begin one of the dialogs: copy, export, presets, what_if."""
        from fa_tui.screens.dialogs import converse

        self.run_worker(converse(self, name), group="dialog", exclusive=True)

    def action_start(self) -> None:
        """Ask for a command and its options, and start it."""
        from fa_tui.jobs.starting import start_something

        self.run_worker(start_something(self), group="dialog", exclusive=True)

    def action_help(self) -> None:
        """Explain the focused pane."""
        from fa_tui.screens.help import HelpScreen

        self.push_screen(HelpScreen(self.screen, glyphs=self.terminal.glyphs))

    async def action_quit(self) -> None:
        """Leave; ask first while jobs run."""
        commands = sum(not job.over for job in self._launches.listed()) if self._launches else 0
        active = self.jobs.active() - commands
        if not active and not commands:
            self.exit(0)
            return
        from fa_tui.screens.quit import QuitScreen

        self.push_screen(QuitScreen(active, commands, glyphs=self.terminal.glyphs), self._leave)

    def _leave(self, answer: str | None) -> None:
        if answer:
            self._stop_commands = answer == "stop"
            self.exit(0)

    def close_jobs(self) -> None:
        """End the workers and the watchers; what is finished is on disk already.

        Commands go on, unless the person said otherwise: also when the connection is gone.
        """
        self.stop_following()
        if self._launches is not None:
            self.farewell = self._launches.close(stop=self._stop_commands)
        if self._measuring is not None:
            self._measuring.close()


_JOBS_SECONDS = 0.1
"""Progress is shown at most so often: a key must never wait for it."""


def short_path(path: str, width: int = 60) -> str:
    """A path relative to the current folder where it lies in it; a long one by its end, which says most."""
    with contextlib.suppress(ValueError):
        path = str(Path(path).relative_to(Path.cwd()))
    return path if len(path) <= width else "…" + path[1 - width :]


def run_explorer(
    paths: Sequence[Path],
    *,
    thresholds: DiagnosticThresholds | None = None,
    frozen_baseline: Baseline | None = None,
    device: str = "auto",
    out: Path | None = None,
    options: MeasureOptions | None = None,
    settings: Loaded | None = None,
) -> int:
    """Open the explorer on paths and stay until the person leaves.

    Args:
        paths: audit files, checkpoints, run folders, or folders of them.
        thresholds: where the sliders start (default: where the settings say).
        frozen_baseline: accuracies to assume where none was recorded.
        device: where to measure; ``auto`` is what the settings say.
        out: results file for checkpoints that lie in no run folder.
        options: how to measure.
        settings: what the person prefers (default: their settings file).

    Returns:
        The exit code.

    Raises:
        UnreadableInput: the only path cannot be read.
    """
    # set before NumPy is imported: its thread pools cost 55 ms at start and nothing here uses them
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # a collection before the first paint costs more than the garbage there is
    gc.disable()
    from fa_core.formats import scan

    settings = load_settings() if settings is None else settings
    since = time.time()
    # the traces of run folders take longer than all the rest and no first screen shows them
    found = scan(list(paths), run_traces=False)
    session = Session(
        found.rows,
        thresholds=thresholds or settings.settings.thresholds,
        baseline=frozen_baseline,
        problems=found.problems,
        traces=lambda: scan(list(paths)).traces,
    )
    title = ", ".join(short_path(str(path)) for path in paths)
    app = ExplorerApp(
        session,
        title=title,
        paths=paths,
        since=since,
        settings=settings,
        terminal=preferring(detect(), settings.settings.glyphs),
        device=settings.settings.device if device == "auto" else device,
        out=out,
        options=options,
    )
    try:
        code = app.run()
    finally:
        app.close_jobs()
        for line in app.farewell:
            with contextlib.suppress(OSError):
                print(f"fa-tui: {line}", file=sys.stderr)
    return app.return_code or 0 if code is None else code


if __name__ == "__main__":
    from fa_tui.samples import sample_runs

    sys.exit(run_explorer([Path(argument) for argument in sys.argv[1:]] or [sample_runs()]))
