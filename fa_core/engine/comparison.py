"""Two measurements of one run, number by number, with tolerances that follow from the arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from fa_core.report import DiagnosticReport

UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""u: half the distance from 1 to the next number, per arithmetic."""

SAFETY = 8.0
"""What the non-linearities, LayerNorm's division and the norms may add to the products' rounding."""

USUAL_FAN_IN = 1024
"""Longest sum assumed where a report does not say."""

_FACTS = {"hashes": Mapping, "data_hash": str, "versions": Mapping}
"""Members of the provenance that a record is compared by, and what each must be to count as recorded."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as recorded.

    Attributes:
        kind: ``weights``, ``data``, ``number``, ``verdict``, or the merely told ``version``, ``device``, ``file``.
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
    """The outcome for one run.

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
    the manifest's hash are told and do not decide. Resamples are not compared: they follow from what is.
    """
    numbers = list(_numbers(recorded, measured))
    wrong = [
        Difference(kind="number", name=name, recorded=old, measured=new, tolerance=tolerance or None)
        for name, old, new, tolerance in numbers
        if excess(old, new, tolerance) > 1
    ]
    return Comparison(
        differences=[*_inputs(recorded, measured), *wrong, *_verdict(recorded, measured), *_told(recorded, measured)],
        compared=len(numbers),
        largest=max((excess(old, new, tolerance) for _, old, new, tolerance in numbers), default=0.0),
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
    unit = UNIT_ROUNDOFF.get(report.dtype or "float32", UNIT_ROUNDOFF["float32"])
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
    if old.error_norm is not None and new.error_norm is not None:
        yield "error_norm", old.error_norm, new.error_norm, relative * abs(new.error_norm)
    if old.cross_batch_stability is not None and new.cross_batch_stability is not None:
        # the mean of B gradients is up to √B times smaller than they are, and keeps their absolute error
        cancelled = 2 * relative * math.sqrt(new.batch_size or 1)
        yield "cross_batch_stability", old.cross_batch_stability, new.cross_batch_stability, cancelled
    for name in ("headline_acc", "frozen_baseline_acc"):
        a, b = getattr(old, name), getattr(new, name)
        if a is not None and b is not None:
            yield name, a, b, 0.0
    yield from _cosines(old, new, relative)


def _cosines(
    old: DiagnosticReport, new: DiagnosticReport, relative: float
) -> Iterator[tuple[str, float, float, float]]:
    """Γ and the reference's cosine per layer: a cosine errs by at most the sum of its two vectors' relative errors."""
    for name, before, after in (
        ("credit.gamma", *((report.credit or {}).get("gamma") for report in (old, new))),
        ("reference_precision.cosine", *(getattr(r.reference_precision, "cosine", None) for r in (old, new))),
    ):
        if not (isinstance(before, Sequence) and isinstance(after, Sequence)):
            continue
        for layer, (a, b) in enumerate(zip(before, after, strict=False)):
            if isinstance(a, (int, float)) and isinstance(b, (int, float)):
                yield f"{name}[{layer}]", a, b, 2 * relative


def _held(report: DiagnosticReport, name: str) -> Mapping[str, Any]:
    """A table of the provenance; empty where a record holds something else under its name."""
    found = report.provenance.get(name)
    return found if isinstance(found, Mapping) else {}


def _inputs(old: DiagnosticReport, new: DiagnosticReport) -> Iterator[Difference]:
    before, after = _held(old, "hashes"), _held(new, "hashes")
    for name in ("weights", "credit", "manifest"):
        if name in before and before[name] != after.get(name):
            yield Difference(
                kind=name if name == "weights" else "file",
                name=f"{name} hash",
                recorded=before[name],
                measured=after.get(name),
                decides=name != "manifest",
            )
    a, b = old.provenance.get("data_hash"), new.provenance.get("data_hash")
    if a is not None and a != b:
        yield Difference(kind="data", name="data hash", recorded=a, measured=b)


def _verdict(old: DiagnosticReport, new: DiagnosticReport) -> Iterator[Difference]:
    now = replace(new, thresholds=old.thresholds, recorded_verdict=old.recorded_verdict)
    if now.recorded_differs:
        yield Difference(kind="verdict", name="verdict", recorded=old.recorded_verdict, measured=now.verdict)


def _told(old: DiagnosticReport, new: DiagnosticReport) -> Iterator[Difference]:
    before, after = _held(old, "versions"), _held(new, "versions")
    for name in sorted(before):
        if before[name] != after.get(name):
            yield Difference(
                kind="version", name=f"{name} version", recorded=before[name], measured=after.get(name), decides=False
            )
    a, b = old.provenance.get("device"), new.provenance.get("device")
    if a is not None and a != b:
        yield Difference(kind="device", name="device", recorded=a, measured=b, decides=False)


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.9g}"
    text = str(value)
    return f"{text[:19]}…" if text.startswith("sha256:") else text
