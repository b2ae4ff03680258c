"""Comparison of a recorded report with a new measurement, value by value. Pure Python.

Every value of the two reports has a name, such as ``credit.gamma[2]``. All must be equal unless
`_ALLOWED` has a tolerance; exceptions are the tables `_OUTSIDE` and `_TOLD` and the reasons of
`_excuse`. New fields of the report are compared without a change here.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from fa_core.decode import Json
from fa_core.facts.provenance import BASELINE_FROM, BASELINE_RULE, GIVEN, OTHER_BASELINES
from fa_core.facts.report_facts import WHAT_IF
from fa_core.numbers import brief, is_number
from fa_core.report import DiagnosticReport

UNIT_ROUNDOFF = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
}
"""Unit roundoff u per arithmetic: half the distance from 1 to the next number."""

SAFETY = 8.0
"""Factor for the rounding of non-linearities, LayerNorm's division and norms, besides products."""

USUAL_FAN_IN = 1024
"""Assumed longest sum of reports without one."""

LOST = 0.5
"""Share of zeros above which a layer's credit counts as lost to underflow."""

Value: TypeAlias = "str | float | bool"

_GONE = (
    *("credit.rho_relative", "credit.rho_finite", "credit.deep_rho_finite"),
    *("credit.nudge_relative", "credit.update", "credit.orientation"),
    "provenance.settings.resamples",
)

_OUTSIDE = {
    "notes": "free text",
    "provenance.checkpoint": "where the files were; their hashes are compared",
    "provenance.files": "sizes and times of files; their hashes are compared",
    "provenance.settings.data_typed": "whether a person typed the data SPEC",
    **dict.fromkeys(_GONE, "measured by earlier versions alone"),
}
"""Values that are not measured, with the reason."""

_NAMES = ("method_name", "seed", "axes")
"""Compared with the manifest; not compared for a checkpoint without one."""

_CIRCUMSTANCES = (
    *("versions", "device", "device_label", "processor", "instructions", "threads", "idle_gpu"),
    *("node", "group", "data", "settings.data", "hashes.manifest", BASELINE_FROM),
)
_TOLD = (
    *("thresholds", "unmeasured", "credit.missing"),
    *(f"provenance.{name}" for name in _CIRCUMSTANCES),
)
"""Values whose difference is printed but does not fail: circumstances, choices and wording."""

_NEEDED = ("provenance.hashes", "provenance.data_hash")
"""Keys of provenance that a record must have."""

_BASELINE = (
    *("frozen_baseline_acc", "intervals.margin_pp"),
    *(f"provenance.{name}" for name in (BASELINE_FROM, BASELINE_RULE, OTHER_BASELINES)),
)
"""Values from another run or the user."""

_FORMULAS = (
    *("intervals", "credit.null"),
    *("credit.gamma_of_batch_means", "credit.gamma_concatenated"),
)
"""Values that depend on ``versions.formulas``."""

_DRAWN = ("credit.null", "credit.rho", "credit.deep_rho")
"""Values that depend on random numbers, which may change with the version of torch."""

_BESIDE = ("reference_precision", "block_norms", "mean_error")
"""Values that depend on ``versions.beside``."""

_ALLOWED: tuple[tuple[str, float, float], ...] = (
    # an accuracy is a count, with near-ties decided in float64
    ("headline_acc", 0.0, 0.0),
    ("frozen_baseline_acc", 0.0, 0.0),
    (f"provenance.{OTHER_BASELINES}", 0.0, 0.0),
    ("residual_norms", 1.0, 0.0),
    ("bp_grad_norms", 1.0, 0.0),
    ("error_norm", 1.0, 0.0),
    # a cosine errs by at most the sum of its two vectors' relative errors
    ("cross_batch_stability", 2.0, 1.0),
    ("mean_error", 2.0, 1.0),
    ("reference_precision.norm_ratio", 2.0, 0.0),
    ("reference_precision", 2.0, 1.0),
    ("depth_ablation", 0.0, 0.0),
    ("credit.nudge", 50.0, 0.0),
    ("credit.zeros", 50.0, 1.0),
    ("credit", 2.0, 1.0),
    # an interval's width comes from small differences, which rounding changes more
    ("intervals.stability", 50.0, 1.0),
    ("intervals.acc", 50.0, 1e-6),
    ("intervals.margin_pp", 50.0, 1e-6),
    ("", 50.0, 0.0),
)
"""Name → (times, size): a number may differ by times · `relative_tolerance` · max(|number|,
size)."""

