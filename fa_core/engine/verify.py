"""Recorded audits, measured again and compared number by number, with tolerances that follow from the arithmetic."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from fa_core.engine.audit import check_reachable, make_pool, run_jobs
from fa_core.engine.devices import Placement
from fa_core.engine.job_table import OnEvent
from fa_core.engine.jobs import DEFAULT_MEASURE, MeasureOptions, job_for
from fa_core.errors import FaError, UnreadableInput, UsageError
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow, Problem

UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""u: half the distance from 1 to the next number, per arithmetic."""

SAFETY = 8.0
"""What the non-linearities, LayerNorm's division and the norms may add to the products' rounding."""

_OF_WIDTHS = 50.0
"""How many times the tolerance of a number that of its interval's ends is."""

_SCALE = {"stability": 1.0, "acc": 1e-6, "margin_pp": 1e-6}
"""Size of an interval's ends, where they may lie near 0."""

USUAL_FAN_IN = 1024
"""Longest sum assumed where a report does not say."""

_FACTS = {"hashes": Mapping, "data_hash": str, "versions": Mapping}
"""Members of the provenance that a record is compared by, and what each must be to count as recorded."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as recorded.

    Attributes:
        kind: ``weights``, ``data``, ``number``, ``verdict``, or, merely reported, ``version``, ``device``, ``file``.
        name: which one, e.g. ``bp_grad_norms[4]``.
        recorded: its value in the record.
        measured: its value now.
        tolerance: how far apart they may be; None where they must be equal.
        decides: whether it makes the verification fail.
    """

    kind: str
    name: str
    recorded: Any
    measured: Any
    tolerance: float | None = None
    decides: bool = True

    def __str__(self) -> str:
        allowed = "" if self.tolerance is None else f" (may differ by {self.tolerance:.1e})"
        return f"{self.name}: recorded {_short(self.recorded)}, now {_short(self.measured)}{allowed}"


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """How a record and a new measurement of one run differ.

    Attributes:
        differences: everything that is not as recorded, deciding or not.
        compared: how many numbers were compared.
        largest: largest difference over its tolerance (below 1 everywhere = agreement; 0 = bit for bit).
        unrecorded: what the record does not hold, so that it could not be compared.
    """

    differences: list[Difference]
    compared: int
    largest: float
    unrecorded: list[str]

    @property
    def agrees(self) -> bool:
        return not any(difference.decides for difference in self.differences)


def compare(recorded: DiagnosticReport, measured: DiagnosticReport) -> Comparison:
    """Compare a record with a new measurement of the same run.

    Numbers may differ by what rounding can do (see `relative_tolerance`); hashes, accuracies and the verdict may
    not differ at all: an accuracy's near-ties are decided in float64, so that it is a count. Versions, device and
    the manifest's hash are reported and do not decide. Resamples are not compared: they follow from what is.
    """
    differences, largest = list(_inputs(recorded, measured)), [0.0]
    for name, old, new, tolerance in _numbers(recorded, measured):
        largest.append(excess(old, new, tolerance))
        if largest[-1] > 1:
            allowed = tolerance or None
            wrong = Difference(kind="number", name=name, recorded=old, measured=new, tolerance=allowed)
            differences.append(wrong)
    return Comparison(
        differences=[*differences, *_verdict_and_surroundings(recorded, measured)],
        compared=len(largest) - 1,
        largest=max(largest),
        unrecorded=[name for name, kind in _FACTS.items() if not isinstance(recorded.provenance.get(name), kind)],
    )


def relative_tolerance(report: DiagnosticReport) -> float:
    """How far rounding can move a norm, relative to it.

        8 · (2L + 2) · √n · u

    A product that sums n terms has a relative error of about √n·u (rounding errors of random sign); a network of
    L blocks chains 2L + 2 of them; 8 covers what is not a product.

    Source: Higham and Mary, A new approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 2019.

    >>> f"{relative_tolerance(DiagnosticReport(residual_norms=[1.0] * 5, provenance={'fan_in': 256})):.1e}"
    '7.6e-05'
    """
    blocks = max(1, len(report.residual_norms) - 1)
    fan_in = report.provenance.get("fan_in", USUAL_FAN_IN)
    # the coarsest of what ran: "float32, bfloat16 inside"
    ran = [unit for name, unit in UNIT_ROUNDOFF.items() if name in (report.dtype or "")]
    unit = max(ran, default=UNIT_ROUNDOFF["float32"])
    return float(SAFETY * (2 * blocks + 2) * math.sqrt(fan_in) * unit)


