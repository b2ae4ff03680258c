"""Base of the application for jobs, watchers and widgets; completed by `fa_tui.app`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual import events
from textual.app import App

if TYPE_CHECKING:
    from fa_core.formats.run_progress import RunWork
    from fa_tui.follow import Following
    from fa_tui.jobs.control import JobControl
    from fa_tui.jobs.listing import Listed
    from fa_tui.jobs.measuring import Setup
    from fa_tui.reading import Reading
    from fa_tui.session import Flip, Session
    from fa_tui.settings import Settings
    from fa_tui.terminal.abilities import Terminal
    from fa_tui.terminal.painting import Painter


class Application(App[int]):
    """The application's parts, and the callbacks for their changes.

    Attributes:
        session: runs and thresholds.
        paths: opened or followed paths.
        settings: the user's settings.
        setup: how to measure.
        terminal: the abilities of the terminal.
        painter: sends frames to the terminal.
        following: follows the paths.
        jobs: measures runs.
    """

    session: Session
    paths: list[Path]
    settings: Settings
    setup: Setup
    terminal: Terminal
    painter: Painter
    following: Following
    jobs: JobControl

    def post_call(self, callback: Callable[..., None], *values: object) -> None:
        """Call a function in the application's thread, from another thread."""
        if self.is_running:
            self.post_message(events.Callback(partial(callback, *values)))

    def say(self, text: str, tone: str = "", *, aloud: bool = True) -> None:
        """Show a message.

        Args:
            text: the line.
            tone: as in `Line`.
            aloud: on other screens than the main one, too.
        """
        raise NotImplementedError

    def folders_changed(self, readings: Sequence[Reading]) -> None:
        """Show the new contents of places."""
        raise NotImplementedError

    def work_changed(self, changed: dict[str, RunWork | None]) -> None:
        """Show what other processes do with runs: run folder → its progress."""
        raise NotImplementedError

    def rows_changed(self, flips: Sequence[Flip] = (), only: Sequence[int] | None = None) -> None:
        """Show rows that were added, changed, removed or judged again.

        Args:
            flips: the flipped verdicts.
            only: the changed rows, if none were added.
        """
        raise NotImplementedError

    def states_changed(self, rows: Iterable[int]) -> None:
        """Show runs whose measurement was queued, started or finished."""
        raise NotImplementedError

    def marks_changed(self) -> None:
        """Show that all marks were removed."""
        raise NotImplementedError

    def jobs_changed(self, jobs: Sequence[Listed]) -> None:
        """Show the state of the jobs."""
        raise NotImplementedError
