"""Formats 4 and 5: penalty logs, and files of epochs that are cut or broken."""

import json
import math
from pathlib import Path

import msgspec
import pytest

from fa_core.errors import FaError, UnreadableInput
from fa_core.formats import scan
from fa_core.formats.trace import with_growth_bound
from fa_core.report.diagnostic_report import DiagnosticReport
from tests.json_files import put_json

LOG = [
    {"epoch": 1, "h_L_norm": 20.0, "g_2_norm": 1e-3, "test_acc": 0.2},
    {"epoch": 30, "h_L_norm": 4096.0, "g_2_norm": 2e-4, "test_acc": 0.36},
]


def penalty(tmp_path, **header):
    path = put_json(
        tmp_path / "dfa_pen_lam0.01_s42.json",
        {"lam": 0.01, "seed": 42, "final_test_acc": 0.3631, "log": LOG, **header},
    )
    return scan([path])


def test_a_penalty_log_is_an_audit_of_its_last_epoch_and_a_trace(tmp_path):
    found = penalty(tmp_path)
    (row,), (trace,) = found.rows, found.traces
    for run in (row, trace):
        assert (run.key, run.method, run.seed) == ("dfa_pen_lam0.01_s42", "dfa", 42)
        assert run.axes == {"lam": 0.01}
    assert row.report.headline_acc == 0.3631
    assert row.report.by_layer("residual_norms") == {"L": 4096.0}
    assert row.report.by_layer("bp_grad_norms") == {"2": 2e-4}
    assert [epoch.test_acc for epoch in trace.epochs] == [0.2, 0.36]
    judged = row.report.with_frozen_baseline(0.349)
    assert (judged.margin_pp, judged.flags, judged.evidence) == (1.41, {"d"}, {"b": "proxy"})


@pytest.mark.parametrize(("said", "is_control"), [({}, False), ({"method": "frozen"}, True)])
def test_no_file_name_makes_a_penalty_log_a_control_or_a_baseline(tmp_path, said, is_control):
    path = penalty(tmp_path, **said).rows[0].source
    (row,) = scan([Path(path).rename(tmp_path / "frozen_s42.json")]).rows
    assert (row.method, row.is_control) == ("frozen", is_control)


def test_growth_is_not_measured_in_a_penalty_log_and_says_why(tmp_path):
    report = penalty(tmp_path).rows[0].report
    assert (report.growth_bound, report.coverage, report.evidence) == (None, "b", {"b": "proxy"})
    assert "--h0 and --blocks" in report.unmeasured["a"] and "c" in report.unmeasured


def test_a_diverged_log_is_walked_back(tmp_path):
    log = [*LOG, {"epoch": 31, "h_L_norm": float("nan"), "g_2_norm": 1e-3}]
    assert penalty(tmp_path, log=log).rows[0].report.flags == {"a"}


def test_what_a_header_says_is_kept_noted_or_refused(tmp_path):
    row = penalty(tmp_path, frozen_baseline_acc=0.0, verdict="trustworthy", x=1).rows[0]
    assert (row.report.frozen_baseline_acc, row.report.recorded_verdict) == (0.0, "trustworthy")
    assert "in the file, not used: x" in row.report.notes
    log = [{**LOG[1], "gamma": [0.1, -0.1, -0.1]}]
    row = penalty(tmp_path, log=log, credit={"gamma": [0.1, 0.9]}).rows[0]
    assert row.report.deep_gamma == -0.1 and "not used: credit" in row.report.notes
    for wrong in (
        {"final_test_acc": "x"},
        {"log": [{"epoch": "x", "test_acc": 0.1}]},
        {"log": [1]},
        {"final_test_acc": 0.9},
        {"log": [{**LOG[1], "frozen_baseline_acc": 0.6}], "frozen_baseline_acc": 0.1},
        {"method": "bp", "method_name": "ep"},
        {"log": [{**LOG[1], "method": "bp"}], "method": "dfa"},
        {"log": [{**LOG[1], "run": "bp_s42"}], "method": "dfa"},
        {"log": [{**LOG[1], "run": "dfa_lam0.5_s42"}]},
        {"log": [{**LOG[1], "run": "mine_s43"}]},
        {"log": [{**LOG[1], "lam": 0.5}]},
        {"log": [{**LOG[1], "seed": seed} for seed in (42, 43)]},
        {"log": [{"epoch": 1, "h_norms": [1.0, 1.0], "gamma": [0.1, 0.1, 0.1]}]},
    ):
        with pytest.raises(FaError, match="dfa_pen"):
            penalty(tmp_path, **wrong)


