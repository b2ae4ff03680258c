"""Recorded audits, measured again and compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from fa_core.engine.audit import run_jobs
from fa_core.engine.board import OnEvent
from fa_core.engine.comparison import Comparison, compare
from fa_core.engine.jobs import MeasureOptions, job_for
from fa_core.engine.placement import Placement
from fa_core.engine.pools import check_reachable
from fa_core.engine.watch import DEFAULT_MEASURE
from fa_core.errors import FaError, UnreadableInput, UsageError
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow, Problem


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded run, measured again.

    Attributes:
        row: the record.
        measured: what came out now.
        comparison: how the two differ.
    """

    row: AuditRow
    measured: DiagnosticReport
    comparison: Comparison


class VerifyResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a verification came to.

    Attributes:
        runs: the runs that were measured again, in order.
        failures: records that could not be, and why.
        skipped: files with records that name no checkpoint (somebody else's audits), and how many.
        interrupted: whether the person stopped it.
    """

    runs: list[Verification]
    failures: list[Problem]
    skipped: list[Problem] = []
    interrupted: bool = False


def verify(
    rows: Iterable[AuditRow],
    *,
    data: str | None = None,
    model: str | None = None,
    placement: Placement = Placement(),  # noqa: B008 (immutable)
    on_event: OnEvent | None = None,
    on_plan: Callable[[int, int], None] | None = None,
    on_notice: Callable[[str], None] | None = None,
    measure: str = DEFAULT_MEASURE,
) -> VerifyResult:
    """Measure recorded runs again with their recorded settings, and compare.

    Args:
        rows: what `fa_core.formats.scan` found.
        data: data SPEC that the person typed; None = the recorded one, which may name no code.
        model: ``module:callable`` that the person typed; needed where one was used before.
        placement: where to measure.
        on_event: told every change of a job, from another thread.
        on_plan: told once, before measuring: (runs to measure, 0).
        on_notice: told what concerns no single run, e.g. which cluster it is.
        measure: what workers run.

    Raises:
        UnreadableInput: no record among the rows, or none that names a checkpoint.
        UsageError: a device that is not there.
        MeasureError: a cluster that does not answer.
    """
    records = [row for row in rows if row.report.coverage]
    if not records:
        raise UnreadableInput("nothing recorded to verify", hint="`fa-tui audit` measures and records")
    skipped = _without_checkpoint(records)
    records = [row for row in records if row.checkpoint is not None]
    if not records:
        raise UnreadableInput(skipped[0].message)
    check_reachable(placement)
    found = [_prepared(row, data, model) for row in records]
    failures = [outcome for outcome in found if isinstance(outcome, Problem)]
    prepared = [outcome for outcome in found if not isinstance(outcome, Problem)]
    todo = [job_for(row, str(index), options) for index, (row, options) in enumerate(prepared)]
    if on_plan is not None:
        on_plan(len(todo), 0)
    reports: dict[int, DiagnosticReport] = {}
    interrupted = run_jobs(
        todo, reports.__setitem__, failures, placement, on_event=on_event, on_notice=on_notice, measure=measure
    )
    runs = [_verification(prepared[index][0], report) for index, report in sorted(reports.items())]
    return VerifyResult(runs=runs, failures=failures, skipped=skipped, interrupted=interrupted)


def find_checkpoint(row: AuditRow) -> Path:
    """Where the run's files are now: as recorded, or in the same place relative to the record.

    Raises:
        UnreadableInput: it is gone.
    """
    recorded, folder = Path(row.checkpoint or ""), Path(row.source).resolve().parent
    if recorded.exists():
        return recorded.resolve()
    for start in range(1, len(recorded.parts)):
        candidate = folder.joinpath(*recorded.parts[start:])
        if candidate.exists():
            return candidate
    raise UnreadableInput(f"its checkpoint {recorded} is not there any more", where=f"{row.source}: {row.key}")


def recorded_options(row: AuditRow, data: str | None = None, model: str | None = None) -> MeasureOptions:
    """The settings a run was measured with; what the person typed now goes before them.

    Resamples are left out: they follow from the numbers that are compared, and from a stream of random numbers
    that another version of torch may draw differently.

    Raises:
        UsageError: it was measured with the user's own network, and that was not typed again.
        UnreadableInput: settings that are none.
    """
    report = row.report
    kept: Any = report.provenance.get("settings")
    where = f"{row.source}: {row.key}"
    try:
        options = msgspec.convert(kept or {}, MeasureOptions)
    except msgspec.ValidationError as error:
        raise UnreadableInput(f"its recorded settings cannot be read ({error})", where=where) from error
    if options.model is not None and model is None:
        raise UsageError(
            f"was measured with the network {options.model!r}, and code named by a file is never run",
            where=where,
            hint=f"type it yourself if you trust it: --model {options.model}",
        )
    return replace(
        options,
        data=data or options.data,
        data_typed=data is not None,
        model=model or options.model,
        batches=options.batches or report.n_batches,
        batch_size=options.batch_size or report.batch_size,
        norm_batches=report.norm_batches or options.norm_batches,
        resamples=0,
    )


def _without_checkpoint(records: Iterable[AuditRow]) -> list[Problem]:
    """One line per file for its records that nothing can be measured again for."""
    counts = Counter(row.source for row in records if row.checkpoint is None)
    return [
        Problem(
            source, f"{source}: {count} {_plural(count)} no checkpoint; only what this project measured can be verified"
        )
        for source, count in counts.items()
    ]


def _plural(count: int) -> str:
    return "record names" if count == 1 else "records name"


def _prepared(row: AuditRow, data: str | None, model: str | None) -> tuple[AuditRow, MeasureOptions] | Problem:
    try:
        return replace(row, checkpoint=str(find_checkpoint(row))), recorded_options(row, data, model)
    except FaError as error:
        return Problem(row.source, str(error))


def _verification(row: AuditRow, measured: DiagnosticReport) -> Verification:
    if measured.frozen_baseline_acc is None:
        # it came from elsewhere: another run of that audit, or the person
        measured = measured.with_frozen_baseline(row.report.frozen_baseline_acc)
    return Verification(row=row, measured=measured, comparison=compare(row.report, measured))
