from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa_core.errors import FaError
from fa_core.formats import load_audits, scan
from fa_core.formats.audit_table_writer import unique_keys, write_audit_table
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow
from tests.fa_core.strategies import audit_rows

REPORT = {"method_name": "BP", "residual_norms": [1.0, 2.0], "bp_grad_norms": [1e-3, 1e-3]}
COLLAPSED = {**REPORT, "residual_norms": [1.0, 200.0]}


def twice(indent: int | None, value: dict[str, Any]) -> str:
    """A table whose key ``bp_s1`` stands twice, as no writer but a merge by hand makes it."""
    text = json.dumps(
        {"reports": {"bp_s1": value, "dfa_s1": REPORT, "bp_s_": COLLAPSED}}, indent=indent
    )
    return text.replace("bp_s_", "bp_s1")


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("first", [REPORT, {**REPORT, "residual_norms": [1.0, float("nan")]}])
def test_a_key_that_stands_twice_loses_no_report(
    tmp_path: Path, indent: int | None, first: dict[str, Any]
) -> None:
    path = tmp_path / "twice.json"
    path.write_text(twice(indent, first))
    table = load_audits(path)
    assert table.key.tolist() == ["bp_s1", "dfa_s1", "bp_s1#2"]
    assert table.method.tolist() == ["bp", "dfa", "bp"]
    assert table.seed.tolist() == [1, 1, 1]
    assert table.growth[2] == 200.0
    assert "bp_s1: the key stands more than once" in table.problems[0].message


