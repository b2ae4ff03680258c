"""An assumed frozen baseline judges (d); nothing takes it for a measured one."""

import json

from fa_core.formats import scan
from fa_core.formats.audit_table import write_audit_table
from fa_core.formats.table import AuditTable
from tests.fa_core.analysis.runs import row
from tests.fa_core.strategies import assuming

MEASURED = {"growth": 2.0, "g_L": 0.1, "cosine": 0.1, "acc": 0.36}


def rows():
    return [
        row("ep", **MEASURED, unmeasured={"d": "nobody trained one"}),
        row("dfa", **MEASURED, baseline=0.5),
    ]


REPORT, KNOWN = (one.report for one in rows())


def both_assumed():
    """EP assumed, DFA's recorded 0.5 replaced."""
    return assuming(AuditTable.from_rows(rows()), 0.349, dfa=0.1)


def test_it_judges_d_and_stays_apart_from_what_is_recorded():
    report = KNOWN.with_assumed_baseline(0.1)
    assert (KNOWN.flags, report.flags, report.margin_pp) == ({"d"}, frozenset(), 26.0)
    assert (report.frozen_baseline_acc, report.assumed_baseline_acc) == (0.5, 0.1)
    assert report.baseline_acc == 0.1
    assert (report.coverage, report.measured, KNOWN.measured) == ("abcd", "abc", "abcd")
    assert report.kinds == {"d": "assumed"} and report.evidence == {}
    assert report.as_recorded() == KNOWN
    assert "[baseline 0.1 assumed, 0.5 recorded]" in report.describe()[3]


def test_no_dict_and_no_file_holds_it(tmp_path):
    assert REPORT.with_assumed_baseline(0.349).to_dict() == REPORT.to_dict()
    write_audit_table(tmp_path / "assumed.json", both_assumed().rows())
    write_audit_table(tmp_path / "recorded.json", rows())
    assert (tmp_path / "assumed.json").read_bytes() == (tmp_path / "recorded.json").read_bytes()
    reports = [one.report for one in scan([tmp_path / "assumed.json"]).rows]
    assert [report.frozen_baseline_acc for report in reports] == [None, 0.5]
    assert [report.unmeasured for report in reports] == [{"d": "nobody trained one"}, {}]
    summary = json.loads((tmp_path / "assumed.json").read_text())["summary"]
    assert [line["frozen_acc"] for line in summary] == [None, 0.5]


def test_a_table_of_rows_that_assume_knows_it_as_one_that_assumes_itself():
    table = both_assumed()
    again = AuditTable.from_rows(table.rows())
    for one in (table, again):
        assert one.assumed.tolist() == [True, True]
        assert one.margin_pp.tolist() == [1.1, 26.0] and one.baseline.tolist() == [0.349, 0.1]
        assert one.report(1).as_recorded() == KNOWN
    assert AuditTable.from_rows(rows()).assumed.tolist() == [False, False]