_KINDS = (
    ("provenance.hashes.weights", "weights"),
    ("provenance.data_hash", "data"),
    ("provenance.hashes", "file"),
    ("provenance.versions", "version"),
    ("provenance.device", "device"),
    ("thresholds", "threshold"),
)

LACKING, UNCHECKED = "lacking", "unchecked"

_ORDER = ("weights", "data", "file", "number", "verdict", "fact", LACKING, UNCHECKED)


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A value that differs from the record.

    Attributes:
        kind: ``weights``, ``data``, ``file``, ``verdict``, ``number`` or ``fact``; ``lacking``:
            measured now but not recorded; ``unchecked``: recorded but not measured in the same way
            now; ``version``, ``device``, ``threshold``.
        name: of the value, e.g. ``bp_grad_norms[4]``.
        recorded: its value in the record, or None.
        measured: its value now, or None.
        tolerance: allowed difference; None = must be equal.
        decides: whether it fails the verification.
        why: reason why a lacking or unchecked value is no failure.
    """

    kind: str
    name: str
    recorded: object
    measured: object
    tolerance: float | None = None
    decides: bool = True
    why: str = ""

    def change(self) -> str:
        """``bp_grad_norms[4] 1.2e-9 → 3.4e-9``; ``none`` for a value that one of them lacks."""
        was = "none" if self.recorded is None else _short(self.recorded)
        now = "none" if self.measured is None else _short(self.measured)
        return f"{self.name} {was} → {now}"

    def __str__(self) -> str:
        was, now = "not in the record", "not measured now"
        if self.recorded is not None:
            was = f"recorded {_short(self.recorded)}"
        if self.measured is not None:
            now = f"now {_short(self.measured)}"
        text = f"{self.name}: {was}, {now}"
        if self.tolerance is not None:
            text += f" (may differ by {self.tolerance:.1e})"
        if self.why:
            text += f" ({self.why})"
        return text


class Comparison(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Differences between a record and a new measurement of a run.

    Attributes:
        differences: all values that differ, deciding or not.
        compared: number of compared values.
        largest: largest difference relative to its tolerance (at most 1 = agreement).
        bit_for_bit: whether all compared numbers are equal.
        same_machine: whether processor and versions are as recorded; then no tolerance applies.
        outside: names of recorded values that are not measured.
    """

    differences: list[Difference]
    compared: int
    largest: float
    bit_for_bit: bool
    same_machine: bool
    outside: list[str]

    @cached_property
    def agrees(self) -> bool:
        """Whether the verification passes."""
        return not any(difference.decides for difference in self.differences)

    @cached_property
    def unchecked(self) -> int:
        """Number of recorded values that could not be compared."""
        return sum(difference.kind == UNCHECKED for difference in self.differences)

    @property
    def headline(self) -> str:
        """The outcome as a short text."""
        if not self.agrees:
            counts = Counter(each.kind for each in self.differences if each.decides)
            kinds = ", ".join(f"{count} × {kind}" for kind, count in counts.items())
            return f"DIFFERS: {kinds}; {self.compared} values compared"
        exact = f"at most {brief(self.largest, 2)} of what rounding allows"
        if self.bit_for_bit:
            exact = "bit for bit"
        if self.unchecked:
            return f"agrees in {self.compared} values, {exact}; {self.unchecked} NOT CHECKED"
        return f"agrees: {self.compared} values, {exact}"

    def lines(self) -> list[str]:
        """A line per deciding difference, and one line for all others."""
        lines = []
        loud = [each for each in self.differences if each.decides or each.kind in _LOUD]
        for shared, alike in groupby(loud, key=_shared):
            first, *others = alike
            line = f"{'≠' if first.decides else '?'} {first}"
            if others:
                line += f"; and {len(others)} more of {shared[1]}"
            lines.append(line)
        told = [each for each in self.differences if each not in loud]
        if other := [str(each) for each in told if each.recorded is not None]:
            lines.append(f"· other circumstances: {'; '.join(other)}")
        if absent := [each.name for each in told if each.recorded is None]:
            lines.append(f"· not in the record: {', '.join(absent)}")
        if self.outside:
            lines.append(f"· no measurement gives {', '.join(self.outside)}")
        return lines


