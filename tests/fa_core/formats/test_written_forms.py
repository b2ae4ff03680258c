"""Parts of published forms are read; an unmeasured (c) is a number to other programs."""

import math

from msgspec.structs import replace

from fa_core.files.atomic import write_json
from fa_core.formats import scan
from fa_core.formats.audit_table import write_audit_table
from fa_core.report.diagnostic_report import DiagnosticReport
from tests.fa_core.rows import row_of
from tests.json_files import json_of


def test_an_unmeasured_drift_is_a_number_in_the_file_and_unmeasured_again_when_read(
    tmp_path,
):
    report = DiagnosticReport(residual_norms=[1.0, 2.0], unmeasured={"c": "4 batches, it needs 8"})
    write_audit_table(tmp_path / "out.json", [row_of("bp_s1", report=report)])
    written = json_of(tmp_path / "out.json")
    assert f"{written['reports']['bp_s1']['cross_batch_stability']:+.3f}" == "+nan"
    assert math.isnan(written["summary"][0]["stability"])
    (row,) = scan([tmp_path / "out.json"]).rows
    assert (row.report.cross_batch_stability, row.report.coverage, row.report.verdict) == (
        None,
        "a",
        "trustworthy",
    )
    assert row.report.unmeasured == {"c": "4 batches, it needs 8"}
    measured = replace(report, cross_batch_stability=math.nan, unmeasured={})
    write_audit_table(tmp_path / "out.json", [replace(row, report=measured)])
    assert scan([tmp_path / "out.json"]).rows[0].report.flags == {"c"}


def test_parts_of_an_audit_table_are_read_alone(tmp_path, published_table):
    whole, published = json_of(published_table), scan([published_table]).rows
    write_json(tmp_path / "part.json", whole["reports"])
    assert [row.report for row in scan([tmp_path / "part.json"]).rows] == [
        row.report for row in published
    ]
    for value in ({"summary": whole["summary"]}, whole["summary"]):
        write_json(tmp_path / "part.json", value)
        rows = scan([tmp_path / "part.json"]).rows
        assert [(row.method, row.seed, row.report.h_L) for row in rows] == [
            (row.method, row.seed, row.report.h_L) for row in published
        ]
