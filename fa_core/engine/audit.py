"""An audit: which rows can be measured, measured by the workers of a placement, collected in one file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Future, as_completed
from functools import partial
from pathlib import Path

import msgspec

from fa_core.engine.audit_file import Adjust, AuditFile, check_nothing_lost, check_writable, finished_before
from fa_core.engine.devices import LOCAL, Placement, resolve_devices, threads_per_worker, workers_for
from fa_core.engine.job_table import OnEvent
from fa_core.engine.jobs import DEFAULT_MEASURE, Job, MeasureOptions, check_options, job_for, no_data, run_of
from fa_core.engine.pool import Pool, WorkerPool
from fa_core.errors import FaError, UnreadableInput
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow, Problem
from fa_core.runs import is_run

OnReport = Callable[[int, DiagnosticReport], None]


class AuditResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an audit.

    Attributes:
        rows: the measured runs, those that were skipped included, in order.
        failures: the runs that could not be measured, and why.
        skipped: how many an earlier audit had measured already.
        interrupted: whether the user stopped it.
        unsaved: why ``out`` does not hold the rows, and which file does; None = it does.
    """

    rows: list[AuditRow]
    failures: list[Problem]
    skipped: int = 0
    interrupted: bool = False
    unsaved: FaError | None = None


def audit(
    rows: Iterable[AuditRow],
    out: Path | None = None,
    options: MeasureOptions | None = None,
    *,
    placement: Placement = Placement(),  # noqa: B008 (immutable)
    resume: bool = False,
    adjust: Adjust = list,
    on_event: OnEvent | None = None,
    on_plan: Callable[[int, int], None] | None = None,
    on_notice: Callable[[str], None] | None = None,
    measure: str = DEFAULT_MEASURE,
) -> AuditResult:
    """Measure every row that has a checkpoint; what is finished is in ``out`` whatever happens to the rest.

    Args:
        rows: what `fa_core.formats.scan` found.
        out: the audit table to write, after every finished run. Where its disk fails meanwhile, measuring goes on,
            and the rows go to a file in the temporary folder.
        options: how to measure.
        placement: where to measure.
        resume: take over runs that ``out`` holds from the same files and settings; keep its other rows.
        adjust: done to finished rows before they are written (thresholds and baselines that the user gave).
        on_event: called with every change of a job, from another thread; a job's id is its place in `measurable(rows)`.
        on_plan: called once, before measuring: (runs to measure, runs skipped).
        on_notice: called with what concerns no single run, e.g. which cluster it is.
        measure: what workers run (see `WorkerPool`).

    Raises:
        UnreadableInput: nothing to measure.
        UsageError: options that cannot be meant, a device that is not there, an ``out`` that cannot be written or
            holds other runs.
        MeasureError: a cluster that does not answer.
    """
    options = options or MeasureOptions()
    check_options(options)
    targets = measurable(rows)
    if not targets:
        raise UnreadableInput(
            "nothing to measure: no checkpoint and no run folder", hint="audit files are shown by `fa-tui show`"
        )
    checkpoints = [str(row.checkpoint) for row in targets]
    without_data = {path for path in checkpoints if options.data is None and not is_run(Path(path))}
    if len(without_data) == len(targets):
        raise no_data(checkpoints[0])
    check_reachable(placement)
    found: dict[int, DiagnosticReport] = {}
    others: list[AuditRow] = []
    if out is not None:
        check_writable(out)
        if resume:
            found, others = finished_before(out, targets, options)
        else:
            check_nothing_lost(out, targets)
    file = AuditFile(out, targets, adjust, others, on_notice or (lambda text: None))
    for index, report in found.items():
        file.put(index, report)
    failures = [Problem(path, str(no_data(path))) for path in checkpoints if path in without_data]
    todo = [
        job_for(row, str(index), options)
        for index, row in enumerate(targets)
        if index not in found and row.checkpoint not in without_data
    ]
    if on_plan is not None:
        on_plan(len(todo), len(found))
    pool = partial(make_pool, placement, on_event, on_notice=on_notice, measure=measure)
    interrupted = run_jobs(todo, file.put, failures, pool)
    try:
        file.write()
    except KeyboardInterrupt:
        # a large table takes seconds, and it was asked to end, not to forget
        interrupted = True
        file.write()
    return AuditResult(
        rows=file.rows(),
        failures=failures,
        skipped=len(found),
        interrupted=interrupted,
        unsaved=file.unsaved,
    )


