"""Verification of recorded audits: measured again with their settings, and compared."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from fa_core.analysis.record_comparison import Comparison, compare
from fa_core.audit.audit import Measuring
from fa_core.audit.jobs import CREDITS, Job, MeasureOptions, job_for
from fa_core.errors import FaError, UnreadableInput, UsageError
from fa_core.files.opening import LONGEST_NAME, is_file, is_folder, real_path
from fa_core.formats import scan
from fa_core.formats.audit_table import stored_report, summary_row
from fa_core.formats.checkpoint_file import run_of
from fa_core.formats.frozen_runs import judges_of, measured_at_hand, with_measured_baselines
from fa_core.formats.rows import AuditRow, Problem
from fa_core.option_values import DATA_SETS, is_callable_name
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.gamma import null_draws
from fa_core.report.manifest import is_run, read_manifest
from fa_core.report.names import control_of
from fa_core.report.numbers import count_text

DRAWS_AT_MOST = 200
"""Draws of a recorded null that are repeated; a limit, so that no file decides the run time."""

CODE = {
    "model": "network",
    "logits": "place of the logits",
    "loss": "loss",
    "credit": "credit",
    "data": "data set",
}
"""Options that may name code → what they name."""

NO_CHECKPOINT = "no checkpoint; only what this project measured can be verified"

_UNVERIFIED = "its accuracy is not measured again"

_AS_RECORDED = MeasureOptions()


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded run, measured again.

    Attributes:
        row: the record.
        comparison: its differences from a new measurement.
    """

    row: AuditRow
    comparison: Comparison


class VerifyResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a verification.

    Attributes:
        runs: the verified runs, in order.
        failures: records that could not be measured, with their errors.
        skipped: notes on files whose records name no checkpoint, e.g. those of other programs.
        interrupted: whether the user stopped it.
    """

    runs: list[Verification]
    failures: list[Problem]
    skipped: list[Problem]
    interrupted: bool


def verify(
    rows: Iterable[AuditRow],
    how: Measuring = Measuring(),  # noqa: B008 (immutable)
    typed: MeasureOptions = _AS_RECORDED,
) -> VerifyResult:
    """Measure recorded runs again with their recorded settings and compare.

    Args:
        rows: what `fa_core.formats.scan` found, as recorded.
        how: execution and listeners.
        typed: options of the command, see `recorded_options`.

    Raises:
        UnreadableInput: no record among the rows, or none that names a checkpoint.
        UsageError: an unknown device.
        MeasureError: a cluster that does not answer.
    """
    # a line of the summary may say more than its record
    records = [
        row
        for row in rows
        if not says_nothing(row.report) or row.summary not in (None, summary_row(row))
    ]
    if not records:
        raise UnreadableInput(
            "nothing recorded to verify", hint="`fa-tui audit` measures and records"
        )
    counts = Counter(row.source for row in records if row.checkpoint is None)
    skipped = [
        Problem(source, f"{source}: {count_text(count, 'record')} with {NO_CHECKPOINT}")
        for source, count in counts.items()
    ]
    records = [row for row in records if row.checkpoint is not None]
    if not records:
        raise UnreadableInput(skipped[0].message)
    records += frozen_beside(records)
    how.check()
    jobs: list[tuple[AuditRow, Job]] = []
    failures: list[Problem] = []
    for row in records:
        try:
            place = str(find_checkpoint(row))
            job = job_for(replace(row, checkpoint=place), "", recorded_options(row, typed))
            jobs.append((row, job))
        except FaError as error:  # noqa: PERF203 (a file is looked for)
            failures.append(Problem(_place_of(row), str(error)))
    # what is recorded several times is measured once
    numbers = {repr(job): number for number, (_, job) in enumerate(jobs)}
    todo = [replace(jobs[number][1], id=str(number)) for number in numbers.values()]
    reports: dict[int, DiagnosticReport] = {}
    interrupted = how.run(todo, 0, reports.__setitem__, failures)
    pairs = [(row, report) for row, job in jobs if (report := reports.get(numbers[repr(job)]))]
    return VerifyResult(
        runs=verifications(pairs), failures=failures, skipped=skipped, interrupted=interrupted
    )


def says_nothing(report: DiagnosticReport) -> bool:
    """Whether a report has names and reasons only: no number, and no verdict.

    >>> says_nothing(DiagnosticReport(seed=1)), says_nothing(DiagnosticReport(headline_acc=0.9))
    (True, False)
    """
    return report == DiagnosticReport(**{name: getattr(report, name) for name in _NO_NUMBERS})


_NO_NUMBERS = ("method_name", "seed", "axes", "notes", "thresholds", "unmeasured", "provenance")


def frozen_beside(rows: Sequence[AuditRow]) -> list[AuditRow]:
    """The records of the frozen runs beside recorded runs that fit these by the rule that judges
    them, and are not among them: (d) is checked where all of them are measured again. A baseline
    given by hand is judged by none."""
    bare = [
        replace(row, report=replace(row.report, frozen_baseline_acc=None))
        for row in rows
        if "d" not in row.report.kinds
    ]
    judges = [row for row in judges_of(bare, measured_at_hand(bare)) if row not in bare]
    found = scan([row.source for row in judges if is_run(Path(row.source))]).rows
    return [row for row in found if not says_nothing(row.report)]


def find_checkpoint(row: AuditRow) -> Path:
    """The run's files, without links.

    Raises:
        UnreadableInput: the path is missing, or neither a file nor a folder.
    """
    place = (row.checkpoint or "")[:LONGEST_NAME]
    if is_file(place) or is_folder(place):
        return real_path(place)
    raise UnreadableInput(f"its checkpoint {place} is not there any more", where=_place_of(row))


def _place_of(row: AuditRow) -> str:
    return f"{row.source}: {row.key}"


def recorded_options(row: AuditRow, typed: MeasureOptions = _AS_RECORDED) -> MeasureOptions:
    """The settings a run was measured with, overridden by typed options.

    These options override: the network, which is required if one was recorded, as are data, a
        loss, a credit or a place of the logits that name code, and the name of the weights in a
        file. A report without settings is measured with its own K and B.

    Raises:
        UsageError: the user's own code was recorded, and is not typed again.
        UnreadableInput: invalid settings.
    """
    report = row.report
    kept = report.provenance.get("settings")
    usual = {"batches": report.n_batches, "batch_size": report.batch_size}
    try:
        options = msgspec.convert(kept or usual, MeasureOptions)
    except msgspec.ValidationError as error:
        raise UnreadableInput(
            f"its recorded settings cannot be read ({error})", where=_place_of(row)
        ) from error
    untyped = {
        name: text
        for name in CODE
        if (text := getattr(options, name)) is not None
        and _code(typed, name) is None
        and (name == "model" or is_callable_name(text))
        and not (name == "data" and text.partition(":")[0] in DATA_SETS)
    }
    if untyped:
        name, text = next(iter(untyped.items()))
        what = (
            f"the {CODE[name]} {text!r} is the user's code, and code named by a file is never run"
        )
        wanted = " ".join(f"--{name} {shlex.quote(text)}" for name, text in untyped.items())
        raise UsageError(
            what, where=_place_of(row), hint=f"type it yourself if you trust it: {wanted}"
        )
    # as many draws as recorded: fewer draws are a prefix of more
    draws = null_draws(report.credit)
    return replace(
        options,
        data_typed=typed.data is not None,
        **{name: _code(typed, name) or getattr(options, name) for name in CODE},
        weights=typed.weights or options.weights,
        norm_batches=report.norm_batches or options.norm_batches,
        null_draws=draws if 0 < draws <= DRAWS_AT_MOST else None,
    )


def _code(typed: MeasureOptions, name: str) -> str | None:
    """What was typed of an option that may name code; a level of credit names none."""
    value: str | None = getattr(typed, name)
    if value in CREDITS:
        return None
    return value


def verifications(pairs: Iterable[tuple[AuditRow, DiagnosticReport]]) -> list[Verification]:
    """Compare records with new measurements, which supply the frozen baselines.

    Args:
        pairs: records and their new measurements.
    """
    found = []
    for row, measured in _with_baselines(pairs):
        own = {} if row.summary is None else summary_row(row)
        name = stored_report(row).method_name
        record = replace(row.report, method_name=name, axes=row.axes)
        named = _named(row.checkpoint, record, measured)
        comparison = compare(record, named, (row.summary, own))
        found.append(Verification(row=row, comparison=comparison))
    return found


def _with_baselines(
    pairs: Iterable[tuple[AuditRow, DiagnosticReport]],
) -> Iterator[tuple[AuditRow, DiagnosticReport]]:
    """The pairs with (d) by the frozen runs that were measured here, since an accuracy in a file
    proves nothing: those at hand that were not judge none."""
    found = list(pairs)
    # a measurement is called as its job, by the record's key
    rows = [
        replace(row, report=replace(measured, method_name=row.report.method_name))
        for row, measured in found
    ]
    judged = with_measured_baselines(rows, measured_at_hand(rows, _UNVERIFIED))
    for (row, measured), other in zip(found, judged, strict=True):
        # a baseline that was given by hand is judged by none
        yield row, measured if "d" in row.report.kinds else other.report


def _named(
    checkpoint: str | None, record: DiagnosticReport, measured: DiagnosticReport
) -> DiagnosticReport:
    """The measurement with the names in its run's manifest, or without names; an axis that the
    record names is what its recipe or network has."""
    run = run_of(Path(checkpoint or ""))
    if run is None or not is_run(run):
        return replace(measured, method_name="", seed=None, axes={})
    manifest = read_manifest(run)
    method, known = control_of(manifest.method)
    same = method == control_of(record.method_name)[0]
    name = record.method_name if same else manifest.method
    known = {**known, "arch": manifest.arch, "data": manifest.data}
    known |= manifest.recipe | manifest.method_args | manifest.arch_args | manifest.axes
    axes = {axis: known.get(axis) for axis in {**manifest.axes, **record.axes}}
    return replace(measured, method_name=name, seed=manifest.seed, axes=axes)
