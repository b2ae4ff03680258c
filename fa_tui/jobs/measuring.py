"""Measuring from the explorer: rows become jobs, reports become rows and files. No terminal code, no torch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fa_core.errors import FaError
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow
from fa_tui.jobs.listing import Listed
from fa_tui.jobs.remaining import Pace
from fa_tui.jobs.saving import Results

if TYPE_CHECKING:
    from fa_core.engine import JobView, MeasureOptions, WorkerPool


class Measured(msgspec.Struct, frozen=True):
    """A run that has been measured.

    Attributes:
        index: the row it belongs to.
        row: the row with its report.
        saved: the file it was written to (``""`` if that failed).
        problem: why it could not be written.
    """

    index: int
    row: AuditRow
    saved: str = ""
    problem: str = ""


class Measuring:
    """The jobs of one explorer.

    Args:
        device: where to measure, e.g. ``auto``; looked up when the first job comes.
        on_job: called with a job's view on every change, from another thread.
        on_measured: called with every finished run, from another thread, after it is on disk.
        out: results file for bare checkpoints.
        options: how to measure.
        measure: ``module:callable`` that workers measure with (tests bring their own).
    """

    def __init__(
        self,
        device: str,
        *,
        on_job: Callable[[JobView], None],
        on_measured: Callable[[Measured], None],
        out: Path | None = None,
        options: MeasureOptions | None = None,
        measure: str | None = None,
    ) -> None:
        self._device, self._on_job, self._on_measured = device, on_job, on_measured
        self._options, self._measure = options, measure
        self._results = Results(out)
        self._pool: WorkerPool | None = None
        self._rows: dict[str, tuple[int, AuditRow]] = {}
        self._paces: dict[str, Pace] = {}
        self._unfinished: set[str] = set()

    @property
    def pool(self) -> WorkerPool:
        """The worker pool, made on first use."""
        if self._pool is None:
            from fa_core.engine import WorkerPool
            from fa_core.engine.devices import resolve_devices, threads_per_worker
            from fa_core.engine.watch import DEFAULT_MEASURE

            devices = resolve_devices(self._device)
            self._pool = WorkerPool(
                devices,
                self._moved,
                threads=threads_per_worker(devices),
                measure=self._measure or DEFAULT_MEASURE,
            )
        return self._pool

    def start(self, rows: Iterable[tuple[int, AuditRow]]) -> list[str]:
        """Queue rows (index, row) that have a checkpoint; the ids of the new jobs."""
        from fa_core.engine import Job, MeasureOptions

        started = []
        active = {view.job.id for view in self.jobs() if not view.state.final}
        for index, row in rows:
            job_id = str(index)
            if row.checkpoint is None or job_id in active:
                continue
            job = Job(
                id=job_id,
                checkpoint=str(Path(row.checkpoint).resolve()),
                method=row.method,
                seed=row.seed,
                axes=row.axes,
                options=self._options or MeasureOptions(),
            )
            self._rows[job_id] = (index, row)
            self._follow(job_id, self.pool.submit(job))
            started.append(job_id)
        return started

    def retry(self, job_id: str) -> None:
        """Queue a job again that failed or was cancelled."""
        self._follow(job_id, self.pool.retry(job_id))

    def cancel(self, job_id: str) -> bool:
        """Cancel a job; False if it is over."""
        return self.pool.cancel(job_id)

    def move(self, job_id: str, step: int) -> bool:
        """Put a queued job some places later in the queue; False if it stays where it is, or a worker has it."""
        queue = [view.job.id for view in self.jobs() if view.state.value == "queued" and not view.device]
        if job_id not in queue:
            return False
        place = queue.index(job_id) + step
        return 0 <= place < len(queue) and self.pool.move(job_id, place)

    def jobs(self) -> list[JobView]:
        """Every job, those that ran or run first, then the queue."""
        return [] if self._pool is None else self._pool.jobs()

    def listed(self) -> list[Listed]:
        """Every job as the jobs screen lists it, in the same order."""
        return [self._listed(view) for view in self.jobs()]

    def pids(self) -> list[int]:
        """The worker processes."""
        return [] if self._pool is None else self._pool.pids()

    def name(self, job_id: str) -> str:
        """The run a job measures, e.g. ``dfa s42``."""
        row = self._rows[job_id][1]
        return row.method if row.seed is None else f"{row.method} s{row.seed}"

    def close(self) -> None:
        """Cancel what is left and end the workers."""
        if self._pool is not None:
            self._pool.close()
            self._flush()

    def _moved(self, view: JobView) -> None:
        if view.total:
            self._paces.setdefault(view.job.id, Pace()).note(view.done)
        self._on_job(view)

    def _listed(self, view: JobView) -> Listed:
        job_id, running = view.job.id, view.state.value == "running"
        pace = self._paces.get(job_id)
        return Listed(
            id=job_id,
            name=self.name(job_id),
            state=view.state.value,
            device=view.device,
            done=view.done,
            total=view.total,
            left=pace.seconds_left(view.total) if pace is not None and running else None,
            # without the path that its line names already
            words=view.error.removeprefix(f"{view.job.checkpoint}: ") or view.note,
            error=view.error,
            log=view.log,
        )

    def _follow(self, job_id: str, future: Future[DiagnosticReport]) -> None:
        self._unfinished.add(job_id)
        future.add_done_callback(lambda done: self._ended(job_id, done))

    def _ended(self, job_id: str, future: Future[DiagnosticReport]) -> None:
        self._unfinished.discard(job_id)
        self._finished(job_id, future)
        if not self._unfinished:
            self._flush()

    def _flush(self) -> None:
        with contextlib.suppress(FaError, OSError):  # that nothing can be written was told when a run was saved
            self._results.flush()

    def _finished(self, job_id: str, future: Future[DiagnosticReport]) -> None:
        if future.cancelled() or future.exception() is not None:
            return
        index, row = self._rows[job_id]
        row = msgspec.structs.replace(row, report=future.result())
        try:
            done = Measured(index, row, saved=str(self._results.save(row)))
        except Exception as error:
            done = Measured(index, row, problem=str(error))
        self._on_measured(done)
