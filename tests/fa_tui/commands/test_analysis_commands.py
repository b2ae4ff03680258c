"""The analysis commands: the published figures as JSON, tables for reading, and words for what cannot be said."""

import json
import re

import pytest

from fa_core.analysis.seeds import over_seeds
from fa_core.analysis.threshold_sweep import sensitivities
from fa_core.analysis.utility import decision_utility
from fa_core.formats import load_audits
from fa_core.formats.audit_table import write_audit_table
from fa_core.report.diagnostic_report import DiagnosticReport
from tests.fa_core.rows import row_of
from tests.fa_tui.printing import complaint, printed, printed_json, ran
from tests.json_files import put_json


def write_trace(path, fires_b, epochs=100):
    g_L = {epoch: 1e-9 if epoch >= fires_b else 1e-3 for epoch in range(1, epochs + 1)}
    lines = [
        {
            "epoch": epoch,
            "test_acc": 0.3076,
            "residual_norms": [1.0, 2.0],
            "bp_grad_norms": [1e-3, norm],
        }
        for epoch, norm in g_L.items()
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")


ANALYSES = {
    "seeds": lambda runs: over_seeds(runs).to_dict(),
    "utility": lambda runs: decision_utility(runs).to_dict(),
    "sweep": lambda runs: [one.to_dict() for one in sensitivities(runs)],
}


@pytest.mark.parametrize("command", ANALYSES)
def test_json_holds_the_analysis_unrounded(command, published_table, capsys):
    expected = ANALYSES[command](load_audits([published_table]))
    assert printed_json(capsys, command, published_table) == json.loads(json.dumps(expected))


@pytest.mark.parametrize(
    "given", ["", "audit_table_s42_s123_s456.json", "audit_cnn_3seed.json", "main"]
)
def test_the_sweep_is_one_table_in_120_columns(sample_runs, given, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for width in (120, 80):
        monkeypatch.setenv("COLUMNS", str(width))
        out = printed(capsys, "sweep", sample_runs / given)
        lines = re.sub(r"\x1b\[[0-9;]*m", "", out).splitlines()
        assert max(map(len, lines)) <= width
        rows = [line for line in lines if line.startswith("(b) ‖g_L‖ < 1e-7")]
        grouped = "Healthy:" in out
        assert (len(rows) > 1) == (grouped and width == 80), "columns that do not fit stand below"


def test_an_axis_and_a_spread_are_told_without_the_noise_of_floats(tmp_path, capsys):
    path = tmp_path / "audit.json"
    report = DiagnosticReport(
        residual_norms=[1.0, 2.0], bp_grad_norms=[1e-3, 1e-3], headline_acc=0.7
    )
    lams = (0.1 + 0.2, 0.1234567)
    rows = [
        row_of("dfa", "a", seed=seed, report=report, axes={"lam": lam})
        for lam in lams
        for seed in (1, 2, 3)
    ]
    write_audit_table(path, rows)
    out = printed(capsys, "seeds", path)
    assert "0.700 ± 0.000" in out and "dfa λ=0.1234567 " in out
    assert "0.300000" not in out and "0.70000" not in out
    groups = printed_json(capsys, "seeds", path)["groups"]
    assert groups[0]["stats"]["headline_acc"]["std"] > 0, "there is noise to leave out"
    assert tuple(group["axes"]["lam"] for group in groups) == lams, "the data keep every digit"


def test_what_a_filter_leaves_out_is_said_below_the_table(published_table, capsys):
    given = (published_table, "--filter", "method:dfa seed:42")
    partly, healthy = (
        "- Only some runs of a method pass the filter: dfa 1 of 3.",
        "leaves out every healthy run",
    )
    for command in ("sweep", "utility", "seeds"):
        out = printed(capsys, command, *given)
        assert partly in out
        assert (healthy in out) == (command == "sweep")
        assert "filter" not in printed(capsys, command, published_table)
        assert "filter" not in printed(capsys, command, *given, "--format", "json")


def test_sweep_takes_the_groups_from_the_user(published_table, capsys):
    a, *_ = printed_json(capsys, "sweep", published_table, "--healthy", "bp")
    assert (a["healthy"]["runs"], a["degenerate"]["runs"], a["neither"]) == (3, 9, ["ep"])
    a, *_ = printed_json(
        capsys, "sweep", published_table, "--healthy", "none", "--degenerate", "DFA"
    )
    assert (a["healthy"]["runs"], a["degenerate"]["runs"]) == (0, 3)
    assert "known: bp" in complaint(capsys, "sweep", published_table, "--healthy", "pb")


def test_the_bound_on_growth_is_taken_over_epochs(tmp_path, capsys):
    log = [
        {"epoch": epoch, "h_L_norm": 9.0 * 60.0 ** (2 * epoch), "test_acc": 0.3}
        for epoch in (1, 2, 3)
    ]
    for lam, entries in ((0.0, log), (0.01, log[:1])):
        path = tmp_path / f"dfa_pen_lam{lam}_s42.json"
        put_json(path, {"lam": lam, "seed": 42, "final_test_acc": 0.3, "log": entries})
    given = (tmp_path, "--h0", "9", "--blocks", "4")
    plain, penalised = printed_json(capsys, "timeline", *given)["runs"]
    assert (plain["first_fire"]["a"], plain["evidence"]["a"]) == (2, "bound")
    assert penalised["first_fire"]["a"] is None
    out = printed(capsys, "timeline", *given)
    assert "~ bound" in out and "– bound" not in out, (
        "a lower bound never shows that (a) does not fire"
    )


@pytest.mark.parametrize("command", ["seeds", "sweep", "utility", "timeline"])
def test_tables_name_what_is_missing(command, published_cnn, capsys):
    out, err = ran(capsys, (command, published_cnn), 0)
    assert err == ""
    assert "not measured" in out or "nothing to replay" in out
    assert "63.357×" not in out


def test_timeline_prints_first_fires_and_savings(tmp_path, capsys):
    for seed, epoch in ((42, 4), (123, 4), (456, 3)):
        write_trace(tmp_path / f"dfa_s{seed}.jsonl", epoch)
    found = printed_json(capsys, "timeline", tmp_path, "--stop-on", "b")
    (method,) = found["methods"]
    assert (method["seeds"], method["first_fire"]["b"]) == ([42, 123, 456], [4, 4, 3])
    out = printed(capsys, "timeline", tmp_path)
    assert "4/4/3" in out and "96%" in out


def test_a_growing_trace_is_followed(tmp_path, capsys, monkeypatch):
    path = tmp_path / "dfa_s42.jsonl"
    write_trace(path, fires_b=50, epochs=10)

    def grow_once(*watched):
        assert watched == (tmp_path,)
        write_trace(path, fires_b=5, epochs=12)
        yield set()
        raise KeyboardInterrupt

    monkeypatch.setattr("fa_tui.commands.analyses.watch", grow_once)
    out, err = ran(capsys, ("timeline", tmp_path, "--follow"), 0)
    assert err == ""
    rows = [line.split() for line in out.splitlines() if line.strip().startswith("dfa_s42")]
    assert [row[1] for row in rows] == ["10", "12"]
    assert [row[3] for row in rows] == ["–", "5"]


def test_a_seed_or_method_nobody_has_is_a_usage_error(published_table, capsys):
    assert "present: 123, 42, 456" in complaint(capsys, "seeds", published_table, "--seeds", "7")
    assert "whole number" in complaint(capsys, "seeds", published_table, "--seeds", "x")
    assert "--methods" in complaint(capsys, "seeds", published_table, "--methods", "xyz")


@pytest.mark.parametrize(
    "command", ["seeds", "sweep", "utility", "timeline", "report --out never.html"]
)
def test_nothing_to_analyse_is_an_error_and_prints_no_table(command, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    out, err = ran(capsys, (*command.split(), "empty"), 3)
    assert out == ""
    assert "Traceback" not in err and err.count("\n") <= 2
    assert not (tmp_path / "never.html").exists()


def test_a_report_names_every_file_of_before_that_it_wrote_over(tmp_path, sample_runs, capsys):
    out = tmp_path / "r.md"
    (tmp_path / "r-other.svg").touch()
    table = sample_runs / "audit_table_s42_s123_s456.json"
    files, said = ran(capsys, ("report", table, "--out", out), 0)
    assert "written over" not in said
    said = complaint(capsys, "report", table, "--out", out, code=0)
    named = {line.split()[1] for line in said.splitlines() if "written over" in line}
    assert named == set(files.split()) and len(named) > 1


@pytest.mark.parametrize("named", ["log.csv", "."])
@pytest.mark.parametrize("cell", ["0.2", "cut"])
def test_a_report_is_not_written_over_what_it_read_or_could_not_read(
    named, cell, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.csv").write_text("epoch,test_acc\n0,0.1\n1,0.2\n")
    log = tmp_path / "log.csv"
    log.write_text(f"epoch,test_acc\n0,0.1\n1,{cell}\n")
    before = log.read_text()
    paths = dict.fromkeys([named, "good.csv"])
    out, err = ran(capsys, ["report", *paths, "--out", "./log.csv"], 2)
    assert (out, log.read_text()) == ("", before)
    assert "log.csv: was read for this report" in err


def test_pitfalls_explain_with_the_installed_versions(capsys):
    import torch

    out = printed(capsys, "pitfalls", "norm-axis", "2", "half-flush")
    assert "1.142857" in out and "[5, 10]" in out and "0.0181" in out
    assert "torch " + torch.__version__.partition("+")[0] in out
    assert [line[:2] for line in out.splitlines() if line[:1].isdigit()] == ["1.", "2.", "3."]
