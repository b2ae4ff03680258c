"""An explorer with jobs: runs that it measures, commands that it starts, and what becomes of them on screen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

from fa_tui.jobs.setup import Setup
from fa_tui.live.following import FollowingApp
from fa_tui.session import Session
from fa_tui.settings import Settings
from fa_tui.terminal.abilities import Terminal
from fa_tui.views.text import short_path

if TYPE_CHECKING:
    from fa_tui.jobs.form import Planned
    from fa_tui.jobs.launches import Launches
    from fa_tui.jobs.listing import Jobs, Listed
    from fa_tui.jobs.measuring import Failed, Measured, Measuring

_SHOW_SECONDS = 0.1
"""Progress is shown at most so often: a key must never wait for it."""

_ARRIVALS_SECONDS = 0.25
"""Measured runs, too: those that come together are one change of the screen."""


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


class RunFailed(Message):
    """A run could not be measured (posted from the pool's threads)."""

    def __init__(self, failed: Failed) -> None:
        self.failed = failed
        super().__init__()


class Noticed(Message):
    """Something that concerns no single job, e.g. which cluster it is (posted from the pool's threads)."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__()


class WorkingApp(FollowingApp):
    """Measures and starts commands when told to.

    Args:
        session: the runs.
        paths: as they were opened.
        since: when reading them began (`time.time`).
        terminal: what the terminal can show.
        settings: what the person prefers.
        setup: how to measure; the device ``auto`` of this machine is what the settings say.
    """

    def __init__(
        self,
        session: Session,
        paths: Sequence[Path],
        since: float,
        terminal: Terminal,
        settings: Settings,
        setup: Setup,
    ) -> None:
        super().__init__(session, paths, since, terminal, settings)
        self._setup = setup
        self._measuring: Measuring | None = None
        self._jobs: Jobs | None = None
        self._launches: Launches | None = None
        self._jobs_due = False
        self._arrived: list[Measured] = []
        self._arrivals_due = False
        self._failed: list[Failed] = []
        self.stops_commands = False
        self.farewell: list[str] = []

    @property
    def setup(self) -> Setup:
        """How it was told to measure."""
        return self._setup

    @property
    def measuring(self) -> Measuring:
        """The runs that are measured here."""
        if self._measuring is None:
            from fa_tui.jobs.measuring import Measuring

            self._measuring = Measuring(
                self._setup.preferring(self.settings.device),
                on_job=lambda _: self.tell(JobMoved()),
                on_measured=lambda measured: self.tell(RunMeasured(measured)),
                on_failed=lambda failed: self.tell(RunFailed(failed)),
                on_notice=lambda text: self.tell(Noticed(text)),
                on_saving=self.own_news.add,
            )
        return self._measuring

    @property
    def launches(self) -> Launches:
        """The commands that were started here."""
        if self._launches is None:
            from fa_tui.jobs.launches import Launches

            self._launches = Launches(self._command_moved)
        return self._launches

    @property
    def jobs(self) -> Jobs:
        """Both, as the jobs screen lists them."""
        if self._jobs is None:
            from fa_tui.jobs.listing import Jobs

            self._jobs = Jobs(self.measuring, self.launches)
        return self._jobs

    def unfinished(self) -> tuple[int, int]:
        """How many runs and how many commands are not over."""
        runs = sum(not job.over for job in self._measuring.listed()) if self._measuring else 0
        commands = sum(not job.over for job in self._launches.listed()) if self._launches else 0
        return runs, commands

    def measure(self, indices: Sequence[int], shown: Sequence[int] | None = None) -> None:
        """Queue runs to be measured; say which, or say why none can be.

        Args:
            indices: the runs.
            shown: the rows that a filter leaves, rising: of the others it is said that they are hidden.
        """
        from fa_core.errors import FaError

        rows = [(index, self.session.rows[index]) for index in self.session.measurable(indices)]
        if not rows:
            self.say("no checkpoint to measure here: open a run folder or a weights file", "warn")
            return
        try:
            started = self.measuring.start(rows)
        except FaError as error:
            self.say(str(error), "bad")
            return
        self.session.marked.clear()
        self.marks_changed()
        if started:
            from fa_tui.views.words import queued_words

            self.say(f"{queued_words(self.session, [int(job) for job in started], shown)} to measure", "dim")
        else:
            self.say("already queued", "dim")

    def start(self, planned: Planned) -> None:
        """Start a command among the jobs, and follow what it writes, unless that is what is open, measured again."""
        try:
            self.launches.start(planned)
        except OSError as error:
            self.say(f"{planned.words[0]} cannot be started: {error}", "bad")
            return
        # a table of runs that are open already would show each of them twice
        if not planned.reads or not all(self.is_open(path) for path in planned.reads):
            self.also_follow(planned.out)
        self.say(f"started {planned.words[0]}: J shows how far it is", "accent")

    def close_jobs(self) -> None:
        """End the workers and the watchers; what is finished is on disk already.

        Commands go on, unless the person said otherwise: also when the connection is gone.
        """
        self.stop_following()
        if self._launches is not None:
            self.farewell = self._launches.close(stop=self.stops_commands)
        if self._measuring is not None:
            self._measuring.close()

    def _command_moved(self, listed: Listed) -> None:
        self.tell(CommandEnded(listed) if listed.over else JobMoved())

    def on_job_moved(self) -> None:
        if not self._jobs_due:
            self._jobs_due = True
            self.set_timer(_SHOW_SECONDS, self._show_jobs)

    def _show_jobs(self) -> None:
        self._jobs_due = False
        if self.screen_stack:  # else the app is closing
            self.jobs_changed(self.jobs.listed())

    def on_command_ended(self, message: CommandEnded) -> None:
        job = message.listed
        self.on_job_moved()
        tone = {"done": "good", "failed": "bad"}.get(job.state, "warn")
        self.say(f"{job.name}: {job.error or job.state}", tone)

    def on_run_measured(self, message: RunMeasured) -> None:
        self._arrived.append(message.measured)
        if not self._arrivals_due:
            self._show_arrivals()

    def _show_arrivals(self) -> None:
        """Show what was measured, the first at once; what comes soon after it waits for a moment."""
        arrived, self._arrived = self._arrived, []
        self._arrivals_due = bool(arrived)
        if not arrived or not self.screen_stack:  # without screens the app is closing
            return
        self.set_timer(_ARRIVALS_SECONDS, self._show_arrivals)
        self.session.replace_rows({measured.index: measured.row for measured in arrived})
        self.rows_changed(only=[measured.index for measured in arrived])
        # from now on what comes back from disk looks as it does here
        self.own_news.difference_update(measured.index for measured in arrived)
        name = self.session.label(arrived[-1].index)
        names = name if len(arrived) == 1 else f"{len(arrived)} more, the last of them {name},"
        problem = next((measured.problem for measured in arrived if measured.problem), "")
        if problem:
            self.say(f"{names} measured, but not saved: {problem}", "bad")
        else:
            self.say(f"{names} measured, saved in {short_path(arrived[-1].saved)}", "good", aloud=False)

    def on_run_failed(self, message: RunFailed) -> None:
        self._failed.append(message.failed)
        if len(self._failed) == 1:
            self.set_timer(_ARRIVALS_SECONDS, self._say_failures)

    def _say_failures(self) -> None:
        """Say why runs could not be measured; those that fail together are one line."""
        from fa_tui.jobs.measuring import failure_words

        failed, self._failed = self._failed, []
        if self.screen_stack:  # else the app is closing
            self.say(failure_words(failed), "bad", aloud=False)

    def on_noticed(self, message: Noticed) -> None:
        self.say(message.text, "dim", aloud=False)

    def jobs_changed(self, jobs: Sequence[Listed]) -> None:
        """Show how the jobs stand."""
        raise NotImplementedError

    def marks_changed(self) -> None:
        """Show that the marks are gone."""
        raise NotImplementedError