_LOUD = (LACKING, UNCHECKED)


def compare(recorded: DiagnosticReport, measured: DiagnosticReport) -> Comparison:
    """Compare a record with a new measurement of the same run.

    Tolerances follow from the new measurement alone: its arithmetic, depth and zeros. On the same
        processor with the same versions all numbers must be equal.
    """
    old, new = _values(recorded), _values(measured)
    exact = same_machine(recorded.provenance, measured.provenance)
    if exact:
        relative = 0.0
    else:
        relative = relative_tolerance(measured)
    excuses = _Excuses(recorded, measured, exact)
    outside = {stem for stem in map(_stem, {**old, **new}) if _is_outside(stem, new)}
    differences: list[Difference] = []
    within: list[float] = []
    compared = 0
    for name in {**old, **new}:
        if _stem(name) in outside:
            continue
        was, now = old.get(name), new.get(name)
        tolerance = _tolerance(name, now, relative)
        over = _excess(was, now, tolerance)
        if over > 1:
            differences.append(_judged(name, was, now, tolerance or None, excuses))
        else:
            within.append(over)
        compared += was is not None and now is not None
    differences += _verdict(recorded, measured)
    differences.sort(key=_order)
    compared -= sum(each.kind == UNCHECKED and each.measured is not None for each in differences)
    return Comparison(
        differences=differences,
        compared=compared,
        largest=max(within, default=0.0),
        bit_for_bit=not any(within),
        same_machine=exact,
        outside=sorted(outside & {*map(_stem, old)}),
    )


def same_machine(recorded: Mapping[str, object], measured: Mapping[str, object]) -> bool:
    """Whether processor, versions and number of threads are the same."""
    if measured.get("device") != "cpu" or measured.get("instructions") is None:
        return False
    before, now = _mapping(recorded.get("versions")), _mapping(measured.get("versions"))
    return _agree(recorded, measured, ("device_label", "instructions", "group")) and _agree(
        before, now, ("torch", "numpy")
    )


def _agree(one: Mapping[str, object], other: Mapping[str, object], names: Iterable[str]) -> bool:
    """Whether two mappings have equal values for some keys."""
    return all(one.get(name) == other.get(name) for name in names)


def relative_tolerance(report: DiagnosticReport) -> float:
    """Relative rounding error of a norm.

        8 · (2L + 2) · √n · u

    A product that sums n terms has a relative error of about √n·u (rounding errors of random sign);
    a network of L blocks chains 2L + 2 of them; 8 covers other operations.

    Source: Higham and Mary, A new approach to probabilistic rounding error analysis, SIAM J. Sci.
    Comput. 2019.

    >>> report = DiagnosticReport(residual_norms=[1.0] * 5, provenance={"fan_in": 256})
    >>> f"{relative_tolerance(report):.1e}"
    '7.6e-05'
    """
    blocks = max(1, len(report.residual_norms) - 1)
    fan_in = report.provenance.get("fan_in", USUAL_FAN_IN)
    dtype = report.dtype or ""
    # the coarsest arithmetic that ran: "float32, bfloat16 inside"
    ran = [unit for name, unit in UNIT_ROUNDOFF.items() if name in dtype]
    unit = max(ran, default=UNIT_ROUNDOFF["float32"])
    products = 2 * blocks + 2
    return float(SAFETY * products * math.sqrt(fan_in) * unit)


