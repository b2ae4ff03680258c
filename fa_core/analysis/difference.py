"""Two audits compared run by run: the verdicts and numbers that changed, the runs that came or
went."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from fa_core.analysis.record_comparison import BY_UNIT, COARSE, Rule, excess, relative_tolerance
from fa_core.files.decode import Json
from fa_core.formats.rows import AuditRow, Problem, judged_fields, settings_of
from fa_core.report.diagnostic_record import range_text
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.gamma import per_layer
from fa_core.report.numbers import axis_sign, listed, plain
from fa_core.report.quantities import JUDGED, QUANTITIES, Quantity
from fa_core.report.report_facts import PROTOCOL
from fa_core.sanitize import sanitize

SAME, ROUNDING, CHANGED, CAME, WENT = "same", "rounding", "changed", "came", "went"
"""States of a run: equal; equal but for rounding; changed, as is one of other weights or data; only
in the second; only in the first."""


class NumberChange(msgspec.Struct, frozen=True):
    """A number of a run that is not the same in both audits.

    Attributes:
        quantity: which.
        before: in the first audit; None where it was not measured.
        after: in the second.
    """

    quantity: Quantity
    before: float | None
    after: float | None


class RunDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A run in two audits.

    Attributes:
        before: its row in the first, judged; None if it came.
        after: its row in the second, judged; None if it went.
        numbers: those that differ at all.
        state: `SAME`, `ROUNDING`, `CHANGED`, `CAME` or `WENT`.
    """

    before: AuditRow | None
    after: AuditRow | None
    numbers: tuple[NumberChange, ...] = ()
    state: str

    @property
    def row(self) -> AuditRow:
        """The run, for its names: as the second audit has it, else the first."""
        found = self.after or self.before
        assert found is not None
        return found

    @property
    def verdict_changed(self) -> bool:
        """Whether both audits have it, and judge it differently."""
        if self.before is None or self.after is None:
            return False
        return self.before.report.judgement != self.after.report.judgement

    @property
    def notes(self) -> list[str]:
        """Of a changed run: what the audits differ in besides the numbers: ``with λ 0 → 0.01`` (of
        the settings that both record), ``on other data``, ``of other weights``, ``only because B
        lacks d`` (the letters that both measured say the same)."""
        if self.state != CHANGED or self.before is None or self.after is None:
            return []
        before, after = self.before, self.after
        why = "where"
        if self.verdict_changed and _agree_where_both_measured(before.report, after.report):
            why = "only because"
        notes = _other_settings(before, after)
        notes += _other_inputs(before.report, after.report)
        notes += _lacking("A", before.report, after.report, why)
        notes += _lacking("B", after.report, before.report, why)
        was, now = (_said(row, self.numbers) for row in (before, after))
        for letter in JUDGED:
            if letter in was and was[letter] != now[letter]:
                ends = f"{was[letter] or 'none'} → {now[letter] or 'none'}"
                notes.append(f"interval of ({letter}) {ends}")
        return notes

    def to_dict(self) -> Json:
        """Names, state, and what each audit says, for JSON."""
        row = self.row
        return {
            "method": row.method,
            "seed": row.seed,
            "axes": row.axes,
            "state": self.state,
            "notes": self.notes,
            "before": _side(self.before),
            "after": _side(self.after),
            "numbers": {one.quantity.field: [one.before, one.after] for one in self.numbers},
        }


def _other_settings(before: AuditRow, after: AuditRow) -> list[str]:
    """``with λ 0 → 0.01``: the settings that both record, and that differ."""
    new = settings_of(after)
    others = []
    for name, value in settings_of(before).items():
        if name in new and value != new[name]:
            others.append(f"{axis_sign(name)} {plain(value)} → {plain(new[name])}")
    if others:
        return [sanitize(f"with {listed(others, 6)}")]
    return []


def _agree_where_both_measured(before: DiagnosticReport, after: DiagnosticReport) -> bool:
    common = set(before.measured).intersection(after.measured)
    said, says = ((common & one.flags, common & one.undecided) for one in (before, after))
    return said == says


def _lacking(side: str, own: DiagnosticReport, other: DiagnosticReport, why: str) -> list[str]:
    """What one of the audits lacks or does not know, and what changed in it."""
    notes = []
    if own.changed:
        notes.append(f"in {side} {own.changed}")
    if own.coverage:
        unknown = other.provenance.keys() - own.provenance.keys()
        for fact, what in (("arch", "of a network"), ("data_hash", "on data")):
            if fact in unknown:
                notes.append(f"{what} unknown in {side}")
    lacks = set(other.measured).difference(own.measured)
    if lacks:
        notes.append(f"{why} {side} lacks {''.join(sorted(lacks))}")
    return notes


def _other_inputs(before: DiagnosticReport, after: DiagnosticReport) -> list[str]:
    """``on other data``, ``of other weights``: by the hashes that both record."""
    now = _inputs(after)
    notes = []
    for note, was in _inputs(before).items():
        if None not in (was, now[note]) and was != now[note]:
            notes.append(note)
    return notes


