"""Comparison of a recorded report with a new measurement. Pure Python.

`QUANTITIES` lists what is compared, and how. Everything else in a record is named as not compared.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from fa_core.files.decode import Json, table_beside
from fa_core.report.baseline import OF_FROZEN
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.intervals import unlike
from fa_core.report.numbers import brief, count_text, is_number
from fa_core.report.provenance import BASELINE_RULE, fact_text
from fa_core.report.report_facts import UNSTATED

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

FINE = 2.5e-4
"""Relative rounding error up to which cosines near 0, too, are compared."""

COARSE = 0.05
"""Part of a value that may be rounding, above which numbers that differ prove nothing."""

MOST_NAMED = 40
"""Differences of a run, and names of values that are not compared, that are printed."""

LACKING, UNCHECKED = "lacking", "unchecked"
RIGHT, SUMMARY = "right", "summary"


class Rule(msgspec.Struct, frozen=True):
    """How a quantity is compared.

    Attributes:
        times: how many times `relative_tolerance` a number may differ; 0 = it must be equal.
        size: what the tolerance is relative to, where that is more than the number.
        needs: without which a difference decides nothing: `FORMULAS`, `BASELINE` or `HERE`;
            `OTHERS`: without which it is not compared.
        unless: why it is not compared at all.
    """

    times: float = 0.0
    size: float = 0.0
    needs: str = ""
    unless: str = ""


FORMULAS, BASELINE, HERE, OTHERS = "formulas", "baseline", "here", "others"
_LACKS = {
    FORMULAS: "of other formulas or of another torch",
    BASELINE: "the frozen run that gave it is not verified with it",
    HERE: "measured elsewhere",
}
"""What a comparison may need besides → the reason that stands for its absence."""

BY_UNIT = {"norm": Rule(1.0), "×": Rule(2.0), "cosine": Rule(2.0, 1.0)}
"""Unit → what rounding may change; a ratio of two norms errs by at most the sum of their errors,
and so does a cosine. Accuracies are counts, with near-ties decided in float64."""

FACT = Rule(needs=FORMULAS)
"""Whatever has no rule of its own must be equal: texts, counts, settings of the run."""

_ROUNDS = ("device", "device_label", "instructions", "group", "versions.torch", "versions.numpy")
"""Facts of provenance that let numbers differ by rounding."""

_DECIDE = ("versions.formulas", "versions.torch")
"""The versions that decide intervals and random numbers."""

QUANTITIES = table_beside(__file__, dict[str, Rule])
"""Name in a report, of a value or of all within it → how it is compared; else as a `FACT`.

An interval's width comes from small differences, which rounding changes more. Reference precision
is rounding errors themselves, and accuracies without blocks are without decided ties.
"""

_NAMES = ("method_name", "seed", "axes")
"""Compared with the manifest; not compared for a checkpoint without one."""

_ORDER = ("verdict", "fact", "number", LACKING, UNCHECKED)


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A value that differs from the record.

    Attributes:
        kind: ``fact``, ``number`` or ``verdict``; ``lacking``: measured now but not recorded;
            ``unchecked``: recorded, and it could not be compared.
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
        """``bp_grad_norms[4] 1.2e-9 → 3.4e-9``; of a list of samples, how many differ."""
        if self.name == RIGHT:
            return f"{RIGHT}: {unlike(str(self.recorded or ''), str(self.measured or ''))}"
        absent = "measured now" if self.name.startswith("unmeasured.") else "not measured"
        was = _short(self.recorded, "not in the record")
        now = _short(self.measured, absent)
        if was == now:
            was = repr(self.recorded)
            now = repr(self.measured)
        return f"{self.name} {was} → {now}"

    def __str__(self) -> str:
        text = self.change()
        if self.tolerance is not None:
            text += f" (may differ by {self.tolerance:.1e})"
        if self.why:
            text += f" ({self.why})"
        return text


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Differences between a record and a new measurement of a run.

    Attributes:
        differences: all values that differ, deciding or not.
        compared: number of compared values.
        largest: largest difference relative to its tolerance (0 = bit for bit, at most 1).
        elsewhere: what differs of the machine and the versions; if nothing, no tolerance applies.
        not_compared: names of recorded values that are not compared.
    """

    differences: list[Difference]
    compared: int
    largest: float
    elsewhere: list[str]
    not_compared: list[str]

    @property
    def agrees(self) -> bool:
        """Whether the verification passes."""
        return not any(difference.decides for difference in self.differences)

    @property
    def unchecked(self) -> int:
        """Number of recorded quantities that could not be compared."""
        return sum(difference.kind == UNCHECKED for difference in self.differences)

    @property
    def headline(self) -> str:
        """The outcome as a short text."""
        if not self.agrees:
            counts = Counter(each.kind for each in self.differences if each.decides)
            kinds = ", ".join(f"{count} × {kind}" for kind, count in counts.items())
            return f"DIFFERS: {kinds}; {self.compared} values compared"
        exact = "bit for bit"
        if self.largest:
            exact = f"at most {brief(self.largest, 2)} of what rounding allows"
        if self.unchecked:
            return f"agrees in {self.compared} values, {exact}; {self.unchecked} NOT CHECKED"
        return f"agrees: {self.compared} values, {exact}"

    def lines(self) -> list[str]:
        """A line per difference, the verdict's first, and what differs of the machine."""
        lines = []
        for each in self.differences[:MOST_NAMED]:
            mark = "≠" if each.decides else "?"
            lines.append(f"{mark} {each}")
        more = len(self.differences) - MOST_NAMED
        if more > 0:
            lines.append(f"… and {more} more: `fa-tui verify --format json` prints every one")
        if self.elsewhere:
            lines.append(f"· measured elsewhere: {', '.join(self.elsewhere)}")
        return lines


