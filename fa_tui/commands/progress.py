"""A program told to end ends as by Ctrl-C: what it has finished is kept first.

The progress of measuring, on stderr: bars at a terminal, one line per run elsewhere.

Progress of a training command on stderr: bars on a terminal, a line per epoch elsewhere.

An explorer that started it is told of every batch, too (`fa_tui.jobs.pace`).
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fa_core.engine.jobs import JobState, JobView
from fa_tui.jobs.pace import StepFile, Steps
from fa_tui.views.axes import axes_text

if TYPE_CHECKING:
    from rich.progress import TaskID

    from fa_core.train import Moment


_NUMBERS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Stopped(KeyboardInterrupt):
    """SIGTERM (a batch system's time limit) or SIGHUP (a lost connection) came.

    Attributes:
        exit_code: 128 + the signal's number, as a shell would say it.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number


class Stop:
    """How a command was stopped, if it was: by Ctrl-C unless a signal says otherwise."""

    exit_code = 130
    words = "interrupted"

    def take(self, number: int, frame: FrameType | None) -> None:
        """Stop once; both signals often come together, and the second must not stop the keeping.

        Raises:
            Stopped: always.
        """
        for each in _NUMBERS:
            signal.signal(each, signal.SIG_IGN)
        stopped = Stopped(number)
        self.exit_code, self.words = stopped.exit_code, str(stopped)
        raise stopped


@contextlib.contextmanager
def stoppable() -> Iterator[Stop]:
    """Within it, SIGTERM and SIGHUP come as a `Stopped`, unless they are ignored (nohup) or handled already."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    ours = [number for number in _NUMBERS if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, stop.take)
    try:
        yield stop
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


Worker: TypeAlias = tuple[str, str]
"""A device, and the log of the worker on it."""


class AuditProgress:
    """Listens to jobs (from another thread) and shows how far they are: a bar per worker, one for all.

    Args:
        names: checkpoint → what its run is called beside the others.
    """

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        self._names = names or {}
        self._failures: set[str] = set()
        self._total = self._over = 0
        self._noted: set[tuple[str, str]] = set()
        self._noticed: set[str] = set()
        self._bars: Progress | None = None
        self._tasks: dict[Worker, TaskID] = {}
        self._running: dict[str, Worker] = {}
        self._overall: TaskID | None = None

    def __enter__(self) -> AuditProgress:
        if sys.stderr.isatty():
            self._bars = _bars()
            self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bars is not None:
            with contextlib.suppress(OSError):
                self._bars.stop()

    def plan(self, todo: int, skipped: int) -> None:
        """Say what is about to be done."""
        self._total = todo
        again = f", {skipped} measured before" if skipped else ""
        self.say(f"{todo} {'run' if todo == 1 else 'runs'} to measure{again}")
        if self._bars is not None and todo:
            self._overall = self._bars.add_task("all", total=todo)

    def __call__(self, view: JobView) -> None:
        # a terminal that is gone costs no measurement
        with contextlib.suppress(OSError):
            self._take(view)

    def _take(self, view: JobView) -> None:
        # a worker says the same of every run of a group, and a cluster of every run that waits
        if view.note and view.note not in self._noticed and (view.note, view.log) not in self._noted:
            self._noted.add((view.note, view.log))
            self.say(f"{self._name(view)}: {view.note}")
        if view.state is JobState.RUNNING:
            self._show(view)
        else:
            self._leave(view.job.id)
        if view.state.final:
            self._end(view)

    def _show(self, view: JobView) -> None:
        if self._bars is None:
            return
        worker = (view.device, view.log)
        if self._running.get(view.job.id) != worker:
            self._leave(view.job.id)
            self._running[view.job.id] = worker
        if worker not in self._tasks:
            self._tasks[worker] = self._bars.add_task("", total=None)
        runs = sum(other == worker for other in self._running.values())
        what = self._name(view) if runs == 1 else f"{runs} runs"
        self._bars.update(
            self._tasks[worker],
            completed=view.done,
            total=view.total or None,
            description=f"{what} {view.device}",
        )

    def _leave(self, job_id: str) -> None:
        """The run is not measured any more; a worker that measures none has no bar."""
        worker = self._running.pop(job_id, None)
        if self._bars is not None and worker is not None and worker not in self._running.values():
            self._bars.remove_task(self._tasks.pop(worker))

    def _end(self, view: JobView) -> None:
        self._over += 1
        if view.state is not JobState.CANCELLED:
            self.say(f"[{self._over}/{self._total}] {self._name(view)}: {self._outcome(view)}")
        if self._bars is not None and self._overall is not None:
            self._bars.advance(self._overall)

    def _name(self, view: JobView) -> str:
        return self._names.get(view.job.checkpoint) or name(view)

    def _outcome(self, view: JobView) -> str:
        if view.error in self._failures:
            return "the same"  # what is wrong with --model or --data is wrong for every run
        self._failures.update([view.error] if view.error else [])
        return view.error or view.state.value

    def notice(self, text: str) -> None:
        """A line about no single run; a run that is noted to suffer from it needs none of its own."""
        self._noticed.add(text)
        self.say(text)

    def say(self, text: str) -> None:
        """A line of its own, above the bars."""
        with contextlib.suppress(OSError):
            if self._bars is not None:
                self._bars.console.print(text, markup=False, highlight=False, soft_wrap=True)
            else:
                print(text, file=sys.stderr, flush=True)


def name(view: JobView) -> str:
    """A run in few words, e.g. ``dfa λ=0.01 seed 42``."""
    who = " ".join(filter(None, [view.job.method or view.job.checkpoint, axes_text(view.job.axes)]))
    return who if view.job.seed is None else f"{who} seed {view.job.seed}"


def _bars() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )


class TrainingProgress:
    """Shows `Moment`s: how many runs are done, and the epoch of the one in training.

    Args:
        runs: how many runs there will be.
    """

    def __init__(self, runs: int) -> None:
        self._steps = StepFile()
        self._console = Console(stderr=True, highlight=False)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[last]}"),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._all = self._bars.add_task("runs", total=runs, last="")
        self._run = self._bars.add_task("", total=None, visible=False, last="")

    def __enter__(self) -> TrainingProgress:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bars.stop()

    def update(self, moment: Moment) -> None:
        """Show where the run stands."""
        self._steps.note(Steps(moment.run, moment.epoch, moment.step, moment.steps))
        done = (moment.epoch - 1) * moment.steps + moment.step
        shown: dict[str, Any] = {"description": moment.run, "visible": True}
        if moment.entry is not None:
            shown["last"] = _in_words(moment)
            if not self._console.is_terminal:
                self._console.print(
                    f"{moment.run} epoch {moment.epoch}/{moment.epochs}: {shown['last']}", soft_wrap=True
                )
        self._bars.update(self._run, completed=done, total=moment.epochs * moment.steps, **shown)

    def finished(self, run: str) -> None:
        """One more run is done."""
        self._bars.update(self._run, visible=False, last="")
        self._bars.advance(self._all)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Take the bars away while something is printed on stdout."""
        self._bars.stop()
        try:
            yield
        finally:
            self._bars.start()


def _in_words(moment: Moment) -> str:
    entry = moment.entry or {}
    fired = "".join(sorted(moment.flags)) or "none"
    return f"loss {entry['loss']:.4f}, accuracy {entry['test_acc']:.4f}, fired: {fired}"
