"""A big audit table, decoded report by report, holds what it holds when decoded as a whole."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fa_core.errors import UnreadableInput
from fa_core.formats import json_document, load_audits, report_object, scan
from fa_core.formats.audit_table_writer import write_audit_table
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow
from fa_core.table import AuditTable
from tests.fa_core.strategies import audit_rows

REPORT = {
    "method_name": "BP",
    "residual_norms": [1.0, 2.0],
    "bp_grad_norms": [1e-3, 1e-3],
    "notes": "as found",
}


@pytest.fixture(autouse=True)
def split_small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_document, "SPLIT_FROM", 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table.json"


def reports(count: int) -> dict[str, Any]:
    return {f"bp_s{seed}": {**REPORT, "residual_norms": [1.0, 2.0 + seed]} for seed in range(count)}


def assert_equal(table: AuditTable, other: AuditTable) -> None:
    """Column by column, NaN equal to NaN."""
    for name, column in table._columns().items():
        if name in ("residual_norms", "bp_grad_norms"):
            np.testing.assert_array_equal(column.flat, getattr(other, name).flat)
            np.testing.assert_array_equal(column.offsets, getattr(other, name).offsets)
        elif name != "_rows":
            np.testing.assert_array_equal(column, getattr(other, name))


def whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> AuditTable:
    with monkeypatch.context() as patch:
        patch.setattr(json_document, "SPLIT_FROM", 1 << 40)
        return load_audits(path, strict=False)


@settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=st.lists(audit_rows(), min_size=2, max_size=12), indent=st.sampled_from([None, 2]))
def test_rows_of_a_split_table_hold_what_the_others_hold(
    path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[AuditRow], indent: int | None
) -> None:
    write_audit_table(path, rows)
    path.write_text(json.dumps(json.loads(path.read_text()), indent=indent))
    expected, table = whole(path, monkeypatch), load_audits(path, strict=False)
    assert_equal(table, expected)
    assert table.problems == expected.problems
    assert [repr(row.report) for row in table.rows()] == [
        repr(row.report) for row in expected.rows()
    ]


def test_rows_of_two_files_keep_their_order_where_they_alternate(path: Path) -> None:
    path.write_text(json.dumps({"reports": reports(6)}))
    other = path.with_name("other.json")
    other.write_text(
        json.dumps({"reports": {"dfa_s1": {**REPORT, "residual_norms": [1.0, 50.0]}, **reports(2)}})
    )
    first, second = scan([path]).rows, scan([other]).rows
    rows = [first[4], second[0], first[0], second[2], first[5]]
    assert AuditTable.from_rows(rows).h_L.tolist() == [6.0, 50.0, 2.0, 3.0, 7.0]


def test_a_summary_is_not_needed_and_not_in_the_way(path: Path) -> None:
    summaries: tuple[dict[str, Any], ...] = (
        {},
        {"summary": []},
        {"summary": [{"method": "bp", "h_L": float("nan")}]},
        {"more": {"a": [1]}},
    )
    for summary in summaries:
        path.write_text(json.dumps({"reports": reports(3), **summary}))
        assert load_audits(path).h_L.tolist() == [2.0, 3.0, 4.0]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_table_cut_off_anywhere_is_called_truncated(path: Path, indent: int | None) -> None:
    text = json.dumps(
        {"reports": reports(3), "summary": [{"method": "bp"}, {"method": "bp"}]}, indent=indent
    )
    for length in range(20, len(text) - 1):
        path.write_text(text[:length])
        with pytest.raises(UnreadableInput, match=r"truncated|malformed"):
            load_audits(path)


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "1e400"])
def test_a_diverged_run_costs_its_neighbours_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, literal: str
) -> None:
    path.write_text(json.dumps({"reports": reports(9)}).replace("5.0]", f"{literal}]"))
    table = load_audits(path)
    assert_equal(table, whole(path, monkeypatch))
    assert table.verdicts()[3] == "needs walk-back: residual stream exploded"
    assert table.report(3).notes == table.report(8).notes == "as found"


@pytest.mark.parametrize(
    "bad",
    [
        {**REPORT, "headline_acc": 61},
        {**REPORT, "notes": 5},
        {**REPORT, "thresholds": {"g_norm_floor": -1}},
        {},
        7,
    ],
)
def test_a_bad_report_is_a_problem_of_its_own(
    path: Path, monkeypatch: pytest.MonkeyPatch, bad: Any
) -> None:
    path.write_text(json.dumps({"reports": {**reports(4), "bp_s4": bad, "bp_s5": REPORT}}))
    table = load_audits(path, strict=False)
    assert table.key.tolist() == ["bp_s0", "bp_s1", "bp_s2", "bp_s3", "bp_s5"]
    assert table.problems == whole(path, monkeypatch).problems
    assert table.report(4).residual_norms == [1.0, 2.0]


@pytest.mark.parametrize("depth", [70, 500])
@pytest.mark.parametrize("field", ["credit", "provenance"])
def test_what_is_nested_too_deep_costs_a_report_and_no_number(
    path: Path, field: str, depth: int
) -> None:
    text = json.dumps({"reports": {**reports(3), "bp_s3": {**REPORT, field: {"more": "HERE"}}}})
    path.write_text(text.replace('"HERE"', "[" * depth + "]" * depth))
    table = load_audits(path, strict=False)
    found = [row.report for row in table.rows()]
    assert [len(report.residual_norms) for report in found[:3]] == [2, 2, 2]
    said = [report.notes for report in found[3:]] + [problem.message for problem in table.problems]
    assert len(said) == 1 and "nested too deep" in said[0]


def test_a_sound_report_is_decoded_without_the_slow_checks(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = DiagnosticReport(**REPORT, cross_batch_stability=0.1)
    write_audit_table(path, [AuditRow(source="", key="", method="bp", seed=1, report=sound)] * 3)
    expected = [row.report for row in whole(path, monkeypatch).rows()]
    monkeypatch.setattr(report_object, "convert", None)
    table = load_audits(path)
    assert [row.report for row in table.rows()] == expected


@pytest.mark.parametrize("key", ["NaN_s1", "9e7_s1", "bp_91827364", 'x", NaN_s3'])
def test_literals_in_keys_and_texts_are_left_alone(path: Path, key: str) -> None:
    diverged = {**REPORT, "notes": "NaN, -Infinity: 9e7", "residual_norms": [1.0, float("-inf")]}
    path.write_text(json.dumps({"reports": {"bp_s0": REPORT, key: diverged, "bp_s2": REPORT}}))
    table = load_audits(path)
    assert table.key.tolist() == ["bp_s0", key, "bp_s2"]
    assert table.h_L.tolist() == [2.0, float("-inf"), 2.0]
    assert table.report(1).notes == diverged["notes"]


@pytest.mark.parametrize("kept", ["NaN", "as published"])
def test_a_verdict_kept_next_to_the_own_one_goes_before_it(
    path: Path, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    report = {**REPORT, "verdict": "trustworthy", "recorded_verdict": kept}
    path.write_text(json.dumps({"reports": {**reports(2), "bp_s2": report}}))
    table = load_audits(path)
    assert table.recorded_verdict.tolist() == [None, None, kept]
    assert table.report(2).recorded_verdict == kept
    assert_equal(table, whole(path, monkeypatch))


@pytest.mark.parametrize("second", [0, 1, 5])
def test_a_key_that_stands_twice_loses_no_report(path: Path, second: int) -> None:
    text = json.dumps({"reports": {**reports(6), "bp_s9": REPORT}}).replace(
        "bp_s9", f"bp_s{second}"
    )
    path.write_text(text)
    table = load_audits(path)
    assert len(table) == 7
    assert "stands more than once" in table.problems[0].message


@pytest.mark.parametrize("other", [{}, {"cross_batch_stability": None}])
def test_a_measured_key_that_stands_twice_is_reported_although_another_report_lacks_it(
    path: Path, other: dict[str, None]
) -> None:
    text = json.dumps(
        {
            "reports": {
                "bp_s1": {**REPORT, "cross_batch_stability": 0.5},
                "bp_s2": {**REPORT, **other},
            }
        }
    )
    path.write_text(
        text.replace(
            '"cross_batch_stability": 0.5',
            '"cross_batch_stability": 0.5, "cross_batch_stability": 0.1',
        )
    )
    table = load_audits(path, strict=False)
    assert table.key.tolist() == ["bp_s2"]
    assert "cross_batch_stability" in table.problems[0].message


def test_reports_that_look_like_tables_are_not_cut_in_two(path: Path) -> None:
    inside = {"a": {"b": 1}, "c": {"method_name": 2}}
    nested = {"method_name": "x", "notes": 'a }, "b": {"method_name" c', "provenance": inside}
    several = {"bp_s1": {**nested, **REPORT}, "bp_s2": {**REPORT, **nested}, "bp_s3": REPORT}
    path.write_text(json.dumps({"reports": several}))
    table = load_audits(path)
    assert table.key.tolist() == ["bp_s1", "bp_s2", "bp_s3"]
    assert table.report(1).provenance == inside


def test_rows_are_like_any_other_rows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text(json.dumps({"reports": reports(5)}))
    rows = scan([path]).rows
    plain = AuditRow(source=str(path), key="bp_s2", method="bp", seed=2, report=rows[2].report)
    assert rows[2] == plain
    assert plain == rows[2]
    assert rows[2] != rows[3]
    rebased = msgspec.structs.replace(rows[2], report=plain.report.with_frozen_baseline(0.5))
    assert rebased.report.frozen_baseline_acc == 0.5
    assert msgspec.structs.replace(rows[2], checkpoint="there").report == plain.report
    assert_equal(AuditTable.from_rows(rows), whole(path, monkeypatch))
    mixed = AuditTable.from_rows([rows[3], rebased, rows[1], rows[0], plain])
    assert mixed.h_L.tolist() == [5.0, 4.0, 3.0, 2.0, 4.0]
    assert mixed.baseline[1] == 0.5
    assert [mixed.row(index).key for index in range(5)] == [
        "bp_s3",
        "bp_s2",
        "bp_s1",
        "bp_s0",
        "bp_s2",
    ]


def test_the_file_is_not_needed_any_more_once_it_is_read(path: Path) -> None:
    path.write_text(json.dumps({"reports": reports(5)}))
    rows = scan([path]).rows
    path.write_text("{}")
    assert [row.report.h_L for row in rows] == [2.0, 3.0, 4.0, 5.0, 6.0]


def test_rows_and_tables_can_be_sent_to_another_process(path: Path) -> None:
    path.write_text(json.dumps({"reports": reports(5)}))
    rows, table = pickle.loads(pickle.dumps((scan([path]).rows, load_audits(path))))
    assert rows == scan([path]).rows
    assert [row.report.h_L for row in rows] == [2.0, 3.0, 4.0, 5.0, 6.0]
    assert [row.report.notes for row in table.rows()] == ["as found"] * 5
    assert copy.copy(scan([path]).rows[1]).report.h_L == 3.0
