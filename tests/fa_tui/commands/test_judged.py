"""Rows judged when they are looked at, each rule applied once."""

import math

import pytest

from fa_core.formats import Scan
from fa_core.report.baseline import FrozenBaseline
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.judged_run import JudgedRun
from fa_core.report.report_facts import DiagnosticThresholds
from fa_tui.commands.inputs import of_methods_and_seeds
from fa_tui.commands.verdict_table import judged
from fa_tui.options import Chosen, Criteria, Log
from fa_tui.session import Session
from tests.fa_core.rows import row_of

STRICT = DiagnosticThresholds(h_norm_explosion_ratio=2.0)
REPORTS = [
    DiagnosticReport(),
    DiagnosticReport(
        residual_norms=[1.0, 3.0], bp_grad_norms=[1e-3, 1e-9], cross_batch_stability=0.5
    ),
    DiagnosticReport(residual_norms=[1.0, math.nan], headline_acc=0.3, frozen_baseline_acc=0.349),
    DiagnosticReport(growth_bound=60.0, evidence={"a": "bound"}, recorded_verdict="trustworthy"),
]


def _row(report):
    return row_of("dfa_s1", "a.json", report=report, axes={"lam": 0.1})


def test_a_rule_is_applied_once(monkeypatch):
    asked = []
    rule = JudgedRun.__dict__["nonfinite"]
    work_out = rule.func
    monkeypatch.setattr(rule, "func", lambda report: (asked.append(report), work_out(report))[1])
    (row,) = judged([_row(REPORTS[1])], STRICT)
    report = row.report
    assert (report.verdict, report.flags, report.coverage) == (
        report.verdict,
        {"a", "b", "c"},
        "abc",
    )
    assert len(asked) == 1


def test_rows_are_judged_where_they_are_looked_at():
    taken = []
    rows = judged((taken.append(row) or row for row in map(_row, REPORTS)), STRICT)
    first = next(rows)
    assert (first.key, first.axes, len(taken)) == ("dfa_s1", {"lam": 0.1}, 1)
    assert [row.report.margin_pp for row in rows] == [None, pytest.approx(-4.9), None]
    assert len(taken) == len(REPORTS)


def test_what_a_log_does_not_say_comes_before_the_assumed_baseline():
    log = DiagnosticReport(residual_norms=[900.0], headline_acc=0.3)
    found = Scan(rows=[_row(log)])
    baseline = FrozenBaseline(default=0.349)
    chosen = Chosen(Criteria(STRICT, baseline), log=Log(h0=8.7, blocks=4))
    (row,) = judged(of_methods_and_seeds(found, chosen)[0], STRICT)
    shown = Session(found.rows, thresholds=STRICT, baseline=baseline, log=chosen.log)
    assert row.report.flags == {"a", "d"} == shown.judged(0).flags