def _excess(was: Value | None, now: Value | None, tolerance: float) -> float:
    """`excess` for numbers; for other values 0 if equal, else ∞."""
    if is_number(was) and is_number(now):
        return excess(float(was), float(now), tolerance)
    if was == now:
        return 0.0
    return math.inf


def excess(old: float, new: float, tolerance: float) -> float:
    """|old − new| / tolerance: 0 for equal values, NaN included; ∞ for a tolerance of 0."""
    if old == new or (math.isnan(old) and math.isnan(new)):
        return 0.0
    difference = abs(old - new)
    if tolerance > 0 and math.isfinite(difference):
        return difference / tolerance
    return math.inf


class _Excuses:
    """Reason why a value that differs could not be compared."""

    def __init__(self, recorded: DiagnosticReport, measured: DiagnosticReport, exact: bool) -> None:
        before = _mapping(recorded.provenance.get("versions"))
        now = _mapping(measured.provenance.get("versions"))
        self.formulas = before.get("formulas", "1"), now.get("formulas", "1")
        self.beside = before.get("beside", "0"), now.get("beside", "0")
        self.torch = before.get("torch"), now.get("torch")
        self.given = recorded.provenance.get(BASELINE_FROM)
        self.exact = exact
        zeros = (measured.credit or {}).get("zeros") or ()
        self.lost = set()
        if not exact:
            self.lost = {l for l, share in enumerate(zeros) if share and share > LOST}

    def reason(self, name: str, was: Value | None, now: Value | None) -> str:
        """Why a value could not be compared; ``""`` if it could."""
        if now is None and _under(name, _BASELINE):
            if self.given == GIVEN:
                return "given by hand"
            return "of a frozen run that is not at hand"
        if was is None and _under(name, _BESIDE) and self.beside[0] != self.beside[1]:
            return "measured beside the diagnostics since"
        if now is None and _under(name, ("mean_error",)):
            return "its batches were cut to fit into memory now"
        if _under(name, _FORMULAS) and self.formulas[0] != self.formulas[1]:
            return f"recorded with formulas {self.formulas[0]}, now {self.formulas[1]}"
        if _under(name, _DRAWN) and self.torch[0] != self.torch[1]:
            return f"drawn at random by torch {self.torch[0]}, now {self.torch[1]}"
        if _under(name, ("depth_ablation",)) and not self.exact:
            return "counted without deciding near-ties in float64"
        if _under(name, ("credit",)) and self._is_lost(name):
            return f"over {LOST:.0%} of this credit is exactly 0, and the rest is rounding"
        return ""

    def _is_lost(self, name: str) -> bool:
        layer = re.search(r"\[(\d+)\]$", name)
        if layer is None:
            return bool(self.lost)
        return int(layer[1]) in self.lost


def _judged(
    name: str, was: Value | None, now: Value | None, tolerance: float | None, excuses: _Excuses
) -> Difference:
    """The `Difference` of a value."""
    found = Difference(
        kind=_kind_of(name, now if was is None else was),
        name=name,
        recorded=was,
        measured=now,
        tolerance=tolerance,
    )
    if _under(name, _TOLD):
        return replace(found, decides=False, tolerance=None)
    in_provenance = name.startswith("provenance.") and not _under(name, _NEEDED)
    if in_provenance and (was is None or now is None) and not _under(name, _BASELINE):
        return replace(found, decides=False)
    why = excuses.reason(name, was, now)
    if was is None:
        return replace(found, kind=LACKING, decides=not why, why=why, tolerance=None)
    if why:
        return replace(found, kind=UNCHECKED, decides=False, why=why, tolerance=None)
    return found


