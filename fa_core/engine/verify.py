"""Recorded audits, measured again and compared number by number, with tolerances that follow from the arithmetic."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from fa_core.engine.audit import Measuring
from fa_core.engine.jobs import MeasureOptions, job_for
from fa_core.errors import FaError, UnreadableInput, UsageError
from fa_core.numbers import brief
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

NO_CHECKPOINT = "no checkpoint; only what this project measured can be verified"

_AS_RECORDED = MeasureOptions()

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
    relative = relative_tolerance(measured)
    old, new = _numbers(recorded, relative), _numbers(measured, relative)
    excesses = {name: excess(old[name][0], *new[name]) for name in old if name in new}
    now = {name: value for _, name, value, _ in _facts(measured)}
    differences = [
        Difference(kind=kind, name=name, recorded=value, measured=now.get(name), decides=decides)
        for kind, name, value, decides in _facts(recorded)
        if value is not None and value != now.get(name)
    ]
    for name in ("residual_norms", "bp_grad_norms"):
        before, after = len(getattr(recorded, name)), len(getattr(measured, name))
        if before and before != after:
            differences.append(Difference(kind="number", name=f"number of {name}", recorded=before, measured=after))
    for name, tolerance in ((name, new[name][1] or None) for name, found in excesses.items() if found > 1):
        wrong = Difference(kind="number", name=name, recorded=old[name][0], measured=new[name][0], tolerance=tolerance)
        differences.append(wrong)
    judged = replace(measured, thresholds=recorded.thresholds, recorded_verdict=recorded.recorded_verdict)
    if judged.recorded_differs:
        was = recorded.recorded_verdict
        differences.append(Difference(kind="verdict", name="verdict", recorded=was, measured=judged.verdict))
    return Comparison(
        differences=differences,
        compared=len(excesses),
        largest=max(excesses.values(), default=0.0),
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


def _numbers(report: DiagnosticReport, relative: float) -> dict[str, tuple[float, float]]:
    """Name → (value, how far rounding may move it) of every number of a report that is compared."""
    found: dict[str, tuple[Any, float]] = {}
    for name in ("residual_norms", "bp_grad_norms"):
        found |= {f"{name}[{layer}]": (norm, relative * abs(norm)) for layer, norm in enumerate(getattr(report, name))}
    # a cosine errs by at most the sum of its two vectors' relative errors; rounding errors average out in a mean of
    # gradients as its terms do
    found["error_norm"] = report.error_norm, relative * abs(report.error_norm or 0.0)
    found["cross_batch_stability"] = report.cross_batch_stability, 2 * relative
    found["headline_acc"] = report.headline_acc, 0.0
    found["frozen_baseline_acc"] = report.frozen_baseline_acc, 0.0
    for name, interval in report.intervals.items():
        # an interval's width is made of small differences, which rounding moves further than the number itself
        for end, value in zip(("low", "high"), interval, strict=True):
            size = max(abs(value), _SCALE.get(name, 0.0))
            found[f"intervals.{name}.{end}"] = value, _OF_WIDTHS * relative * size
    gamma, zeros = ((report.credit or {}).get(name) for name in ("gamma", "zeros"))
    precision = getattr(report.reference_precision, "cosine", None)
    for name, cosines in (("credit.gamma", gamma), ("reference_precision.cosine", precision)):
        for layer, cosine in enumerate(cosines if isinstance(cosines, Sequence) else ()):
            found[f"{name}[{layer}]"] = cosine, 2 * relative
    # where more than half of the credit is exactly 0, its moves (EP's in float32, say) lie below half an ulp of the
    # state, and what is left of them is its rounding, another on each machine
    for layer, share in enumerate(zeros if isinstance(zeros, Sequence) else ()):
        if isinstance(share, float) and share > 0.5:
            found.pop(f"credit.gamma[{layer}]", None)
    return {name: pair for name, pair in found.items() if isinstance(pair[0], (int, float))}


def _facts(report: DiagnosticReport) -> Iterator[tuple[str, str, Any, bool]]:
    """(kind, name, value, whether it decides) of what a measurement was made with."""
    facts = report.provenance
    # a record may hold something else under these names
    hashes, versions = (facts[name] if isinstance(facts.get(name), Mapping) else {} for name in ("hashes", "versions"))
    yield "weights", "weights hash", hashes.get("weights"), True
    yield "file", "credit hash", hashes.get("credit"), True
    yield "file", "manifest hash", hashes.get("manifest"), False
    yield "data", "data hash", facts.get("data_hash"), True
    for name in sorted(versions):
        yield "version", f"{name} version", versions[name], False
    yield "device", "device", facts.get("device"), False


def _short(value: Any) -> str:
    if isinstance(value, float):
        return brief(value, 9)
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
    how: Measuring = Measuring(),  # noqa: B008 (immutable)
    typed: MeasureOptions = _AS_RECORDED,
) -> VerifyResult:
    """Measure recorded runs again with their recorded settings, and compare.

    Args:
        rows: what `fa_core.formats.scan` found.
        how: where to measure, and who is notified.
        typed: what the user typed, see `recorded_options`.

    Raises:
        UnreadableInput: no record among the rows, or none that names a checkpoint.
        UsageError: a device that is not there.
        MeasureError: a cluster that does not answer.
    """
    records = [row for row in rows if row.report.coverage]
    if not records:
        raise UnreadableInput("nothing recorded to verify", hint="`fa-tui audit` measures and records")
    without = Counter(row.source for row in records if row.checkpoint is None)
    skipped = [
        Problem(source, f"{source}: {count} {'record names' if count == 1 else 'records name'} {NO_CHECKPOINT}")
        for source, count in without.items()
    ]
    records = [row for row in records if row.checkpoint is not None]
    if not records:
        raise UnreadableInput(skipped[0].message)
    how.check()
    prepared: list[tuple[AuditRow, MeasureOptions]] = []
    failures: list[Problem] = []
    for row in records:
        try:
            there = replace(row, checkpoint=str(find_checkpoint(row)))
            prepared.append((there, recorded_options(row, typed)))
        except FaError as error:  # noqa: PERF203 (a file is looked for)
            failures.append(Problem(row.source, str(error)))
    todo = [job_for(row, str(index), options) for index, (row, options) in enumerate(prepared)]
    reports: dict[int, DiagnosticReport] = {}
    interrupted = how.run(todo, 0, reports.__setitem__, failures)
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


def recorded_options(row: AuditRow, typed: MeasureOptions = _AS_RECORDED, *, resamples: bool = False) -> MeasureOptions:
    """The settings a run was measured with; what the user typed now goes before them.

    Of what was typed these count: the data SPEC (a recorded one may name no code), the network, which is needed where
    one was used before, and the name of the weights in a file.

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
    if options.model is not None and typed.model is None:
        what = f"was measured with the network {options.model!r}, and code named by a file is never run"
        raise UsageError(what, where=where, hint=f"type it yourself if you trust it: --model {options.model}")
    return replace(
        options,
        data=typed.data or options.data,
        data_typed=typed.data is not None,
        model=typed.model or options.model,
        weights=typed.weights or options.weights,
        batches=options.batches or report.n_batches,
        batch_size=options.batch_size or report.batch_size,
        norm_batches=report.norm_batches or options.norm_batches,
        resamples=options.resamples if resamples else 0,
    )


def verification(row: AuditRow, measured: DiagnosticReport) -> Verification:
    """A record and a new measurement of its run, compared."""
    if measured.frozen_baseline_acc is None:
        # it came from elsewhere: another run of that audit, or the user
        measured = measured.with_frozen_baseline(row.report.frozen_baseline_acc)
    return Verification(row=row, measured=measured, comparison=compare(row.report, measured))