def compare(
    recorded: DiagnosticReport,
    measured: DiagnosticReport,
    summary: tuple[object, Json] = (None, {}),
) -> Comparison:
    """Compare a record with a new measurement of the same run.

    Tolerances follow from the new measurement alone: its arithmetic and depth. On the same
        processor with the same versions all numbers must be equal.

    Args:
        recorded: the record.
        measured: the new measurement.
        summary: what its file's summary says of the record, and what it would have to say.
    """
    said, own = summary
    recorded = recorded.as_recorded()
    before = _values(recorded, said)
    after = _values(measured, own)
    elsewhere = _elsewhere(before, after)
    relative = relative_tolerance(measured) if elsewhere else 0.0
    lacks = {FORMULAS: bool(_changed(before, after, _DECIDE)), HERE: bool(elsewhere)}
    outside = _not_compared(after)
    reasons = _LACKS | ({BASELINE: "given by hand"} if "d" in recorded.kinds else {})
    differences: list[Difference] = []
    within: list[float] = []
    # a record that does not say it has it by its key or its file
    skipped = dict.fromkeys(set(_NAMES[:1]).intersection(outside))
    for name in {**before, **after}:
        quantity, rule = _rule(name)
        if rule.unless or quantity in outside or (rule.needs == OTHERS and name not in after):
            if name in before:
                skipped[quantity] = None
            continue
        found = _judged(name, before.get(name), after.get(name), rule, relative)
        lacks[BASELINE] = name not in after
        if isinstance(found, float):
            # a summary repeats numbers of its report
            within += [found] if quantity != SUMMARY else []
            continue
        if lacks.get(rule.needs):
            why = reasons[rule.needs]
            found = replace(found, kind=UNCHECKED, decides=False, why=why, tolerance=None)
        differences.append(found)
    both = (each for each in differences if None not in (each.recorded, each.measured))
    compared = len(within) + sum(each.decides for each in both)
    lost = (measured.credit or {}).get("missing", {}).get("gamma")
    if lost:
        differences = _without_credit(differences, lost)
    differences += _verdicts(recorded, measured)
    differences.sort(key=_order)
    return Comparison(
        differences=differences,
        compared=compared,
        largest=max(within, default=0.0),
        elsewhere=elsewhere,
        not_compared=list(skipped),
    )


def _without_credit(differences: list[Difference], why: str) -> list[Difference]:
    """The differences, with the recorded values of a credit that cannot be measured now as one."""
    lost = [each for each in differences if each.name.startswith("credit.")]
    count = sum(each.measured is None for each in lost)
    if not count:
        return differences
    held = f"{count_text(count, 'value')} in the record"
    whole = Difference(kind="fact", name="credit", recorded=held, measured=None, why=why)
    return [whole, *(each for each in differences if each not in lost)]


def _rule(name: str) -> tuple[str, Rule]:
    """The quantity that a value belongs to, and its rule."""
    part = name
    while part:
        if part in QUANTITIES:
            return part, QUANTITIES[part]
        part = part[: max(part.rfind("."), part.rfind("["), 0)]
    return name, FACT


def _not_compared(measured: Json) -> Sequence[str]:
    """Quantities that a measurement says nothing of: names without a manifest, the name of data
    that were typed, the rule of a baseline without one."""
    settings = "provenance.settings.data"
    found: list[str] = []
    if settings in measured and measured[f"{settings}_typed"]:
        found.append("provenance.data")
    if "method_name" not in measured:
        found += _NAMES
    if "frozen_baseline_acc" not in measured:
        found.append(f"provenance.{BASELINE_RULE}")
    return found


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


def excess(old: float, new: float, tolerance: float) -> float:
    """|old − new| / tolerance: 0 for equal values, NaN included; ∞ for a tolerance of 0."""
    if old == new or (math.isnan(old) and math.isnan(new)):
        return 0.0
    difference = abs(old - new)
    if tolerance > 0 and math.isfinite(difference):
        return difference / tolerance
    return math.inf