def _kind_of(name: str, value: Value | None) -> str:
    """The kind of a difference, from the name and value."""
    for prefix, kind in _KINDS:
        if _under(name, (prefix,)):
            return kind
    if is_number(value):
        return "number"
    return "fact"


def _verdict(recorded: DiagnosticReport, measured: DiagnosticReport) -> Iterator[Difference]:
    """Differences of the recorded verdict from the verdicts of the recorded and the measured
    numbers."""
    was = recorded.recorded_verdict
    if was is None:
        yield Difference(kind=LACKING, name="verdict", recorded=None, measured=recorded.verdict)
        return
    baseline = recorded.frozen_baseline_acc
    if measured.frozen_baseline_acc is None and baseline is not None:
        measured = measured.with_frozen_baseline(baseline)
    again = replace(measured, thresholds=recorded.thresholds, recorded_verdict=was)
    verdicts = {"verdict": again, "verdict of the recorded numbers": recorded}
    for name, judged in verdicts.items():
        if judged.recorded_differs:
            yield Difference(kind="verdict", name=name, recorded=was, measured=judged.verdict)
            return


def _values(report: DiagnosticReport) -> dict[str, Value]:
    """Name → value of all parts of a report but the verdict."""
    data: Json = msgspec.to_builtins(report.as_recorded())
    data["thresholds"] = report.thresholds.numbers()
    for name in ("verdict", WHAT_IF):
        data.pop(name, None)
    found: dict[str, Value] = {}
    waiting: list[tuple[str, Any]] = [("", data)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, Mapping):
            inner = [(f"{name}.{key}" if name else str(key), each) for key, each in value.items()]
            waiting += reversed(inner)
        elif isinstance(value, (list, tuple)):
            waiting += reversed([(f"{name}[{place}]", each) for place, each in enumerate(value)])
        elif value is not None and value != "":
            found[name] = value
    return found


def _is_outside(stem: str, measured: Mapping[str, Value]) -> bool:
    nameless = _under(stem, _NAMES) and "method_name" not in measured
    return nameless or _under(stem, tuple(_OUTSIDE))


def _tolerance(name: str, now: Value | None, relative: float) -> float:
    if not isinstance(now, float):
        return 0.0  # a count
    times, size = _allowed(_stem(name))
    return times * relative * max(abs(now), size)


@lru_cache(maxsize=1000)
def _allowed(stem: str) -> tuple[float, float]:
    """The tolerance of the first matching row of `_ALLOWED`."""
    rules = ((times, size) for name, times, size in _ALLOWED if not name or _under(stem, (name,)))
    return next(rules)


def _under(name: str, prefixes: tuple[str, ...]) -> bool:
    """Whether the name is one of these, or of a value inside one."""
    return any(name == each or name.startswith((each + ".", each + "[")) for each in prefixes)


def _stem(name: str) -> str:
    """The name without list indices."""
    if "[" not in name:
        return name
    return re.sub(r"\[\d+\]", "", name)


def _shared(difference: Difference) -> tuple[str, ...]:
    """The key of differences that share a line."""
    if difference.kind not in _LOUD:
        return difference.kind, difference.name
    stem = _stem(difference.name)
    alike = (*_BASELINE, *_BESIDE) if difference.why else _BASELINE
    within = next((each for each in alike if _under(stem, (each,))), stem)
    return difference.kind, within, difference.why


def _order(difference: Difference) -> tuple[bool, int]:
    """Deciding differences first, by kind."""
    if difference.kind in _ORDER:
        place = _ORDER.index(difference.kind)
    else:
        place = len(_ORDER)
    return not difference.decides, place


def _mapping(value: object) -> Mapping[str, object]:
    """A mapping from a file; empty if the value is none."""
    if isinstance(value, Mapping):
        return value
    return {}


def _short(value: object) -> str:
    if isinstance(value, float):
        return brief(value, 9)
    text = str(value)
    if text.startswith("sha256:"):
        return f"{text[:19]}…"
    return text
