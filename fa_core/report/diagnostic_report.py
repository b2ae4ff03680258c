"""The report of a run: measurements, verdict, and JSON form.

Combines `fa_core.report.report_facts`, `fa_core.report.judged_run` and `fa_core.report`. Pure
Python, so that the first screen needs no NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from fa_core.errors import InvalidReport
from fa_core.files.atomic import write_json
from fa_core.files.decode import Json, without
from fa_core.report.diagnostic_record import records_of, report_text
from fa_core.report.diagnostics import largest_growth
from fa_core.report.gamma import deep_gamma, null_gamma, per_layer
from fa_core.report.judged_run import JudgedRun
from fa_core.report.numbers import or_none
from fa_core.report.provenance import Credit, Provenance
from fa_core.report.report_facts import NO_REASON, NORMS, ReportFacts, as_json, refuse_changes
from fa_core.report.verdict_text import verdict_words
from fa_core.sanitize import sanitize

AGREE = 1.01
"""Largest ratio of two values of one number that stand beside each other, for rounding."""

COSINE_SLACK = 1e-6
"""Tolerance for the rounding of a mean cosine beyond ±1."""

_NEVER_NEGATIVE = "a norm, and a ratio of norms, is never negative"


def _check_layers(facts: ReportFacts, where: str) -> None:
    numbers = {name: len(getattr(facts, name)) for name in NORMS}
    numbers["credit.gamma"] = len(per_layer(facts.credit))
    said = ", ".join(f"{number} {name}" for name, number in numbers.items())
    listed = {*without(numbers, *facts.layers).values()} - {0}
    named = max((int(one) for one in facts.layers.values() if one.isdecimal()), default=-1)
    if len(listed) > 1 or min(listed, default=math.inf) <= named:
        raise InvalidReport(
            f"layers of unequal number: {said}" + f", one of layer {named}" * (named >= 0),
            where=where,
            hint="all list h_0..h_L; leave out what was not measured",
        )


def _check_range(
    number: float | None, low: float, high: float, name: str, where: str, hint: str
) -> None:
    """Refuse a finite number that is out of its range; NaN and ±inf are valid and fire."""
    if number is not None and math.isfinite(number) and not low <= number <= high:
        raise InvalidReport(f"{name} is {number}", where=where, hint=hint)


def _check_members(found: Mapping[str, object], kind: type, where: str) -> None:
    """Refuse fields of another type than in a ``TypedDict``."""
    try:
        msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$")
        member = kind.__name__.lower() + place.rstrip("`")
        raise InvalidReport(f"{member}: {what}", where=where) from error


def _with_cosine(facts: DiagnosticReport, where: str) -> DiagnosticReport:
    """The report with Γ and (c) checked; None for the NaN of an unmeasured (c)."""
    cosine = facts.cross_batch_stability
    cosines = {"credit.gamma": per_layer(facts.credit), "cross_batch_stability": [cosine]}
    most = 1.0 + COSINE_SLACK
    for name, numbers in cosines.items():
        for number in numbers:
            _check_range(number, -most, most, name, where, "a mean cosine lies in [-1, 1]")
    if cosine is None or not math.isnan(cosine) or "c" not in facts.unmeasured:
        return facts
    reasons = dict(facts.unmeasured)
    if reasons["c"] == NO_REASON:
        del reasons["c"]
    return replace(facts, cross_batch_stability=None, unmeasured=reasons)


SOURCE_DRIFT = "cross_batch_direction_stability"
"""Name of `cross_batch_stability` in the protocol's own report class."""

_FIXED_FIELDS = 10
"""The first fields, always included in `to_dict`."""

_EMPTY: tuple[object, ...] = (None, "", [], {})
"""Values of the other fields that `to_dict` leaves out."""


