"""Partial audits: growth bounds and coverage; margins to flip."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from fa_core.analysis import Result
from fa_core.judgement.diagnostics import BIT, DIAGNOSTICS, Diagnostic, letters_of
from fa_core.report import DiagnosticReport
from fa_core.table import AuditTable

ALL_LETTERS = sum(BIT.values())
"""The bits of all four diagnostics."""


class Margin(Result, frozen=True):
    """Distance of one diagnostic of one run from flipping.

    Attributes:
        letter: the diagnostic.
        unit: of value, threshold and room.
        value: the number; None if not measured.
        threshold: its threshold.
        fires: None if not measured.
        room: signed distance to the threshold in the diagnostic's unit: positive = passes with this
            much to spare, negative = fires by this much; None if not measured or non-finite.
        factor: the ratio of value and threshold, ≥ 1 (max(v/t, t/v)); only for the ratio scales (a)
            and (b), and None unless both are positive.
    """

    letter: str
    unit: str
    value: float | None
    threshold: float
    fires: bool | None
    room: float | None = None
    factor: float | None = None


def margins_to_flip(report: DiagnosticReport) -> tuple[Margin, ...]:
    """The margins of one run under the report's thresholds, in the order a, b, c, d.

    Source: docs/protocol.md §8; room = (t − v) for a diagnostic that fires above t,
    (v − t) for one that fires below.
    """
    return tuple(_margin(report, diagnostic) for diagnostic in DIAGNOSTICS.values())


def _margin(report: DiagnosticReport, diagnostic: Diagnostic) -> Margin:
    letter = diagnostic.letter
    value = diagnostic.measured(report)
    limit = diagnostic.limit(report.thresholds)
    fires = None
    if letter in report.coverage:
        fires = letter in report.flags
    margin = Margin(letter, diagnostic.unit, value, limit, fires)
    if value is None or not math.isfinite(value) or letter in report.nonfinite:
        return margin
    room = value - limit
    if diagnostic.fires_above:
        room = limit - value
    factor = None
    if diagnostic.log and value > 0 and limit > 0:
        factor = max(value / limit, limit / value)
    return msgspec.structs.replace(margin, room=room, factor=factor)


def unmeasured_letters(table: AuditTable) -> dict[str, str]:
    """Method → letters that none of its runs measured, if there are any.

    Source: docs/protocol.md §3: every verdict carries its coverage.
    """
    missing = {}
    for method in table.methods:
        coverage = table.coverage[table.method == method]
        measured = int(np.bitwise_or.reduce(coverage))
        if measured != ALL_LETTERS:
            missing[method] = letters_of(ALL_LETTERS & ~measured)
    return missing