@pytest.mark.parametrize(
    ("epochs", "said"),
    [
        ([{**LOG[1], "epoch": 31}, LOG[0]], "not one entry for each epoch, in order"),
        ([LOG[0], LOG[0]], "not one entry for each epoch, in order"),
        ([*LOG, {"epoch": 31, "test_acc": 0.4, "g_2_norm": 1e-3}], "no residual_norms at the last"),
        ([{**LOG[0], "h_0_norm": 1.0}, LOG[1]], "no residual_norms at the last epoch"),
        ([{"epoch": 1, "frozen_baseline_acc": 0.3}, LOG[1]], "no frozen_baseline_acc at the last"),
        ([{**LOG[0], "h_norms": [1.0] * 3}, {**LOG[1], "h_norms": [1.0] * 2}], "no residual_norms"),
        (
            [{**LOG[0], "gamma": [0.1, 0.1]}, {**LOG[1], "gamma": [None, 0.1]}],
            "no gamma at the last",
        ),
        ([*LOG, None], "not a list of epochs"),
    ],
)
def test_a_penalty_log_whose_last_epoch_is_in_doubt_is_refused(tmp_path, epochs, said):
    with pytest.raises(UnreadableInput, match=said):
        penalty(tmp_path, log=epochs, final_test_acc=None)
    if "frozen" in said:
        row = penalty(tmp_path, log=epochs, frozen_baseline_acc=0.3).rows[0]
        assert row.report.coverage == "bd"


def test_a_lone_norm_of_a_file_that_names_no_layer_stays_of_an_unknown_one():
    assert DiagnosticReport(residual_norms=[5.0]).by_layer("residual_norms") == {"?": 5.0}
    assert DiagnosticReport(residual_norms=[5.0], tap_names=["embed"]).by_layer(
        "residual_norms"
    ) == {"0": 5.0}


@pytest.mark.parametrize("h_L", [-1.0, float("nan"), float("inf")])
def test_a_norm_that_is_none_bounds_nothing(h_L):
    report = DiagnosticReport(residual_norms=[h_L])
    assert math.isnan(with_growth_bound(report, 1.0, 4).growth_bound or 0.0)
    of_the_first = msgspec.structs.replace(report, layers={"residual_norms": "0"})
    assert with_growth_bound(of_the_first, 1.0, 4) is of_the_first


EPOCHS = [{"epoch": e, "test_acc": e / 10, "h_norms": [1.0, 2.0]} for e in (1, 2, 3)]


def test_a_half_written_last_line_waits_for_its_rest(tmp_path):
    path = tmp_path / "dfa_s1.jsonl"
    path.write_text("\n".join(map(json.dumps, EPOCHS))[:-10])
    found = scan([path])
    assert len(found.traces[0].epochs) == 2
    assert (found.traces[0].unfinished, found.problems) == (True, [])


def test_a_bad_line_inside_is_named_and_the_rest_is_kept(tmp_path):
    path = tmp_path / "dfa_s1.jsonl"
    first, _, last = map(json.dumps, EPOCHS)
    path.write_text("\n".join([first, "{oops", '{"epoch": 2, "h_norms": [1, "x"]}', last, ""]))
    found = scan([path])
    assert [epoch.epoch for epoch in found.traces[0].epochs] == [1, 3]
    malformed, wrong = (problem.message for problem in found.problems)
    assert "line 2" in malformed
    assert "line 3" in wrong and ".residual_norms[1]" in wrong
