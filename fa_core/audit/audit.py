"""Audits: measure the rows that have a checkpoint, and collect their reports in a table.

The table is written as runs finish, and resumed from; baselines come out of the audit itself.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, as_completed
from functools import cache
from itertools import chain
from pathlib import Path
from subprocess import DEVNULL, PIPE

import msgspec
from msgspec.structs import replace

from fa_core.audit.devices import (
    LOCAL,
    Execution,
    answering_cluster,
    idle_gpu,
    workers_for,
)
from fa_core.audit.jobs import (
    Job,
    JobState,
    JobView,
    MeasureOptions,
    OnNote,
    check_options,
    ignore,
    job_for,
    no_data,
)
from fa_core.audit.pool import OnEvent, Pool
from fa_core.errors import FaError, UnreadableInput, UsageError
from fa_core.files.atomic import keep_old, prepared
from fa_core.files.children import start_python
from fa_core.files.decode import Json, without
from fa_core.files.opening import exists, read_file, real_path
from fa_core.formats import scan
from fa_core.formats.audit_table import JOURNAL, Journal
from fa_core.formats.checkpoint_file import hashes_now, run_of, stamp
from fa_core.formats.frozen_runs import with_baselines
from fa_core.formats.rows import AuditRow, Problem, measured
from fa_core.formats.run_folder import ProgressFiles, sniff
from fa_core.option_values import is_drawn
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.manifest import is_run
from fa_core.report.numbers import count_text
from fa_core.report.provenance import BASELINE_FROM, BASELINE_RULE, OTHER_BASELINES

Adjust = Callable[[Iterable[AuditRow]], list[AuditRow]]
"""Applies the user's thresholds and baselines to finished rows before they are written."""


OnReport = Callable[[int, DiagnosticReport], None]


class AuditResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an audit.

    Attributes:
        rows: the measured runs, including the skipped ones, in order.
        failures: the runs that could not be measured, with their errors.
        interrupted: whether the user stopped it.
    """

    rows: list[AuditRow]
    failures: list[Problem]
    interrupted: bool


class Measuring(msgspec.Struct, frozen=True):
    """Execution and listeners of measurements.

    Attributes:
        execution: engine, devices and number of workers.
        on_event: called from another thread with every change of a job.
        on_plan: called once, before measuring: (runs to measure, runs skipped).
        on_notice: called with notes on the whole audit: the cluster, a GPU that is not used.
    """

    execution: Execution = Execution()
    on_event: OnEvent = ignore
    on_plan: Callable[[int, int], None] = ignore
    on_notice: OnNote = ignore

    def check(self) -> None:
        """Check the execution before anything starts.

        Raises:
            UsageError: what cannot be meant (see `Execution.check`).
            MeasureError: no cluster answers at the address.
        """
        self.execution.check()
        if self.execution.engine != LOCAL:
            answering_cluster(self.execution.address)

    def pool(self, runs: int) -> Pool:
        """A new pool. Its workers start with the first job.

        Args:
            runs: expected number of jobs: a CPU gets more workers for many.

        Raises:
            UsageError: devices that are not there (see `workers_for`).
        """
        execution = self.execution
        if execution.engine != LOCAL:
            from fa_core.audit.cluster import ClusterPool

            return ClusterPool(execution, self.on_event, on_notice=self.on_notice)
        devices = workers_for(runs, execution.device, execution.jobs)
        if idle := idle_gpu(devices):
            self.on_notice(idle)
        return Pool(devices, self.on_event, on_notice=self.on_notice)

    def _noting(self, files: ProgressFiles) -> Measuring:
        """The same, with progress files in the run folders that are measured."""

        def on_event(view: JobView) -> None:
            _note_progress(files, view)
            self.on_event(view)

        return replace(self, on_event=on_event)

    def run(
        self, todo: Sequence[Job], skipped: int, on_report: OnReport, failures: list[Problem]
    ) -> bool:
        """Measure jobs, whose ids are numbers, and pass on their reports as they arrive.

        Args:
            todo: the jobs.
            skipped: number of jobs left out.
            on_report: called with (id, report) of each finished job, one at a time.
            failures: failed jobs are added to it.

        Returns:
            Whether the user interrupted it.

        Raises:
            FaError: a device or a cluster that is not there.
        """
        self.on_plan(len(todo), skipped)
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
            if todo:
                with ProgressFiles() as files, self._noting(files).pool(len(todo)) as pool:
                    waited_for.update((pool.submit(job), job) for job in todo)
                    for future in as_completed(list(waited_for)):
                        take_in(future)
        except KeyboardInterrupt:
            # keep finished reports that have not been passed on yet
            for future in list(filter(Future.done, waited_for)):
                take_in(future)
            return True
        return False


def _note_progress(files: ProgressFiles, view: JobView) -> None:
    """Keep the progress file of a run folder while its job runs."""
    folder = Path(view.job.checkpoint)
    if view.state is JobState.RUNNING:
        if folder in files:
            files.update(folder, view.done, view.total)
        elif sniff(folder):
            files.begin(folder, "measuring")
    else:
        files.end(folder)


def audit(
    rows: Iterable[AuditRow],
    out: Path,
    options: MeasureOptions = MeasureOptions(),  # noqa: B008 (immutable)
    how: Measuring = Measuring(),  # noqa: B008 (immutable)
    *,
    resume: bool = False,
    replace_old: bool = False,
    adjust: Adjust = list,
) -> AuditResult:
    """Measure every row that has a checkpoint; finished runs are in ``out`` whatever happens to the
    rest.

    Args:
        rows: what `fa_core.formats.scan` found.
        out: the audit table to write; a journal of the finished runs until the end.
        options: how to measure.
        how: execution and listeners; a job's id is its index in `measurable(rows)`.
        resume: reuse the runs in ``out`` that have the same files and settings; keep its other
            rows.
        replace_old: measure everything again; the old file is kept under a numbered name.
        adjust: applied to finished rows before they are written.

    Raises:
        UnreadableInput: nothing to measure.
        UsageError: invalid options, an unknown device, or an ``out`` that cannot be written, is
            locked by another process, or holds runs without `resume` or `replace_old`.
        MeasureError: a cluster that does not answer.
        FaError: the disk of ``out`` fails, which ends the audit; the runs before are in it.
    """
    check_options(options)
    targets = measurable(rows)
    if not targets:
        raise UnreadableInput(
            "nothing to measure: no checkpoint and no run folder",
            hint="audit files are shown by `fa-tui show`",
        )
    checkpoints = [str(row.checkpoint) for row in targets]
    without_data = {path for path in checkpoints if options.data is None and not is_run(Path(path))}
    if len(without_data) == len(targets):
        raise no_data(checkpoints[0])
    how.check()
    recorded = _recorded_in(out, may_be_there=resume or replace_old)
    found: dict[int, DiagnosticReport] = {}
    others: list[AuditRow] = []
    if recorded and not replace_old:
        found, others = finished_before(recorded, targets, options)
    if len(found) + len(others) < len(recorded):
        how.on_notice(f"{out}: what it holds and is measured again stays in {keep_old(out)}")
    file = AuditFile(out, targets, adjust, others, found)
    failures = [Problem(path, str(no_data(path))) for path in checkpoints if path in without_data]
    todo = [
        job_for(row, str(index), options)
        for index, row in enumerate(targets)
        if index not in found and row.checkpoint not in without_data
    ]
    try:
        interrupted = how.run(todo, len(found), file.put, failures)
    finally:
        try:
            file.write()
        except KeyboardInterrupt:
            # a large table takes seconds, and an interrupted audit must keep it
            interrupted = True
            file.write()
    return AuditResult(rows=file.rows(), failures=failures, interrupted=interrupted)


def _recorded_in(out: Path, may_be_there: bool) -> list[AuditRow]:
    """The rows of an audit's file, refused unless there may be some; checked before hours of
    measuring.

    Raises:
        UsageError: a folder, a device, a link, a place that cannot be written to, a file that is
            no audit table, which must not be overwritten, or one that may not be there.
    """
    if out.suffix == ".csv":
        raise UsageError("an audit is written as JSON", where=out, hint="end its name in .json")
    recorded = recorded_audits(prepared(out))
    if recorded and not may_be_there:
        raise UsageError(
            f"holds {count_text(len(recorded), 'measured run')} already",
            where=out,
            hint="add --resume to go on from there, or --replace, which keeps it by another name",
        )
    return recorded


def measurable(rows: Iterable[AuditRow]) -> list[AuditRow]:
    """The rows that have a checkpoint, each checkpoint once, with absolute paths.

    A run folder, its weights file and an audit file that names them are the same checkpoint; the
    row of the checkpoint itself is preferred. A checkpoint that no longer exists is left out.
    """
    found: dict[str, AuditRow] = {}
    for row in rows:
        if row.checkpoint is None:
            continue
        path = real_path(row.checkpoint)
        is_itself = row.source == row.checkpoint
        if not (is_itself or exists(path)):
            continue
        path = run_of(path) or path
        known = found.get(str(path))
        if known is None or (is_itself and known.source != known.checkpoint):
            found[str(path)] = replace(row, checkpoint=str(path))
    return list(found.values())


class AuditFile:
    """Collects the measured runs of an audit in a file: a journal, and the table at the end.

    Args:
        out: the file.
        order: the rows to measure, in the order of the table.
        adjust: see `Adjust`.
        before: rows that precede them in the file.
        found: index → report of the rows that were measured before.

    Raises:
        UsageError: another process writes the file.
        FaError: it cannot be written.
    """

    def __init__(
        self,
        out: Path,
        order: Sequence[AuditRow],
        adjust: Adjust = list,
        before: Iterable[AuditRow] = (),
        found: Mapping[int, DiagnosticReport] = {},
    ) -> None:
        self._order = list(order)
        self._adjust = adjust
        self._before = list(before)
        self._reports: dict[int, DiagnosticReport] = dict(found)
        self._journal = Journal(out, lambda: [*self._before, *self.rows()])

    def put(self, index: int, report: DiagnosticReport) -> None:
        """Append a row's report to the file."""
        row = measured(self._order[index], report)
        self._reports[index] = row.report
        self._journal.append(*self._adjust([row]))

    def write(self) -> None:
        """Replace the journal by the table."""
        self._journal.finish([*self._before, *self.rows()])

    def rows(self) -> list[AuditRow]:
        """The finished rows, in order, with their baselines."""
        finished = [
            replace(self._order[index], report=report)
            for index, report in sorted(self._reports.items())
        ]
        return list(self._adjust(with_baselines(finished)))


