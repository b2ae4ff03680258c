"""Reports and tables where people work with them: files, notebooks, data frames."""

import json

import pytest

import fa_core
from fa_core import DiagnosticReport, DiagnosticThresholds, load_audits
from fa_core.errors import InvalidReport, UnreadableInput


@pytest.fixture
def report():
    return DiagnosticReport(
        method_name="dfa",
        seed=42,
        residual_norms=[1.0, 694.0, float("nan")],
        bp_grad_norms=[1e-3, 1e-9, 1e-9],
        headline_acc=0.31,
    )


def test_what_is_saved_is_loaded_and_opened_as_it_was(report, tmp_path):
    path = tmp_path / "dfa_s42.json"
    report.save(path)
    assert repr(DiagnosticReport.load(path).to_dict()) == repr(report.to_dict())
    (row,) = load_audits(path).rows()
    assert (row.method, row.seed, row.report.flags) == ("dfa", 42, report.flags)


def test_a_file_of_several_runs_is_not_one_report(published_table):
    with pytest.raises(UnreadableInput, match=r"fa_core\.load_audits reads it"):
        DiagnosticReport.load(published_table)


@pytest.mark.parametrize("text", ["", "[]", "{", "null"])
def test_what_is_no_report_says_which_file(text, tmp_path):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(UnreadableInput, match=r"x\.json"):
        DiagnosticReport.load(path)


def test_wrong_fields_name_their_place(tmp_path):
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"residual_norms": "no"}))
    with pytest.raises(InvalidReport, match="residual_norms"):
        DiagnosticReport.load(path)


def test_a_notebook_shows_the_text_and_no_name_of_a_file_is_markup_there(report):
    assert report._repr_html_().startswith("<pre>dfa seed 42: needs walk-back")
    name = "<script>alert(1)</script>\x1b[2J"
    html = DiagnosticReport(method_name=name, notes=name)._repr_html_()
    assert "<script" not in html and "\x1b" not in html


def test_a_table_as_a_data_frame(published_table):
    pytest.importorskip("pandas")
    table = load_audits(published_table)
    frame = table.to_pandas()
    assert len(frame) == 15
    assert frame["max_per_block_growth"].tolist() == table.growth.tolist()
    fired = frame[frame["flags"].str.contains("a")]
    assert set(fired["method"]) == {"dfa", "state_bridge", "credit_bridge"}
    strict = table.to_pandas(DiagnosticThresholds(h_norm_explosion_ratio=1.0))
    assert strict["flags"].str.contains("a").sum() > len(fired)


def test_the_monitor_is_a_public_name():
    assert fa_core.ProtocolMonitor.__module__ == "fa_core.monitor"