def excess(old: float, new: float, tolerance: float) -> float:
    """|old − new| over what is allowed: 0 for equal values, also NaN and NaN; ∞ where nothing is allowed."""
    if old == new or (math.isnan(old) and math.isnan(new)):
        return 0.0
    difference = abs(old - new)
    return difference / tolerance if tolerance > 0 and math.isfinite(difference) else math.inf


def _numbers(old: DiagnosticReport, new: DiagnosticReport) -> Iterator[tuple[str, float, float, float]]:
    """(name, recorded, measured, tolerance) of every number that both have."""
    relative = relative_tolerance(new)
    for name in ("residual_norms", "bp_grad_norms"):
        before, after = getattr(old, name), getattr(new, name)
        if before and len(before) != len(after):
            yield f"number of {name}", len(before), len(after), 0.0
        for layer, (a, b) in enumerate(zip(before, after, strict=False)):
            yield f"{name}[{layer}]", a, b, relative * abs(b)
    # a cosine errs by at most the sum of its two vectors' relative errors; rounding errors average out in a mean of
    # gradients as its terms do
    for name, tolerance in (
        ("error_norm", relative * abs(new.error_norm or 0.0)),
        ("cross_batch_stability", 2 * relative),
        ("headline_acc", 0.0),
        ("frozen_baseline_acc", 0.0),
    ):
        recorded, measured = getattr(old, name), getattr(new, name)
        if recorded is not None and measured is not None:
            yield name, recorded, measured, tolerance
    for name in old.intervals.keys() & new.intervals.keys():
        # an interval's width is made of small differences, which rounding moves further than the number itself
        for end, a, b in zip(("low", "high"), old.intervals[name], new.intervals[name], strict=True):
            yield f"intervals.{name}.{end}", a, b, _OF_WIDTHS * relative * max(abs(b), _SCALE.get(name, 0.0))
    for name, cosines in (
        ("credit.gamma", [(report.credit or {}).get("gamma") for report in (old, new)]),
        ("reference_precision.cosine", [getattr(r.reference_precision, "cosine", None) for r in (old, new)]),
    ):
        if not all(isinstance(found, Sequence) for found in cosines):
            continue
        lost = _lost_credit(new) if name == "credit.gamma" else ()
        for layer, pair in enumerate(zip(*cosines, strict=False)):
            if all(isinstance(cosine, (int, float)) for cosine in pair) and layer not in lost:
                yield f"{name}[{layer}]", *pair, 2 * relative


def _lost_credit(report: DiagnosticReport) -> set[int]:
    """The layers whose Γ is not compared: more than half of the credit is exactly 0, EP's moves in float32, say.

    Such moves lie below half an ulp of the state, and what is left of them is its rounding, another on each machine.
    """
    zeros = (report.credit or {}).get("zeros") or ()
    return {layer for layer, share in enumerate(zeros) if isinstance(share, float) and share > 0.5}


def _held(report: DiagnosticReport, name: str) -> Mapping[str, Any]:
    """A table of the provenance; empty where a record holds something else under its name."""
    found = report.provenance.get(name)
    return found if isinstance(found, Mapping) else {}


def _inputs(old: DiagnosticReport, new: DiagnosticReport) -> Iterator[Difference]:
    before, after = _held(old, "hashes"), _held(new, "hashes")
    for name, kind in (("weights", "weights"), ("credit", "file"), ("manifest", "file")):
        yield from _changed(kind, f"{name} hash", before.get(name), after.get(name), decides=name != "manifest")
    yield from _changed("data", "data hash", *(report.provenance.get("data_hash") for report in (old, new)))


def _verdict_and_surroundings(old: DiagnosticReport, new: DiagnosticReport) -> Iterator[Difference]:
    now = replace(new, thresholds=old.thresholds, recorded_verdict=old.recorded_verdict)
    if now.recorded_differs:
        yield Difference(kind="verdict", name="verdict", recorded=old.recorded_verdict, measured=now.verdict)
    before, after = _held(old, "versions"), _held(new, "versions")
    for name in sorted(before):
        yield from _changed("version", f"{name} version", before[name], after.get(name), decides=False)
    devices = (report.provenance.get("device") for report in (old, new))
    yield from _changed("device", "device", *devices, decides=False)


