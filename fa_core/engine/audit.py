"""An audit: which rows can be measured, measured by workers, collected in one file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Future, as_completed
from pathlib import Path

import msgspec

from fa_core.engine.audit_file import Adjust, Ledger, check_nothing_lost, check_writable, finished_before
from fa_core.engine.devices import Placement
from fa_core.engine.job_table import OnEvent
from fa_core.engine.jobs import DEFAULT_MEASURE, Job, MeasureOptions, check_options, job_for, no_data
from fa_core.engine.pool import check_reachable, make_pool
from fa_core.engine.provenance import run_of
from fa_core.errors import FaError, UnreadableInput
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow, Problem
from fa_core.runs import is_run

OnReport = Callable[[int, DiagnosticReport], None]


class AuditResult(msgspec.Struct, frozen=True, kw_only=True):
    """What an audit came to.

    Attributes:
        rows: the measured runs, those that were skipped included, in order.
        failures: the runs that could not be measured, and why.
        skipped: how many an earlier audit had measured already.
        interrupted: whether the person stopped it.
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
        adjust: done to finished rows before they are written (thresholds, baselines that the person gave).
        on_event: told every change of a job, from another thread; a job's id is its place in `measurable(rows)`.
        on_plan: told once, before measuring: (runs to measure, runs skipped).
        on_notice: told what concerns no single run, e.g. which cluster it is.
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

    def lacks_data(row: AuditRow) -> bool:
        return options.data is None and not is_run(Path(row.checkpoint or ""))

    if all(lacks_data(row) for row in targets):
        raise no_data(str(targets[0].checkpoint))
    check_reachable(placement)
    found: dict[int, DiagnosticReport] = {}
    others: list[AuditRow] = []
    if out is not None:
        check_writable(out)
        if resume:
            found, others = finished_before(out, targets, options)
        else:
            check_nothing_lost(out, targets)
    ledger = Ledger(out, targets, adjust, others, on_notice)
    for index, report in found.items():
        ledger.put(index, report)
    failures = [Problem(str(row.checkpoint), str(no_data(str(row.checkpoint)))) for row in targets if lacks_data(row)]
    todo = [
        job_for(row, str(index), options)
        for index, row in enumerate(targets)
        if index not in found and not lacks_data(row)
    ]
    if on_plan is not None:
        on_plan(len(todo), len(found))
    interrupted = run_jobs(
        todo, ledger.put, failures, placement, on_event=on_event, on_notice=on_notice, measure=measure
    )
    try:
        ledger.write()
    except KeyboardInterrupt:
        # a large table takes seconds, and it was asked to end, not to forget
        interrupted = True
        ledger.write()
    return AuditResult(
        rows=ledger.rows(),
        failures=failures,
        skipped=len(found),
        interrupted=interrupted,
        unsaved=ledger.unsaved,
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


def run_jobs(
    todo: Sequence[Job],
    on_report: OnReport,
    failures: list[Problem],
    placement: Placement,
    *,
    on_event: OnEvent | None = None,
    on_notice: Callable[[str], None] | None = None,
    measure: str = DEFAULT_MEASURE,
) -> bool:
    """Measure jobs whose ids are numbers, and take in reports as they come.

    Args:
        todo: the jobs.
        on_report: told (id, report) of each that is done, one at a time.
        failures: the others are added here.
        placement, on_event, on_notice, measure: see `audit`.

    Returns:
        Whether the person interrupted it.

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
        with make_pool(placement, on_event, runs=len(todo), on_notice=on_notice, measure=measure) as pool:
            pool.connect()
            waited_for.update((pool.submit(job), job) for job in todo)
            for future in as_completed(list(waited_for)):
                take_in(future)
    except KeyboardInterrupt:
        # what was measured before is kept, also what nobody came to take in
        for future in [future for future in waited_for if future.done()]:
            take_in(future)
        return True
    return False