def test_mixed_indentation_and_escaped_keys_are_no_repetition(tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    inner = json.dumps(REPORT)
    path.write_text(
        f'{{"reports": {{"\\u0062p_s1" :{inner},\n\n "dfa_s2": {inner}   , "ep_s3":{inner} }} }}'
    )
    table = load_audits(path)
    assert table.key.tolist() == ["bp_s1", "dfa_s2", "ep_s3"]
    assert table.problems == ()


def test_equal_reports_under_keys_of_equal_length_hide_no_repetition(tmp_path: Path) -> None:
    path = tmp_path / "twice.json"
    path.write_text(twice(None, REPORT).replace("200.0", "2.0"))
    assert load_audits(path).key.tolist() == ["bp_s1", "dfa_s1", "bp_s1#2"]
    path.write_text(
        json.dumps({"reports": {"bp_s1": REPORT, "bp_s2": REPORT, "bp_s3": REPORT}}).replace(
            "s2", "s1"
        )
    )
    assert load_audits(path).key.tolist() == ["bp_s1", "bp_s1#2", "bp_s3"]


@pytest.mark.parametrize(
    "field", [field.encode_name for field in msgspec.structs.fields(DiagnosticReport)]
)
def test_a_field_of_the_wrong_type_is_a_problem_of_its_row_alone(
    tmp_path: Path, field: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({"reports": {"bp_s1": REPORT, "bp_s2": {**REPORT, field: [{}]}}}))
    table = load_audits(path)
    assert table.key.tolist() == ["bp_s1"]
    assert [problem.message for problem in table.problems] == [
        problem.message for problem in scan([path]).problems
    ]
    assert f"bad.json: $.reports.bp_s2.{field}" in table.problems[0].message


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_non_finite_numbers_are_read_and_walked_back(tmp_path: Path, literal: str) -> None:
    path = tmp_path / "diverged.json"
    path.write_text(
        json.dumps({"reports": {"bp_s1": REPORT, "bp_s2": COLLAPSED}}).replace("200.0", literal)
    )
    rows = scan([path]).rows
    assert rows[0].report.verdict == "trustworthy"
    assert rows[1].report.verdict == "needs walk-back: residual stream exploded"
    assert "layer 1" in rows[1].report.nonfinite["a"]


def test_one_bad_report_leaves_the_others(tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    path.write_text(
        json.dumps({"reports": {"bp_s1": REPORT, "bp_s2": {**REPORT, "headline_acc": 61}}})
    )
    found = scan([path])
    assert [row.key for row in found.rows] == ["bp_s1"]
    assert "$.reports.bp_s2: headline_acc is 61.0" in found.problems[0].message


def test_a_table_without_reports_is_empty_and_no_error(tmp_path: Path) -> None:
    write_audit_table(tmp_path / "none.json", [])
    assert len(load_audits(tmp_path / "none.json")) == 0


@settings(deadline=None, max_examples=50)
@given(rows=st.lists(audit_rows(), max_size=6))
def test_written_rows_are_read_again_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, rows: list[AuditRow]
) -> None:
    path = tmp_path_factory.getbasetemp() / "round_trip.json"
    write_audit_table(path, rows)
    back = scan([path]).rows
    assert [(r.method, r.seed, r.axes, r.checkpoint) for r in back] == [
        (r.method, r.seed, r.axes, r.checkpoint) for r in rows
    ]
    for original, again in zip(rows, back, strict=True):
        assert repr(again.report.residual_norms) == repr(original.report.residual_norms)
        assert repr(again.report.margin_pp) == repr(original.report.margin_pp)
        assert again.report.verdict == original.report.verdict == again.report.recorded_verdict
    assert len({row.key for row in back}) == len(back)


def test_keys_are_method_and_seed_and_name_the_axes_where_those_collide(tmp_path: Path) -> None:
    rows = [
        AuditRow(
            source="",
            key="x",
            method="dfa",
            seed=1,
            report=DiagnosticReport(residual_norms=[1.0]),
            axes=axes,
        )
        for axes in ({"lam": 0.01}, {"lam": 0.1}, {"d": 64, "L": 4}, {"d": 64, "L": 4})
    ]
    write_audit_table(tmp_path / "out.json", rows)
    written = json.loads((tmp_path / "out.json").read_text())
    assert list(written["reports"]) == [
        "dfa_s1_lam0.01",
        "dfa_s1_lam0.1",
        "dfa_s1_L4_d64",
        "dfa_s1_L4_d64#2",
    ]
    assert [row.axes for row in scan([tmp_path / "out.json"]).rows] == [row.axes for row in rows]


@pytest.mark.parametrize("axes", [{}, {"lam": 0.01}, {"d": 64, "L": 4}])
@pytest.mark.parametrize(
    "folders", [("bp_s100", "bp_s104"), ("a/bp_s1", "b/bp_s1"), ("seed7", "x-seed_8")]
)
def test_runs_told_apart_by_folders_named_like_other_seeds_keep_their_own(
    tmp_path: Path, folders: tuple[str, str], axes: dict[str, Any]
) -> None:
    rows = [
        AuditRow(
            source="here",
            key="",
            method="bp",
            seed=1,
            axes=axes,
            checkpoint=f"/runs/{folder}",
            report=DiagnosticReport(method_name="bp", seed=1, axes=axes, residual_norms=[1.0, 2.0]),
        )
        for folder in folders
    ]
    table = tmp_path / "audit.json"
    write_audit_table(table, rows)
    assert [(row.method, row.seed, row.axes) for row in scan([table]).rows] == [("bp", 1, axes)] * 2


def test_keys_do_not_depend_on_the_order_of_the_runs(tmp_path: Path) -> None:
    rows = [
        AuditRow(source=place, key="bp_s42", method="bp", seed=42, checkpoint=place, axes=axes)
        for place, axes in (
            ("main/bp_s42", {}),
            ("controls/bp_input128_s42", {"input": 128}),
            ("a/x", {}),
            ("b/x", {}),
        )
    ]
    keys = dict(zip((row.source for row in rows), unique_keys(rows), strict=True))
    assert list(keys.values()) == ["bp_s42@bp_s42", "bp_s42_input128", "bp_s42@x@a", "bp_s42@x@b"]
    assert (
        dict(zip((row.source for row in rows[::-1]), unique_keys(rows[::-1]), strict=True)) == keys
    )
    assert unique_keys(rows[:2]) == ["bp_s42", "bp_s42_input128"]


def test_the_published_summary_comes_out_as_published(
    tmp_path: Path, published_table: Path
) -> None:
    write_audit_table(
        tmp_path / "out.json", scan([published_table]).rows, extra={"made_by": "test"}
    )
    written = json.loads((tmp_path / "out.json").read_text())
    published = json.loads(published_table.read_text())
    assert written["summary"] == published["summary"]
    assert list(written["reports"]) == list(published["reports"])
    assert written["made_by"] == "test"


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.json"
    row = AuditRow(
        source="", key="x", method="bp", seed=1, report=DiagnosticReport(residual_norms=[1.0, 2.0])
    )
    write_audit_table(path, [row])
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FaError, match="No space left"):
        write_audit_table(path, [msgspec.structs.replace(row, seed=2)])
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.json"]


def test_writing_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/out.json").write_text("{}")
    (tmp_path / "out.json").symlink_to(tmp_path / "real/out.json")
    write_audit_table(tmp_path / "out.json", [])
    assert (tmp_path / "out.json").is_symlink()
    assert json.loads((tmp_path / "real/out.json").read_text())["reports"] == {}
