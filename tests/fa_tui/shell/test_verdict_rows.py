"""A run's numbers in a line of a table."""

from __future__ import annotations

import math

from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow
from fa_tui.shell.verdict_rows import numbers


def test_what_is_no_number_has_no_sign_and_what_is_infinite_has_one() -> None:
    report = DiagnosticReport(headline_acc=math.nan, frozen_baseline_acc=0.5, cross_batch_stability=math.inf)
    acc, _, _, _, drift, margin = numbers(AuditRow(source="a.json", key="bp_s1", method="bp", report=report))
    assert (acc, drift, margin) == ("nan", "+inf", "nan")
