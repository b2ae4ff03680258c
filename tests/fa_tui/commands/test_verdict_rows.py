"""A run's numbers in a line of a table."""

from __future__ import annotations

import math
import re

from fa_core.formats.rows import AuditRow
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.report_facts import DiagnosticThresholds
from fa_tui.commands.verdict_table import markdown, numbers
from fa_tui.options import Criteria


def test_what_is_no_number_has_no_sign_and_what_is_infinite_has_one() -> None:
    report = DiagnosticReport(
        headline_acc=math.nan, frozen_baseline_acc=0.5, cross_batch_stability=math.inf
    )
    acc, _, _, drift, margin, _ = numbers(
        AuditRow(source="a.json", key="bp_s1", method="bp", report=report)
    )
    assert (acc, drift, margin) == ("nan", "+inf", "nan")


def test_a_bar_or_a_tag_in_a_name_leaves_the_markdown_table_whole() -> None:
    row = AuditRow(
        source="a.json", key="x", method="<i>a|b", report=DiagnosticReport(headline_acc=0.5)
    )
    heading, _, line = markdown([row], Criteria(DiagnosticThresholds()))
    assert len(re.findall(r"(?<!\\)\|", line)) == heading.count("|")
    assert line.startswith(r"| &lt;i>a\|b |")