def finished_before(
    recorded: Iterable[AuditRow], rows: Sequence[AuditRow], options: MeasureOptions
) -> tuple[dict[int, DiagnosticReport], list[AuditRow]]:
    """The recorded reports that can be reused.

    A record is reused if method, seed, the bytes of every file, the settings and the hash of the
    data are the same; among several, the one with the same paths.

    Args:
        recorded: the rows of the earlier audit.
        rows: the rows to be measured.
        options: the settings to measure with.

    Returns:
        Row index → its report, and the other recorded rows.
    """
    left: defaultdict[str, list[AuditRow]] = defaultdict(list)
    for row in recorded:
        row = replace(row, report=_as_measured(row.report))
        hashes = row.report.provenance.get("hashes")
        left[_identity(row, _settings(row), hashes)].append(row)
    found: dict[int, DiagnosticReport] = {}
    _data_hash.cache_clear()
    for index, row in enumerate(rows):
        path = Path(row.checkpoint or "")
        alike = left[_identity(row, options, hashes_now(path, str(stamp(path, 3))))]
        alike.sort(key=lambda old: old.checkpoint == row.checkpoint)
        if alike and _is_on_same_data(alike[-1].report.provenance, options):
            report = alike.pop().report
            facts = {**report.provenance, "checkpoint": row.checkpoint}
            found[index] = replace(report, provenance=facts)
    again = {row.checkpoint for index, row in enumerate(rows) if index not in found}
    others = chain.from_iterable(left.values())
    return found, [row for row in others if row.checkpoint not in again]


def _is_on_same_data(facts: Json, options: MeasureOptions) -> bool:
    """Whether the data have the hash that a record has of them; those that are drawn do."""
    spec = str(facts.get("data"))
    typed = ["typed"] * (options.data_typed and options.data == spec)
    return is_drawn(spec) or _data_hash(spec, *typed) == [facts.get("data_hash")]


@cache
def _data_hash(*spec: str) -> list[str]:
    """The last word that a `data_probe` prints, whose torch and memory are not this process's."""
    probe = "fa_core.audit.data_probe"
    with start_python(probe, *spec, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL) as child:
        printed, _ = child.communicate()
    return printed.decode(errors="replace").split()[-1:]


def _settings(row: AuditRow) -> MeasureOptions | None:
    """The settings a row was measured with; settings that older versions lack have their
    defaults."""
    try:
        return msgspec.convert(row.report.provenance.get("settings"), MeasureOptions)
    except msgspec.ValidationError:
        return None


def recorded_audits(out: Path) -> list[AuditRow]:
    """The rows of an existing audit table or journal; none if the file is missing or empty.

    Raises:
        UsageError: it is another kind of file, which must not be overwritten.
    """
    if not exists(out) or not out.stat().st_size:
        return []
    why = ""
    try:
        found = scan([out])
        # what was read of a file that holds more would take the place of all of it
        more = found.traces or found.problems or not all(row.report.coverage for row in found.rows)
        if (found.rows and not more) or read_file(out).startswith(JOURNAL):
            return found.rows
    except UnreadableInput as error:
        why = f" ({error.what})"
    raise UsageError(
        f"is there already and is no audit table{why}", where=out, hint="choose another --out"
    )


def _as_measured(report: DiagnosticReport) -> DiagnosticReport:
    """The report as measured, without the baseline and the recorded verdict added later."""
    report = replace(report, recorded_verdict=None)
    if BASELINE_FROM not in report.provenance:
        return report
    facts = without(report.provenance, BASELINE_FROM, BASELINE_RULE, OTHER_BASELINES)
    return replace(report, provenance=facts, frozen_baseline_acc=None)


def _identity(row: AuditRow, settings: MeasureOptions | None, hashes: object) -> str:
    return json.dumps(
        [row.method, row.seed, row.axes, msgspec.to_builtins(settings), hashes], sort_keys=True
    )