def _inputs(report: DiagnosticReport) -> Json:
    facts = report.provenance
    weights = facts.get("hashes", {}).get("weights")
    return {"on other data": facts.get("data_hash"), "of other weights": weights}


def _side(row: AuditRow | None) -> Json | None:
    """A run in one of the audits, for JSON."""
    if row is None:
        return None
    report = row.report
    return {
        "source": row.source,
        "coverage": report.measured,
        **judged_fields(report),
    }


def differences(before: Sequence[AuditRow], after: Sequence[AuditRow]) -> list[RunDifference]:
    """Every run of two audits, paired.

    Runs are the same if their method, seed and axes are; of the runs without a partner, those
    whose method and seed are (an audit table of the literature records no axes). Several runs of
    one name are paired in order.

    Args:
        before: the first audit's rows, judged.
        after: the second's, judged by the same thresholds.

    Returns:
        In the order of the first audit, then the runs that came.
    """
    came = dict(enumerate(after))
    partners: dict[int, AuditRow] = {}
    for name_of in (_full_name, attrgetter("method", "seed")):
        waiting: defaultdict[Hashable, list[int]] = defaultdict(list)
        for place, row in came.items():
            waiting[name_of(row)].append(place)
        for place, row in enumerate(before):
            alike = waiting[name_of(row)]
            if alike and place not in partners:
                partners[place] = came.pop(alike.pop(0))
    found = []
    for place, row in enumerate(before):
        if place in partners:
            found.append(_compared(row, partners[place]))
        else:
            found.append(RunDifference(before=row, after=None, state=WENT))
    for row in came.values():
        found.append(RunDifference(before=None, after=row, state=CAME))
    return found


def mark_unlike(rows: list[AuditRow], twins: Mapping[int, int]) -> list[Problem]:
    """Mark the rows of which another record is not alike (`ReportFacts.changed`).

    Args:
        rows: all records.
        twins: see `twins_of`.

    Returns:
        A line on each.
    """
    unlike = {}
    # judged alike, whatever they were judged by
    recorded = [replace(row, report=row.report.with_thresholds(PROTOCOL)) for row in rows]
    for place, last in twins.items():
        other, shown = recorded[place], recorded[last]
        is_other = _stated(other) != _stated(shown) or _other_settings(other, shown)
        if is_other or _compared(other, shown).state == CHANGED:
            what = (
                f"{shown.source}: {shown.key} is not alike in {other.source}, which is not shown; "
                "`fa-tui diff` compares"
            )
            unlike[last] = Problem(shown.source, what)
            rows[last] = rows[last].marked("two records of it are not alike")
    return [*unlike.values()]


def _full_name(row: AuditRow) -> Hashable:
    axes = sorted((name, str(value)) for name, value in row.axes.items())
    return row.method, row.seed, tuple(axes)


def _stated(row: AuditRow) -> Hashable:
    """A record's names, and the numbers of single layers, rounded, as text (NaN equals NaN)."""
    report = row.report
    numbers = (*report.bp_grad_norms, *(value or 0.0 for value in per_layer(report.credit)))
    return _full_name(row), " ".join(f"{number:.6g}" for number in numbers)


def _compared(before: AuditRow, after: AuditRow) -> RunDifference:
    """A run that both audits have."""
    relative = min(COARSE, *map(relative_tolerance, (before.report, after.report)))
    numbers = []
    is_rounding = True
    for quantity in QUANTITIES:
        was = quantity.recorded(before.report)
        now = quantity.recorded(after.report)
        over = _over(was, now, quantity, relative)
        if over > 0:
            numbers.append(NumberChange(quantity, was, now))
        is_rounding = is_rounding and over <= 1
    state = SAME
    if numbers:
        state = ROUNDING
    said, says = (_said(row, numbers) for row in (before, after))
    if not is_rounding or said != says or _other_inputs(before.report, after.report):
        state = CHANGED
    return RunDifference(before=before, after=after, numbers=tuple(numbers), state=state)


def _said(row: AuditRow, numbers: Sequence[NumberChange]) -> dict[str, str]:
    """A run's judgement, and the intervals of the numbers that did not change, as text."""
    report = row.report
    said = {"cell": report.cell(), "words": report.words}
    changed = {one.quantity.letter for one in numbers}
    for letter in JUDGED:
        if letter not in changed:
            said[letter] = range_text(report, letter).replace(",", " to")
    return said


def _over(was: float | None, now: float | None, quantity: Quantity, relative: float) -> float:
    """How far two numbers differ, over what rounding allows; ∞ where only one was measured."""
    if was is None and now is None:
        return 0.0
    if was is None or now is None:
        return math.inf
    rule = BY_UNIT.get(quantity.unit, Rule())
    return excess(was, now, rule.times * relative * max(abs(was), abs(now), rule.size))
