"""Progress of a training command on stderr: bars on a terminal, a line per epoch elsewhere.

An explorer that started it is told of every batch, too (`fa_tui.jobs.step_file`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fa_tui.jobs.step_file import StepFile, Steps

if TYPE_CHECKING:
    from fa_core.train import Moment


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