def _judged(name: str, was: object, now: object, rule: Rule, relative: float) -> Difference | float:
    """A value's difference over its tolerance, at most 1, or the `Difference` of more.

    A tolerance above `COARSE` of the value, as of half precision, of intervals of many blocks or of
    a small cosine of a deep network, agrees with nearly everything: a value that is not equal and
    within such a tolerance counts as not compared.
    """
    found = Difference(kind="fact", name=name, recorded=was, measured=now)
    if was is None:
        return replace(found, kind=LACKING)
    if not (is_number(was) and (now is None or is_number(now))):
        if was == now and is_number(was) == is_number(now):  # True == 1
            return 0.0
        return found
    found = replace(found, kind="number")
    if now is None:
        return found
    tolerance = 0.0
    if isinstance(now, float):
        tolerance = rule.times * relative * max(abs(now), rule.size)
    over = excess(was, now, tolerance)
    if over > 1:
        return replace(found, tolerance=tolerance or None)
    proves = COARSE * max(abs(was), abs(now))
    if over > 0 and relative > FINE and tolerance > proves:
        why = f"rounding may change it by {tolerance:.1e}"
        return replace(found, kind=UNCHECKED, decides=False, why=why)
    return over


def _verdicts(recorded: DiagnosticReport, measured: DiagnosticReport) -> Iterator[Difference]:
    """The first of three verdicts that is not the recorded one: of the measured numbers, of the
    recorded numbers, and by the protocol's thresholds. Before it (d), unchecked, where a frozen run
    at hand fits and judges none."""
    unfit = measured.unmeasured.get("d", "")
    if unfit.startswith(OF_FROZEN):
        yield Difference(
            kind=UNCHECKED,
            name="margin_pp",
            recorded=recorded.margin_pp,
            measured=None,
            decides=False,
            why=unfit,
        )
    was = recorded.recorded_verdict
    if was is None:
        yield Difference(kind=LACKING, name="verdict", recorded=None, measured=recorded.verdict)
        return
    baseline = recorded.frozen_baseline_acc
    if measured.frozen_baseline_acc is None and baseline is not None:
        measured = measured.with_frozen_baseline(baseline)
    measured = replace(measured, recorded_verdict=was)
    verdicts = {
        "verdict": measured.with_thresholds(recorded.thresholds),
        "verdict of the recorded numbers": recorded,
        "verdict by the protocol's thresholds": measured.with_thresholds(UNSTATED),
    }
    for name, judged in verdicts.items():
        if judged.recorded_differs:
            yield Difference(kind="verdict", name=name, recorded=was, measured=judged.verdict)
            return


def _values(report: DiagnosticReport, summary: object) -> dict[str, object]:
    """Name → value of all numbers and texts of a report, but for its verdict, and of a summary."""
    data = msgspec.to_builtins(report.as_recorded()) | {"verdict": None, SUMMARY: summary}
    return dict(_values_in("", data))


def _values_in(name: str, value: object) -> Iterator[tuple[str, object]]:
    """The numbers and texts of a value, by their places in it.

    A key that is no plain word is quoted, so that none reads as a place within another.
    """
    if isinstance(value, Mapping):
        for key, member in value.items():
            place = f".{key}" if key.isidentifier() else f"[{key!r}]"
            yield from _values_in((name + place).removeprefix("."), member)
    elif isinstance(value, (list, tuple)):
        for number, member in enumerate(value):
            yield from _values_in(f"{name}[{number}]", member)
    elif value is not None and value != "":
        yield name, value


def _changed(before: Json, now: Json, facts: Sequence[str]) -> list[str]:
    """Which facts of provenance differ."""
    changed = []
    for name in facts:
        was = before.get(f"provenance.{name}")
        is_now = now.get(f"provenance.{name}")
        if was != is_now:
            changed.append(f"{name.removeprefix('versions.')} {was} → {is_now}")
    return changed


def _elsewhere(before: Json, now: Json) -> list[str]:
    """What differs of the machine and the versions; of another device than the processor at least
    its name, since its kernels need not repeat a number."""
    device = now.get("provenance.device")
    changed = _changed(before, now, _ROUNDS)
    if not changed and (device != "cpu" or "provenance.instructions" not in now):
        return [f"device {device}"]
    return changed


def _order(difference: Difference) -> tuple[bool, bool, int]:
    """Deciding differences first, by kind; that of single samples last of them."""
    return not difference.decides, difference.name == RIGHT, _ORDER.index(difference.kind)


def _short(value: object, absent: str) -> str:
    """A value for reading; hashes abbreviated."""
    if value is None:
        return absent
    if isinstance(value, float):
        return brief(value, 9)
    return fact_text(value)
