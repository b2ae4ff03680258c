"""Checks for contradictory numbers in a report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from fa_core.errors import InvalidReport
from fa_core.report.provenance import Credit, Provenance
from fa_core.report.report_facts import ReportFacts

Facts = TypeVar("Facts", bound=ReportFacts)

MOST_LAYERS = 10_000
"""Maximum L, that of the deepest published network."""


COSINE_SLACK = 1e-6
"""Tolerance for the rounding of a mean cosine beyond ±1."""

NO_REASON = "not in the source"
"""Reason of an unmeasured value without a recorded one."""


def checked(facts: Facts, where: str = "") -> Facts:
    """Check a report for contradictory numbers; returns the report.

    The NaN of an unmeasured (c) becomes None.

    Args:
        facts: the report.
        where: file and JSON path, for the message.

    Raises:
        InvalidReport: unequal numbers of layers or too many, a negative norm, an accuracy outside
            [0, 1], a cosine outside [-1, 1], an interval with its ends out of order, a negative
            bound, fields of ``credit`` or ``provenance`` of another type than in `Credit` and
            `Provenance`.
    """
    _check_layers(facts, where)
    _check_norms(facts.residual_norms, "residual_norms", where)
    _check_norms(facts.bp_grad_norms, "bp_grad_norms", where)
    if facts.growth_bound is not None:
        _check_norm(facts.growth_bound, "growth_bound", where)
    _check_accuracy(facts.headline_acc, "headline_acc", where)
    _check_accuracy(facts.frozen_baseline_acc, "frozen_baseline_acc", where)
    for name, (low, high) in facts.intervals.items():
        if not low <= high:
            what = f"intervals.{name} is [{low}, {high}]"
            raise InvalidReport(what, where=where, hint="low end first, no NaN")
    if facts.credit:
        _check_members(facts.credit, Credit, "credit", where)
    if facts.provenance:
        _check_members(facts.provenance, Provenance, "provenance", where)
    return _with_cosine(facts, where)


def longest_list(facts: ReportFacts) -> int:
    """Length of a report's longest list by layer."""
    longest = max(len(facts.residual_norms), len(facts.bp_grad_norms))
    if not facts.credit:
        return longest
    lists = list(facts.credit.values())
    null = facts.credit.get("null")
    if isinstance(null, Mapping):
        lists += null.values()
    lengths = (len(values) for values in lists if isinstance(values, (list, tuple)))
    return max([longest, *lengths])


def _check_layers(facts: ReportFacts, where: str) -> None:
    longest = longest_list(facts)
    if longest > MOST_LAYERS:
        what = f"{longest:,} values where there is one for each layer"
        raise InvalidReport(what, where=where, hint=f"up to {MOST_LAYERS:,} layers are read")
    h = len(facts.residual_norms)
    g = len(facts.bp_grad_norms)
    if h and g and h != g and not facts.layers:
        what = f"layers of unequal number: {h} residual_norms, {g} bp_grad_norms"
        hint = "both must list h_0..h_L; leave one out if it was not measured"
        raise InvalidReport(what, where=where, hint=hint)


def _check_norms(norms: Sequence[float], name: str, where: str) -> None:
    for layer, norm in enumerate(norms):
        if norm < 0:
            _check_norm(norm, f"{name}[{layer}]", where)


def _check_norm(norm: float, name: str, where: str) -> None:
    """Refuse finite negative norms; NaN and ±inf are valid and fire."""
    if -math.inf < norm < 0:
        hint = "a norm, and a ratio of norms, is never negative"
        raise InvalidReport(f"{name} is {norm}", where=where, hint=hint)


def _check_accuracy(acc: float | None, name: str, where: str) -> None:
    if acc is None or not math.isfinite(acc) or 0.0 <= acc <= 1.0:
        return
    hint = "accuracies are fractions: divide by 100" if acc > 1 else "an accuracy lies in [0, 1]"
    raise InvalidReport(f"{name} is {acc}", where=where, hint=hint)


def _check_members(found: Mapping[str, object], kind: object, name: str, where: str) -> None:
    """Refuse fields of another type than in a ``TypedDict``."""
    try:
        msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$")
        member = name + place.rstrip("`")
        raise InvalidReport(f"{member}: {what}", where=where) from error


def _with_cosine(facts: Facts, where: str) -> Facts:
    """The report with (c) checked; None for the NaN of an unmeasured (c)."""
    cosine = facts.cross_batch_stability
    if cosine is None:
        return facts
    if math.isnan(cosine) and "c" in facts.unmeasured:
        reasons = dict(facts.unmeasured)
        if reasons["c"] == NO_REASON:
            del reasons["c"]
        return msgspec.structs.replace(facts, cross_batch_stability=None, unmeasured=reasons)
    if math.isfinite(cosine) and abs(cosine) > 1.0 + COSINE_SLACK:
        what = f"cross_batch_stability is {cosine}"
        raise InvalidReport(what, where=where, hint="a mean cosine lies in [-1, 1]")
    return facts