def measurable(rows: Iterable[AuditRow]) -> list[AuditRow]:
    """The rows that have a checkpoint, each checkpoint once, its path made absolute.

    A run folder and its weights file, or an audit file that names them, are the same checkpoint; the row that is
    the checkpoint goes before one that only names it. One that is named and not there any more is left out.
    """
    found: dict[str, AuditRow] = {}
    for row in rows:
        if row.checkpoint is None:
            continue
        path = Path(row.checkpoint).resolve()
        if row.source != row.checkpoint and not path.exists():
            continue
        path = run_of(path) or path
        known = found.get(str(path))
        if known is None or (known.source != known.checkpoint and row.source == row.checkpoint):
            found[str(path)] = msgspec.structs.replace(row, checkpoint=str(path))
    return list(found.values())


def run_jobs(todo: Sequence[Job], on_report: OnReport, failures: list[Problem], new_pool: Callable[..., Pool]) -> bool:
    """Measure jobs whose ids are numbers, and take in reports as they come.

    Args:
        todo: the jobs.
        on_report: called with (id, report) of each that is done, one at a time.
        failures: the others are added here.
        new_pool: `make_pool` but for the number of runs.

    Returns:
        Whether the user interrupted it.

    Raises:
        FaError: a device or a cluster that is not there.
    """
    if not todo:
        return False
    waited_for: dict[Future[DiagnosticReport], Job] = {}

    def take_in(future: Future[DiagnosticReport]) -> None:
        job = waited_for[future]
        try:
            report = future.result()
        except CancelledError:
            pass
        except FaError as error:
            failures.append(Problem(job.checkpoint, str(error)))
        else:
            on_report(int(job.id), report)
        del waited_for[future]

    try:
        with new_pool(runs=len(todo)) as pool:
            pool.connect()
            waited_for.update((pool.submit(job), job) for job in todo)
            for future in as_completed(list(waited_for)):
                take_in(future)
    except KeyboardInterrupt:
        # what was measured before is kept, also what was not taken in yet
        for future in [future for future in waited_for if future.done()]:
            take_in(future)
        return True
    return False


def check_reachable(placement: Placement) -> None:
    """Refuse what cannot measure, before anything starts.

    Raises:
        UsageError: what cannot be meant (see `Placement.check`).
        MeasureError: no cluster answers at the address.
    """
    placement.check()
    if placement.engine != LOCAL:
        from fa_core.engine.ray_pool import find_cluster

        find_cluster(placement.address)


def make_pool(
    placement: Placement,
    on_event: OnEvent | None = None,
    *,
    runs: int | None = None,
    on_notice: Callable[[str], None] | None = None,
    measure: str = DEFAULT_MEASURE,
) -> Pool:
    """A pool that measures jobs. Nothing starts before its first job, or `connect`.

    Args:
        placement: where it measures.
        on_event: called with every change of a job, from another thread.
        runs: how many there will be, if that is known: a CPU gets more workers for many.
        on_notice: called with what concerns no single job, e.g. which cluster it is.
        measure: what workers run (see `WorkerPool`).

    Raises:
        UsageError: what cannot be meant (see `Placement.check`).
    """
    placement.check()
    if placement.engine == LOCAL:
        device, jobs = placement.device, placement.jobs
        devices = resolve_devices(device, jobs) if runs is None else workers_for(runs, device, jobs)
        threads = threads_per_worker(devices)
        return WorkerPool(devices, on_event, threads=threads, measure=measure, group=placement.group)
    from fa_core.engine.ray_pool import RayPool

    return RayPool(placement, on_event, measure=measure, on_notice=on_notice)
