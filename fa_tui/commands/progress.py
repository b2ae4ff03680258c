"""Progress bars or lines on stderr, and signals that end a command like Ctrl-C.

Finished work is kept first. A training command also writes its batches to a file for the explorer
that started it (`fa_tui.jobs.listing`).
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from fa_core.audit.jobs import JobState, JobView
from fa_core.report.numbers import with_axes
from fa_core.report.report_facts import PROTOCOL, DiagnosticThresholds
from fa_core.sanitize import one_line
from fa_tui.commands.inputs import cause_of
from fa_tui.commands.output import say
from fa_tui.views.words import runs_words, with_seed

if TYPE_CHECKING:
    from rich.progress import ProgressColumn, TaskID
    from typing_extensions import Self


_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """Stop of a command by Ctrl-C, SIGTERM (a time limit) or SIGHUP (a lost connection).

    Attributes:
        exit_code: 128 + the signal's number, as in shells.
    """

    exit_code = 130


@contextlib.contextmanager
def stoppable() -> Iterator[Stopped]:
    """Context in which SIGTERM and SIGHUP raise the yielded `Stopped`, unless they are ignored
    (nohup) or handled already."""
    stop = Stopped("interrupted")
    in_charge = threading.current_thread() is threading.main_thread()
    ours = [
        number for number in _SIGNALS if in_charge and signal.getsignal(number) is signal.SIG_DFL
    ]

    def take(number: int, frame: FrameType | None) -> None:
        # both signals often come together, and the second must not interrupt the saving
        for each in ours:
            signal.signal(each, signal.SIG_IGN)
        stop.args, stop.exit_code = (f"stopped by {signal.Signals(number).name}",), 128 + number
        raise stop

    for number in ours:
        signal.signal(number, take)
    try:
        yield stop
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


class _Bars:
    """Progress bars on stderr if it is a terminal, one for each running job, and lines above them.

    Args:
        time: the last column of each bar.
    """

    def __init__(self, time: ProgressColumn) -> None:
        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._bars = Progress(
            TextColumn(
                "{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True)
            ),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            time,
            console=self._console,
            transient=True,
            expand=True,
            disable=not self._console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._bars.stop()

    def say(self, text: str) -> None:
        """Print a line above the bars."""
        # a lost terminal must not stop the measurement
        with contextlib.suppress(OSError):
            self._console.print(one_line(text), soft_wrap=True)

    def _show(self, view: JobView, words: str) -> None:
        """Show a job's bar while it runs."""
        name = view.job.id
        if view.state is not JobState.RUNNING:
            if name in self._tasks:
                self._bars.remove_task(self._tasks.pop(name))
            return
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task("", total=None)
        total = view.total or None
        self._bars.update(self._tasks[name], completed=view.done, total=total, description=words)


class AuditProgress(_Bars):
    """Shows the progress of jobs, called from another thread: a bar for each, and one for all.

    Args:
        names: checkpoint → name of its run.
        thresholds: say what fires (default: the protocol's).

    Attributes:
        said: notes that were printed.
    """

    def __init__(
        self, names: Mapping[str, str] = {}, thresholds: DiagnosticThresholds = PROTOCOL
    ) -> None:
        super().__init__(TimeElapsedColumn())
        self._names, self._thresholds = names, thresholds
        self._total = self._over = 0
        self.said: set[object] = set()
        self._above = ""
        self._overall: TaskID | None = None

    def plan(self, todo: int, skipped: int) -> None:
        """Print the number of runs to measure and skipped runs."""
        self._total = todo
        again = f", {skipped} measured before" if skipped else ""
        self.say(f"{runs_words(todo)} to measure{again}")
        if todo:
            self._overall = self._bars.add_task("all", total=todo)

    def notice(self, text: str) -> None:
        """Print a note on the whole audit; equal notes of runs are not repeated."""
        self.said.add(text)
        self.say(text)

    def __call__(self, view: JobView) -> None:
        with contextlib.suppress(OSError):
            # a cluster's waiting runs have equal notes
            if view.note and view.note not in self.said:
                self.said.add(view.note)
                self.say(f"{self._name(view)}: {view.note}")
            self._show(view, f"{self._name(view)} {view.device}")
            if view.state.final:
                self._end(view)

    def _end(self, view: JobView) -> None:
        self._over += 1
        # the command's last line has the reason of jobs that no worker took
        if view.state is not JobState.CANCELLED and (view.device or not view.error):
            place = f"[{self._over}/{self._total}]"
            self.say(f"{place} {self._name(view)}: {self._outcome(view)}")
        if self._overall is not None:
            self._bars.advance(self._overall)

    def _name(self, view: JobView) -> str:
        """A run's short name, e.g. ``dfa λ=0.01 seed 42``."""
        job = view.job
        if name := self._names.get(job.checkpoint):
            return name
        name = with_axes(job.method or job.checkpoint, job.axes)
        return one_line(with_seed(name, job))

    def _outcome(self, view: JobView) -> str:
        above, self._above = self._above, ""
        if view.report is not None:
            # no verdict: its frozen run may be measured after it, and is not measured again
            report = view.report.with_thresholds(self._thresholds)
            states = {"firing": report.flags, "undecided": report.undecided}
            said = [f", {name}: {', '.join(sorted(of))}" for name, of in states.items() if of]
            return f"{report.coverage} measured so far{''.join(said)}"
        if not view.error:
            return view.state.value
        # an error of --model or --data holds for all runs
        self._above = cause_of(view.error, view.job.checkpoint)
        return "the same" if self._above == above else view.error


class TrainingProgress(_Bars):
    """Shows the progress of runs in training: how many are done, and their epochs.

    Args:
        runs: total number of runs.
    """

    def __init__(self, runs: int) -> None:
        super().__init__(TimeRemainingColumn())
        self._all = self._bars.add_task("runs", total=runs)
        self._notes: dict[str, str] = {}

    def __call__(self, view: JobView) -> None:
        """Show a change of a run; of a finished one the note is the result, for stdout."""
        run = view.job.id
        # the result comes as a note, too, just before the end
        if view.note.startswith("epoch ") and view.note != self._notes.get(run):
            self._notes[run] = view.note
            if not self._console.is_terminal:
                self.say(f"{run} {view.note}")
        self._show(view, f"{run} {self._notes.get(run, '')}")
        if view.state is JobState.DONE:
            self._bars.advance(self._all)
            self._bars.stop()
            say(view.note)
            sys.stdout.flush()
            self._bars.start()