def _changed(kind: str, name: str, recorded: Any, measured: Any, *, decides: bool = True) -> Iterator[Difference]:
    """The difference, if something was recorded and is another now."""
    if recorded is not None and recorded != measured:
        yield Difference(kind=kind, name=name, recorded=recorded, measured=measured, decides=decides)


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.9g}"
    text = str(value)
    return f"{text[:19]}…" if text.startswith("sha256:") else text


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
    """The result of a verification.

    Attributes:
        runs: the runs that were measured again, in order.
        failures: records that could not be, and why.
        skipped: files with records that name no checkpoint (audits of other programs), and how many.
        interrupted: whether the user stopped it.
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
    weights: str | None = None,
    placement: Placement = Placement(),  # noqa: B008 (immutable)
    on_event: OnEvent | None = None,
    on_plan: Callable[[int, int], None] | None = None,
    on_notice: Callable[[str], None] | None = None,
    measure: str = DEFAULT_MEASURE,
) -> VerifyResult:
    """Measure recorded runs again with their recorded settings, and compare.

    Args:
        rows: what `fa_core.formats.scan` found.
        data: data SPEC that the user typed; None = the recorded one, which may name no code.
        model: ``module:callable`` that the user typed; needed where one was used before.
        weights: which mapping of tensors in a file; None = the recorded one.
        placement: where to measure.
        on_event: called with every change of a job, from another thread.
        on_plan: called once, before measuring: (runs to measure, 0).
        on_notice: called with what concerns no single run, e.g. which cluster it is.
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
    found = [_prepared(row, data, model, weights) for row in records]
    failures = [outcome for outcome in found if isinstance(outcome, Problem)]
    prepared = [outcome for outcome in found if not isinstance(outcome, Problem)]
    todo = [job_for(row, str(index), options) for index, (row, options) in enumerate(prepared)]
    if on_plan is not None:
        on_plan(len(todo), 0)
    reports: dict[int, DiagnosticReport] = {}
    pool = partial(make_pool, placement, on_event, on_notice=on_notice, measure=measure)
    interrupted = run_jobs(todo, reports.__setitem__, failures, pool)
    runs = [verification(prepared[index][0], report) for index, report in sorted(reports.items())]
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


def recorded_options(
    row: AuditRow,
    data: str | None = None,
    model: str | None = None,
    weights: str | None = None,
    *,
    resamples: bool = False,
) -> MeasureOptions:
    """The settings a run was measured with; what the user typed now goes before them.

    Resamples are left out unless they are wanted: they follow from the numbers that are compared, and from a stream
    of random numbers that another version of torch may draw differently.

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
        weights=weights or options.weights,
        batches=options.batches or report.n_batches,
        batch_size=options.batch_size or report.batch_size,
        norm_batches=report.norm_batches or options.norm_batches,
        resamples=options.resamples if resamples else 0,
    )


def _without_checkpoint(records: Iterable[AuditRow]) -> list[Problem]:
    """One line per file for its records that cannot be measured again."""
    why = "no checkpoint; only what this project measured can be verified"
    counted = Counter(row.source for row in records if row.checkpoint is None)
    return [
        Problem(source, f"{source}: {count} {'record names' if count == 1 else 'records name'} {why}")
        for source, count in counted.items()
    ]


def _prepared(row: AuditRow, *typed: str | None) -> tuple[AuditRow, MeasureOptions] | Problem:
    try:
        return replace(row, checkpoint=str(find_checkpoint(row))), recorded_options(row, *typed)
    except FaError as error:
        return Problem(row.source, str(error))


def verification(row: AuditRow, measured: DiagnosticReport) -> Verification:
    """A record and a new measurement of its run, compared."""
    if measured.frozen_baseline_acc is None:
        # it came from elsewhere: another run of that audit, or the user
        measured = measured.with_frozen_baseline(row.report.frozen_baseline_acc)
    return Verification(row=row, measured=measured, comparison=compare(row.report, measured))
