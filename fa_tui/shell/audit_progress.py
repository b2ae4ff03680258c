"""The progress of measuring, on stderr: bars at a terminal, one line per run elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias

from fa_core.engine.jobs import JobState, JobView
from fa_tui.views.axes import axes_text

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


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
