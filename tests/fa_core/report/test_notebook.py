"""Reports and tables where people work with them: files, notebooks, data frames."""

import pytest

from fa_core import DiagnosticReport, DiagnosticThresholds, load_audits


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
    (row,) = load_audits(path).rows()
    assert repr(row.report.to_dict()) == repr(report.to_dict())
    assert (row.method, row.seed, row.report.flags) == ("dfa", 42, report.flags)


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
