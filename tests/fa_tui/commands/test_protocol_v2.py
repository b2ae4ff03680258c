"""The second reading: the successor's checks D1, D2, D3 on the numbers of (a), (b), (d)."""

import math

import pytest
from msgspec.structs import replace

from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.diagnostics import recorded_flags
from fa_core.report.report_facts import NORMS
from fa_core.report.verdict_text import second_reading
from fa_tui.cli import main
from tests.fa_tui.printing import complaint, printed

EXPLODED = {"residual_norms": [1.0, 100.0], "bp_grad_norms": [1.0, 1e-9]}
QUIET = {"residual_norms": [1.0, 1.0], "bp_grad_norms": [1.0, 1.0]}


@pytest.mark.parametrize(
    ("norms", "drift", "baseline", "verdict"),
    [
        (EXPLODED, 0.9, 0.5, "FAIL(D1+D2+D3)"),
        (EXPLODED, 0.0, 0.1, "FAIL(D1+D2)"),
        (QUIET, 0.9, 0.1, "PASS"),
        (QUIET, math.nan, 0.1, "PASS"),
        (QUIET, None, None, "PASS; D3 missing"),
        ({"residual_norms": [1.0, math.nan]}, None, 0.1, "FAIL(D1); D2 missing"),
        ({"residual_norms": [], "bp_grad_norms": []}, 0.9, None, "not measured"),
    ],
)
def test_only_three_numbers_are_judged(norms, drift, baseline, verdict):
    report = DiagnosticReport(
        method_name="dfa",
        headline_acc=0.5,
        cross_batch_stability=drift,
        frozen_baseline_acc=baseline,
        credit={"gamma": [0.4, 0.1]},
        **norms,
    )
    assert second_reading(report) == verdict


@pytest.mark.parametrize("gamma", [[0.4], [0.4, None], [0.4, math.nan]])
def test_gamma_is_required_of_a_trained_network_at_every_layer(gamma):
    report = DiagnosticReport(method_name="dfa", credit={"gamma": gamma}, **QUIET)
    assert second_reading(report) == "PASS; D3, Γ missing"
    # of a network of unknown depth
    ends = {"residual_norms": [5.0], "bp_grad_norms": [1.0], "growth_bound": 1.0}
    report = replace(report, **ends, layers=dict.fromkeys(NORMS, "L"))
    assert second_reading(report) == "PASS; D3, Γ missing"
    assert second_reading(DiagnosticReport(method_name="dfa", **QUIET)) == "PASS; D3, Γ missing"
    assert second_reading(DiagnosticReport(method_name="random_init", **QUIET)) == "control"


def test_an_interval_that_holds_the_threshold_leaves_its_check_open():
    report = DiagnosticReport(
        residual_norms=[1.0, 49.0],
        intervals={"growth": (40.0, 60.0)},
        credit={"gamma": [0.4, 0.1]},
    )
    assert second_reading(report) == "undecided on D1; D2, D3 missing"


def test_its_verdicts_in_published_lists_are_read_back():
    assert recorded_flags("FAIL(D1+D3)") == frozenset("ad")
    assert recorded_flags("PASS") == frozenset()
    assert recorded_flags("FAIL(D4)") is None


def test_show_check_and_report_take_it_and_no_other_command(sample_runs, tmp_path, capsys):
    published = str(sample_runs / "audit_table_s42_s123_s456.json")
    assert "FAIL(D1+D2+D3); Γ missing" in printed(capsys, "show", published, "--protocol", "v2")
    assert (
        printed(capsys, "check", published, "--protocol", "v2", code=1).splitlines()[-1]
        == "15 runs: 0 PASS"
    )
    assert "PASS; D3, Γ missing" in printed(
        capsys, "check", published, "--protocol", "v2", "--methods", "bp", code=4
    ), "without Γ a run is open"
    out = tmp_path / "v2.md"
    assert main(["report", published, "--protocol", "v2", "--out", str(out)]) == 0
    assert "## Second reading" in out.read_text()
    assert "--protocol" in complaint(capsys, "seeds", published, "--protocol", "v2")
