"""One table names the numbers of a run, and every surface reads it."""

import pytest

from fa_core.formats.audit_table import summary_row
from fa_core.formats.log_columns import columns_of
from fa_core.formats.rows import RECORDED, AuditRow
from fa_core.formats.table import AuditTable
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.diagnostics import DIAGNOSTICS, LETTERS
from fa_core.report.quantities import BY_NAME, JUDGED, QUANTITIES
from fa_core.report.report_facts import WHAT_IF, DiagnosticThresholds
from fa_core.reporting.records import COLUMNS

NAMES = {
    "growth": ("max_per_block_growth", "growth", "growth"),
    "g_L": ("g_L", "g_L", "g_L"),
    "drift": ("cross_batch_stability", "stability", "drift"),
    "margin": ("margin_pp", "margin_pp", ""),
    "acc": ("headline_acc", "acc", "acc"),
    "h_L": ("h_L", "h_L", "h_L"),
    "frozen": ("frozen_baseline_acc", "baseline", "frozen_acc"),
    "gamma": ("deep_gamma", "deep_gamma", ""),
    "null": ("null_gamma", "null_gamma", ""),
}
"""Name → field, column, name in logs: what files and scripts hold."""


def test_the_names_in_files_are_those_of_the_contracts():
    found = {each.name: (each.field, each.column, each.logged) for each in QUANTITIES}
    assert found == NAMES
    assert [each.field for each in RECORDED] == [
        *("headline_acc", "h_L", "g_L", "max_per_block_growth"),
        *("cross_batch_stability", "frozen_baseline_acc", "margin_pp"),
    ]
    assert [*summary_row(AuditRow(source="", key="", method="bp"))] == [
        *("method", "seed", "acc", "h_L", "g_L", "stability", "frozen_acc", "verdict"),
    ]


@pytest.mark.parametrize("each", QUANTITIES, ids=lambda each: each.name)
def test_every_name_leads_to_the_same_number(each):
    report = DiagnosticReport(
        *("", "", [1.0, 8.0], [0.5, 0.25], 1, 0.125, 0.75, 0.5),
        credit={"gamma": [0.9, 0.25], "null": {"deep_gamma_mean": 0.0625}},
    )
    table = AuditTable.from_rows([])
    expected = {
        "growth": 8.0,
        "g_L": 0.25,
        "drift": 0.125,
        "margin": 25.0,
        "acc": 0.75,
        "h_L": 8.0,
        "frozen": 0.5,
        "gamma": 0.25,
        "null": 0.0625,
    }
    assert each.of(report) == each.recorded(report) == expected[each.name]
    assert len(getattr(table, each.column)) == 0 and each.field in COLUMNS
    if each.logged:
        assert columns_of([f"fa/{each.logged}"], {}), "the monitor's log is read back"


def test_an_assumed_baseline_is_judged_and_not_recorded():
    report = DiagnosticReport(headline_acc=0.5).with_assumed_baseline(0.25)
    frozen = BY_NAME["frozen"]
    assert (frozen.of(report), frozen.recorded(report)) == (0.25, None)
    forged = DiagnosticReport.from_dict({"headline_acc": 0.5, WHAT_IF: 0.25})
    assert forged.margin_pp is None


def test_a_diagnostic_judges_the_number_of_its_letter():
    assert "".join(JUDGED) == LETTERS
    for letter, one in DIAGNOSTICS.items():
        assert one.quantity.letter == one.quantity.marks == letter
        assert one.quantity.heading.startswith(f"({letter}) ")
        assert one.threshold in DiagnosticThresholds.__struct_fields__


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        *[("growth", 2043.33, "2043"), ("g_L", 4.1712e-9, "4.17e-9"), ("drift", 0.9, "+0.900")],
        *[("margin", -3.831, "-3.83"), ("acc", 0.3057, "0.306"), ("h_L", 435299520.0, "4.35e8")],
        *[("drift", float("nan"), "nan"), ("acc", None, "N/A"), ("growth", float("inf"), "inf")],
    ],
)
def test_a_number_is_written_with_the_digits_of_its_kind(name, value, text):
    assert BY_NAME[name].text(value) == text
