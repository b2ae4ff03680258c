"""Measuring from the explorer: rows become jobs, reports become rows and files.

Reports are written into their run folder, or into one results file. No torch.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from fa_core.audit.devices import (
    LOCAL,
    Execution,
    list_devices,
    resolve_devices,
    usable_cores,
    why_no_cuda,
    workers_for,
)
from fa_core.audit.jobs import MeasureOptions, job_for
from fa_core.errors import FaError, UsageError
from fa_core.files.atomic import keep_old, write_json
from fa_core.files.opening import is_folder, real_path
from fa_core.formats.audit_table import Journal, printable_drift
from fa_core.formats.frozen_runs import with_baselines
from fa_core.formats.rows import AuditRow, measured
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.manifest import AUDIT, RESULTS, is_run
from fa_core.report.numbers import count_text
from fa_tui.jobs.listing import Listed, Pace
from fa_tui.views.words import disambiguate

if TYPE_CHECKING:
    from fa_core.audit.jobs import JobView
    from fa_core.audit.pool import Pool
    from fa_core.audit.verify import Verification
    from fa_tui.settings import MeasureAnswer


def is_audited(row: AuditRow) -> bool:
    """Whether a record of a run is of the files that are there now."""
    return bool(row.report.coverage) and not row.report.changed


def results_file(source: str, paths: Iterable[Path]) -> Path:
    """Where `RESULTS` is found again with a source: in the folder of the open path that it was
    found in; in the current one, if nothing can be written there."""
    found = filter(Path(source).is_relative_to, paths)
    folders = [path if is_folder(path) else path.parent for path in found]
    usable = (folder for folder in folders if os.access(folder, os.W_OK))
    return real_path(next(usable, Path())) / RESULTS


class Setup(msgspec.Struct, frozen=True):
    """Measuring setup of an explorer.

    Attributes:
        execution: engine, devices and number of workers.
        options: data, network and settings.
    """

    execution: Execution = Execution()
    options: MeasureOptions = MeasureOptions()

    def preferring(self, device: str) -> Setup:
        """This setup on the settings' device, unless another device or a cluster was given."""
        chosen = self.execution
        if (chosen.engine, chosen.device) != (LOCAL, "auto"):
            return self
        return Setup(replace(chosen, device=device), self.options)


@dataclass
class Measured:
    """A measured run.

    Attributes:
        index: index of its row.
        row: the row with its report; for an audited run the recorded row.
        saved: the written file (``""`` if writing failed).
        problem: error of writing.
        again: the new measurement of an audited run, with its differences; not written.
    """

    index: int
    row: AuditRow
    saved: str = ""
    problem: str = ""
    again: Verification | None = None