@refuse_changes
class DiagnosticReport(JudgedRun, frozen=True, dict=True):
    """A run's measurements, judged by its thresholds; fields as in `ReportFacts`.

    An unmeasured value neither fires nor passes (`coverage`); a measured NaN or ±inf fires its
    diagnostic.

    Raises:
        UsageError: a bool or a text where a number belongs.

    Source: docs/protocol.md §3; the first ten field names are fixed by the published audit files.
    """

    @property
    def words(self) -> str:
        """The judgement as text (`fa_core.report.verdict_text.verdict_words`)."""
        return verdict_words(self)

    @property
    def deep_gamma(self) -> float | None:
        """Deep Γ (`fa_core.report.gamma.deep_gamma`); None if unmeasured."""
        return or_none(deep_gamma(self.credit, self.method_name))

    @property
    def null_gamma(self) -> float | None:
        """The mean of deep Γ under random feedback; None if unmeasured."""
        mean, _ = null_gamma(self.credit, self.method_name)
        return or_none(mean)

    def describe(self) -> list[str]:
        """A line per diagnostic: its state, number with interval, threshold; or why unmeasured."""
        return [record.line for record in records_of(self)]

    def __str__(self) -> str:
        return report_text(self)

    def _repr_html_(self) -> str:
        """What a notebook shows: the text, with names from files as no markup."""
        # only notebooks need it
        from html import escape

        text = sanitize(report_text(self), "\n")
        return f"<pre>{escape(text)}</pre>"

    def save(self, path: Path | str) -> None:
        """Write the report as a JSON file, which `load`, `load_audits` and the explorer open.

        Args:
            path: the file; what is there is replaced, whole or not at all.

        Raises:
            FaError: it cannot be written.
        """
        write_json(Path(path), self.to_dict())

    def check(self, where: str = "") -> DiagnosticReport:
        """Check for contradictory numbers; returns the report.

        The NaN of an unmeasured (c) becomes None.

        Args:
            where: file and JSON path, for the message.

        Raises:
            InvalidReport: unequal numbers of layers or too many, a negative norm, an accuracy
                outside [0, 1], a cosine outside [-1, 1], a λ that is no number, an interval with
                its ends out of order, a bound on growth that is negative or above that of the
                norms, other numbers of batches, fields of ``credit`` or ``provenance`` of another
                type than in `Credit` and `Provenance`.
        """
        for found, kind in ((self.credit, Credit), (self.provenance, Provenance)):
            if found:
                _check_members(found, kind, where)
        _check_layers(self, where)
        for name in NORMS:
            for layer, norm in enumerate(getattr(self, name)):
                if norm < 0:
                    _check_range(norm, 0.0, math.inf, f"{name}[{layer}]", where, _NEVER_NEGATIVE)
        if self.growth_bound is not None:
            _check_range(self.growth_bound, 0.0, math.inf, "growth_bound", where, _NEVER_NEGATIVE)
            growth = largest_growth(self.residual_norms)
            if growth is not None and self.growth_bound > AGREE * growth:
                raise InvalidReport("growth_bound is above the growth of its norms", where=where)
        if isinstance(lam := self.axes.get("lam"), (str, bool)):
            raise InvalidReport(f"λ is {lam!r:.60}", where=where, hint="give a number")
        hint = "accuracies are fractions: divide by 100"
        _check_range(self.headline_acc, 0.0, 1.0, "headline_acc", where, hint)
        _check_range(self.frozen_baseline_acc, 0.0, 1.0, "frozen_baseline_acc", where, hint)
        for name, (low, high) in self.intervals.items():
            if not low <= high:
                raise InvalidReport(
                    f"intervals.{name} is [{low}, {high}]",
                    where=where,
                    hint="low end first, no NaN",
                )
        if len(self.batch_sizes) not in {0, 1, self.n_batches}:
            raise InvalidReport(
                f"provenance.batch_sizes has {len(self.batch_sizes)} numbers",
                where=where,
                hint=f"n_batches is {self.n_batches}",
            )
        return _with_cosine(self, where)

    def to_dict(self) -> Json:
        """The report as a JSON-ready dict: the fixed fields always, the others unless empty.

        ``verdict`` is the published text, recomputed; a differing recorded one is kept as
        ``recorded_verdict``. An assumed baseline is left out.
        """
        report = self.as_recorded()
        data: Json = msgspec.to_builtins(report, enc_hook=as_json)
        data["verdict"] = report.verdict
        fixed = {name: data.pop(name) for name in self.__struct_encode_fields__[:_FIXED_FIELDS]}
        if self.recorded_verdict not in (None, report.verdict):
            fixed["recorded_verdict"] = self.recorded_verdict
        return fixed | {name: value for name, value in data.items() if value not in _EMPTY}

    @classmethod
    def from_dict(cls, data: Mapping[str, object], where: str = "report") -> DiagnosticReport:
        """A report from its JSON form.

        Args:
            data: a mapping with any of the fields of `ReportFacts`, numbers of any type; unknown
                keys are ignored. From a file it may be no mapping.
            where: file and JSON path, for messages.

        Raises:
            InvalidReport: no mapping, a field of the wrong type, or contradictory numbers.

        ``recorded_verdict`` is the text of another source; the file's own counts where the numbers
        do not bear it out.
        """
        fields = data
        if isinstance(data, Mapping) and SOURCE_DRIFT in data:
            fields = {"cross_batch_stability": data[SOURCE_DRIFT], **data}
            if str(fields["cross_batch_stability"]) != str(data[SOURCE_DRIFT]):
                raise InvalidReport(f"two values of {SOURCE_DRIFT}", where=where)
        try:
            report = _converted(fields).as_recorded()  # no file assumes a baseline
        except ValueError as error:
            what, _, place = str(error).partition(" - at `$")
            place = where + place.rstrip("`")
            raise InvalidReport(
                what, where=place, hint="see docs/protocol.md, report fields"
            ) from error
        report = report.check(where)
        kept = data.get("recorded_verdict")
        if isinstance(kept, str) and not report.recorded_differs:
            report = replace(report, recorded_verdict=kept)
        return report


def _converted(fields: Mapping[str, object]) -> DiagnosticReport:
    """A report from fields, with numbers of other types than JSON's converted."""
    try:
        return msgspec.convert(fields, DiagnosticReport)
    except ValueError:
        return msgspec.convert(msgspec.to_builtins(fields, enc_hook=as_json), DiagnosticReport)