class Results:
    """Saves reports: `audit.json` in a run folder that was opened; all others in one audit table.

    Several explorers may save into one table. Thread-safe; call `flush` after the last report.

    Args:
        out: results file for all others; its rows are kept.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self._unsaved: list[AuditRow] = []
        self._lock = threading.RLock()
        self._is_journal = False

    def save(self, row: AuditRow) -> Path:
        """Write a measured run atomically; returns the path. One that cannot be written is tried
        again with the next one."""
        checkpoint = Path(row.checkpoint or "")
        # a record elsewhere may name another run than the manifest, and folders that are not open
        if row.source == row.checkpoint and is_run(checkpoint):
            own = checkpoint / AUDIT
            keep_old(own)
            write_json(own, printable_drift(row.report))
            return own
        with self._lock:
            self._unsaved.append(row)
            self._append()
        return self.out

    def flush(self) -> None:
        """Replace the journal by the table; a run that was measured twice has its last report."""
        with self._lock:
            if self._unsaved:
                self._append()
            if self._is_journal:
                journal, rows = self._journal(), self._rows()
                last = {
                    _identity(row) if row.checkpoint else place: row
                    for place, row in enumerate(rows)
                }
                if len(last) < len(rows):
                    keep_old(self.out)
                journal.finish(last.values())
                self._is_journal = False

    def _append(self) -> None:
        with contextlib.closing(self._journal()) as journal:
            self._is_journal = True
            while self._unsaved:
                journal.append(self._unsaved[0])
                del self._unsaved[0]

    def _journal(self) -> Journal:
        return Journal(self.out, self._rows, goes_on=True)

    def _rows(self) -> list[AuditRow]:
        from fa_core.audit.audit import recorded_audits  # imports NumPy

        return recorded_audits(self.out)


def _identity(row: AuditRow) -> object:
    """Key of a run: a later measurement with this key replaces an earlier one."""
    axes = str(sorted(row.axes.items()))
    return row.method, row.seed, axes, real_path(row.checkpoint or "")


class Measuring:
    """The jobs of one explorer.

    Args:
        setup: how to measure; devices and clusters are looked up with the first job.
        paths: that are open.
        on_job: called whenever a job changed, from another thread.
        on_measured: called with every finished run after it is on disk, from another thread.
        say: called with a text and its tone: the error of a failed run, a note on all runs; from
            another thread.
    """

    def __init__(
        self,
        setup: Setup,
        *,
        paths: Sequence[Path] = (),
        on_job: Callable[[], None],
        on_measured: Callable[[Measured], None],
        say: Callable[[str, str], None],
    ) -> None:
        self._setup = setup
        self._on_job, self._on_measured = on_job, on_measured
        self._say = say
        self._paths = paths
        self._results: dict[Path, Results] = {}
        self._pool: Pool | None = None
        self._rows: dict[str, tuple[int, AuditRow]] = {}
        self._names: dict[str, str] = {}
        self._paces: defaultdict[str, Pace] = defaultdict(Pace)
        self._unfinished: set[str] = set()
        self._again: dict[int, tuple[AuditRow, DiagnosticReport]] = {}

    def _pool_for(self, runs: int) -> Pool:
        """The pool, created on first use, with the command line's number of workers for so many
        runs."""
        from fa_core.audit.audit import Measuring as How  # after the first paint

        execution = self._setup.execution
        if self._pool is None:
            self._pool = How(execution, self._moved, on_notice=self._note).pool(runs)
        elif execution.engine == LOCAL:
            self._pool.make_room(workers_for(runs, execution.device, execution.jobs))
        return self._pool

    def _note(self, text: str) -> None:
        self._say(text, "dim")

    def start(
        self,
        rows: Iterable[tuple[int, AuditRow]],
        answers: Mapping[int, MeasureAnswer],
    ) -> list[str]:
        """Queue rows (index, row) that have a checkpoint; the ids of the new jobs.

        An audited run is measured with its recorded settings, for comparison.

        Args:
            rows: which.
            answers: index → the data and network that were typed for it.

        Raises:
            FaError: an audited run without its files or settings.
        """
        from fa_core.audit.verify import find_checkpoint, recorded_options  # imports NumPy

        active = self.states()
        new = [
            (index, row)
            for index, row in rows
            if row.checkpoint is not None and index not in active
        ]
        if not new:
            return []
        pool = self._pool_for(len(self._unfinished) + len(new))
        self._rows |= {str(index): (index, row) for index, row in new}
        names = disambiguate([row for _, row in self._rows.values()])
        self._names = dict(zip(self._rows, names, strict=True))
        for index, row in new:
            options = self._setup.options
            answer = answers.get(index)
            if answer is not None:
                model = answer.model or options.model
                options = replace(options, data=answer.data, model=model)
            place = Path(row.checkpoint or "")
            if row.report.coverage:
                options, place = recorded_options(row, options), find_checkpoint(row)
            there = replace(row, checkpoint=str(real_path(place)))
            self._follow(str(index), pool.submit(job_for(there, str(index), options)))
        return [str(index) for index, _ in new]

    def is_described(self, row: AuditRow) -> bool:
        """Whether the command line says what data to measure a run on, or the run's files do and
        name no code to be typed again."""
        from fa_core.audit.verify import recorded_options  # imports NumPy

        if self._setup.options.data is not None:
            return True
        if not row.report.coverage:
            return is_run(Path(row.checkpoint or ""))
        try:
            recorded_options(row, self._setup.options)
        except UsageError:
            return False
        except FaError:
            pass  # no answer mends it: `start` says so
        return True

    def where(self) -> str:
        """Where runs are measured: ``on cuda:0 (H100)``, ``on 8 CPU cores (no GPU: …)``."""
        execution = self._setup.execution
        if execution.engine != LOCAL:
            return f"on {execution.engine}"
        used = list(dict.fromkeys(resolve_devices(execution.device, execution.jobs)))
        if used != ["cpu"]:
            return f"on {', '.join(used)} ({list_devices()[used[0]]})"
        cores = count_text(usable_cores(), "CPU core")
        if why := why_no_cuda():
            return f"on {cores} ({why})"
        return f"on {cores}"

    def retry(self, job_id: str) -> None:
        """Retry a failed or cancelled job."""
        self._follow(job_id, self._pool_for(len(self._unfinished) + 1).retry(job_id))

    def cancel(self, job_id: str) -> bool:
        """Cancel a job; False if it is over."""
        return self._pool is not None and self._pool.cancel(job_id)

    def states(self) -> dict[int, str]:
        """Row → ``queued`` or ``running``."""
        return {int(job.id): job.state for job in self.listed() if not job.over}

    def listed(self) -> list[Listed]:
        """All jobs as the jobs screen shows them, started ones first, then the queue."""
        if self._pool is None:
            return []
        return [*map(self._listed, self._pool.jobs())]

    def close(self) -> None:
        """Cancel the remaining jobs and end the workers."""
        if self._pool is not None:
            self._pool.close()
            self._flush()

    def _moved(self, view: JobView) -> None:
        if view.total:
            self._paces[view.job.id].note(view.done)
        self._on_job()

    def _listed(self, view: JobView) -> Listed:
        running = view.state.value == "running"
        pace = self._paces[view.job.id]
        return Listed(
            id=view.job.id,
            name=self._names[view.job.id],
            state=view.state.value,
            device=view.device,
            done=view.done,
            total=view.total,
            left=pace.seconds_left(view.total) if running else None,
            pid=view.pid if running else 0,
            words=view.error.removeprefix(view.job.checkpoint).lstrip("/: ") or view.note,
            error=view.error,
            log=view.log,
        )

    def _follow(self, job_id: str, future: Future[DiagnosticReport]) -> None:
        self._unfinished.add(job_id)
        future.add_done_callback(partial(self._ended, job_id))

    def _ended(self, job_id: str, future: Future[DiagnosticReport]) -> None:
        self._unfinished.discard(job_id)
        self._finished(job_id, future)
        if not self._unfinished:
            self._flush()
            # together: frozen runs among them check the (d) of others
            self._compare(self._again)
            self._again = {}

    def _compare(self, pairs: Mapping[int, tuple[AuditRow, DiagnosticReport]]) -> None:
        if pairs:
            from fa_core.audit.verify import verifications  # imports NumPy

            for index, again in zip(pairs, verifications(pairs.values()), strict=True):
                self._on_measured(Measured(index, again.row, again=again))

    def _flush(self) -> None:
        with contextlib.suppress(FaError, OSError):  # finished jobs are reported after saving
            for results in [*self._results.values()]:
                results.flush()

    def _finished(self, job_id: str, future: Future[DiagnosticReport]) -> None:
        error = future.exception()
        if isinstance(error, CancelledError):
            return
        index, row = self._rows[job_id]
        if error is not None:
            why = str(error).removeprefix(str(real_path(row.checkpoint or ""))).lstrip("/: ")
            self._say(f"{self._names[job_id]}: {why}", "bad")
            return
        if is_audited(row):
            self._again[index] = replace(row, summary=None), future.result()
            self._compare({index: self._again[index]})
            return
        (row,) = with_baselines([measured(row, future.result())])
        # as its file is read again
        said = row.report.as_recorded().verdict
        report = replace(row.report, recorded_verdict=said)
        row = replace(row, report=report)
        out = results_file(row.source, self._paths)
        try:
            saved = self._results.setdefault(out, Results(out)).save(row)
            done = Measured(index, row, saved=str(saved))
        except Exception as problem:
            done = Measured(index, row, problem=str(problem) or repr(problem))
        self._on_measured(done)
