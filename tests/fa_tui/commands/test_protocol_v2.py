"""Protocol v2: the successor's checks D1, D2, D3 on the numbers of (a), (b), (d)."""

from __future__ import annotations

import json
import math
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from fa_core.analysis.seeds import over_seeds
from fa_core.formats import scan
from fa_core.formats.audit_table_writer import write_audit_table
from fa_core.judgement.diagnostics import (
    READINGS,
    DiagnosticThresholds,
    recorded_flags,
    verdict_text,
)
from fa_core.judgement.gain import failure_mode
from fa_core.judgement.gamma import aggregation_collapse
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow
from fa_core.table import AuditTable
from fa_tui.cli import main
from fa_tui.session import Session
from fa_tui.views.words import walk_back_words

V2 = DiagnosticThresholds(protocol="v2")
EXPLODED = {"residual_norms": [1.0, 100.0], "bp_grad_norms": [1.0, 1e-9]}
QUIET = {"residual_norms": [1.0, 1.0], "bp_grad_norms": [1.0, 1.0]}


@pytest.mark.parametrize(
    ("norms", "drift", "baseline", "verdict"),
    [
        (EXPLODED, 0.9, 0.5, "FAIL(D1+D2+D3)"),
        (EXPLODED, 0.0, 0.1, "FAIL(D1+D2)"),
        (QUIET, 0.9, 0.1, "PASS"),
        (QUIET, math.nan, 0.1, "PASS"),
        (QUIET, None, None, "PASS"),
        ({"residual_norms": [1.0, math.nan], "bp_grad_norms": [1.0, 1.0]}, None, None, "FAIL(D1)"),
        ({"residual_norms": [], "bp_grad_norms": []}, 0.9, None, "not measured"),
    ],
)
def test_only_three_numbers_are_judged(norms, drift, baseline, verdict) -> None:
    report = DiagnosticReport(
        method_name="dfa",
        headline_acc=0.5,
        cross_batch_stability=drift,
        frozen_baseline_acc=baseline,
        thresholds=V2,
        **norms,
    )
    assert report.verdict == verdict
    assert "c" not in report.flags | set(report.coverage) | report.undecided


def test_a_table_says_what_its_reports_say(sample_runs: Path) -> None:
    rows = scan([sample_runs]).rows
    table = AuditTable.from_rows(rows)
    assert table.verdicts(V2) == [row.report.with_thresholds(V2).verdict for row in rows]
    assert {"PASS", "FAIL(D1+D2+D3)"} <= set(table.verdicts(V2))


def test_a_table_counts_a_run_without_gamma_as_its_report_does(sample_runs: Path) -> None:
    rows = scan([sample_runs]).rows
    said = Counter(row.report.with_thresholds(V2).standing(row.is_control) for row in rows)
    assert AuditTable.from_rows(rows).standings(V2) == said
    published = AuditTable.from_rows(scan([sample_runs / "audit_table_s42_s123_s456.json"]).rows)
    assert published.standings(V2) == {"FAIL": 9, "undecided": 6}
    groups = over_seeds(published, V2).groups
    assert {group.method: group.verdict for group in groups}["bp"] == "undecided"
    assert "Γ not measured on 3 of 3 runs" in groups[0].notes
    assert groups[0].verdicts == {"PASS; Γ missing": 3}


def test_a_report_and_the_explorer_pass_no_run_without_gamma(
    sample_runs: Path, tmp_path: Path
) -> None:
    published = sample_runs / "audit_table_s42_s123_s456.json"
    main(["report", str(published), "--protocol", "v2", "--out", str(tmp_path / "v2.md")])
    text = (tmp_path / "v2.md").read_text()
    assert "0 PASS, 9 FAIL, 6 undecided" in text
    assert "Γ per layer, which the protocol requires, was not measured on 15 runs" in text
    session = Session(scan([published]).rows, thresholds=V2)
    assert {session.standing(row) for row in range(15)} == {"FAIL", "undecided"}
    assert "15 without Γ" in walk_back_words(session)


def test_its_verdicts_are_read_back_and_differ_from_no_judgement_of_c() -> None:
    for fired in product(*((letter, "") for letter in READINGS["v2"].checks)):
        assert recorded_flags(verdict_text(fired, "abd", "v2")) == frozenset("".join(fired))
    assert recorded_flags("FAIL(D4)") is None
    recorded = "needs walk-back: BP grad direction is drift-dominated"
    report = DiagnosticReport(cross_batch_stability=0.9, recorded_verdict=recorded, **QUIET)
    assert not report.recorded_differs
    assert not report.with_thresholds(V2).recorded_differs


def test_its_report_is_written_and_read(tmp_path: Path, sample_runs: Path, capsys) -> None:
    main(["show", str(sample_runs / "floor"), "--protocol", "v2", "--format", "json"])
    written = json.loads(capsys.readouterr().out)
    assert {"D1_scale_growth", "D2_ref_validity", "D3_depth_utility", "per_layer_cosine"} <= set(
        written[0]
    )
    (tmp_path / "theirs.json").write_text(
        json.dumps([{name: one[name] for name in ("method", "seed", "verdict", "D1_scale_growth", "D2_ref_validity")}
                    for one in written])
    )  # fmt: skip
    read = scan([tmp_path]).rows
    assert [row.report.max_per_block_growth for row in read] == [
        one["D1_scale_growth"] for one in written
    ]
    assert [row.report.g_L for row in read] == [one["D2_ref_validity"] for one in written]
    assert [row.report.recorded_verdict for row in read] == [one["verdict"] for one in written]


def test_what_it_wrote_is_the_same_table_when_it_is_read(tmp_path: Path, capsys) -> None:
    """Runs that differ in an axis alone stay apart, with their Γ per layer and their intervals."""
    shared = {
        "method_name": "dfa", "seed": 1, "headline_acc": 0.5, "frozen_baseline_acc": 0.49,
        "intervals": {"growth": (40.0, 60.0), "margin_pp": (-1.0, 3.0)}, "credit": {"gamma": [0.4, 0.01, None]},
    }  # fmt: skip
    rows = [
        AuditRow(
            source=key,
            key=key,
            method="dfa",
            seed=1,
            axes={"lam": lam},
            report=DiagnosticReport(**norms, **shared),
        )
        for key, lam, norms in (("dfa_lam0_s1", 0.0, EXPLODED), ("dfa_lam0.01_s1", 0.01, QUIET))
    ]
    write_audit_table(tmp_path / "audit.json", rows)
    main(["show", str(tmp_path / "audit.json"), "--protocol", "v2", "--format", "json"])
    written = json.loads(capsys.readouterr().out)
    (tmp_path / "v.json").write_text(json.dumps(written))
    main(["show", str(tmp_path / "v.json"), "--protocol", "v2", "--format", "json"])
    read = json.loads(capsys.readouterr().out)
    for one in (*written, *read):
        del one["source"], one["recorded_verdict"]
    assert read == written
    assert [one["axes"]["lam"] for one in read] == [0.0, 0.01]
    assert main(["show", str(tmp_path / "v.json"), "--protocol", "v2"]) == 0
    assert "missing" not in capsys.readouterr().out


def test_a_check_exits_by_three_numbers(tmp_path: Path) -> None:
    drifting = DiagnosticReport(
        method_name="dfa", cross_batch_stability=0.9, credit={"gamma": [0.4, 0.1]}, **QUIET
    )
    (tmp_path / "dfa_s1.json").write_text(json.dumps(drifting.to_dict()))
    assert [main(["check", str(tmp_path), "--protocol", each]) for each in ("v1", "v2")] == [1, 0]


@pytest.mark.parametrize(
    ("gamma", "share"),
    [([0.5, 0.0], 1.0), ([0.1, 0.1, -0.1], 1 / 3), ([0.0, 0.4, 0.0], 0.0), ([0.3], math.nan), ([0.0, 0.0], math.nan),
     ([None, math.nan, 0.2], math.nan), ("no", math.nan)],
)  # fmt: skip
def test_how_far_one_end_carries_the_mean(gamma, share) -> None:
    assert aggregation_collapse({"gamma": gamma}) == pytest.approx(share, nan_ok=True)
    assert math.isnan(aggregation_collapse(None))


def test_a_run_without_the_cosines_that_it_requires_is_no_pass(tmp_path: Path, capsys) -> None:
    """Its row says so, and `check` exits with 4; a control has no credit rule whose cosines could be missing."""
    for method in ("dfa", "random_init"):
        (tmp_path / f"{method}_s1.json").write_text(
            json.dumps(DiagnosticReport(method_name=method, **QUIET).to_dict())
        )
    main(["show", str(tmp_path), "--protocol", "v2"])
    shown = capsys.readouterr().out.splitlines()
    verdicts = {line.split()[0]: line for line in shown if "✓" in line}
    assert verdicts["dfa"].endswith("PASS on D1, D2; Γ missing")
    assert "random_init" not in verdicts and any(
        "▫--··" in line and line.endswith("control") for line in shown
    )
    assert [main(["check", str(tmp_path), "--protocol", each]) for each in ("v1", "v2")] == [0, 4]
    assert (
        capsys.readouterr().out.splitlines()[-1] == "2 runs: 0 PASS, 0 FAIL, 1 undecided, 1 control"
    )


@pytest.mark.parametrize(
    "command", ["show", "check", "seeds", "sweep", "utility", "timeline", "report"]
)
def test_no_output_names_a_check_that_it_does_not_have(
    command: str, sample_runs: Path, tmp_path: Path, capsys
) -> None:
    """By its names and words alone: D1, D2, D3, PASS and FAIL, wherever v1 says (a) to (d) and walk-back."""
    out = ["--out", str(tmp_path / "v2.md")] if command == "report" else []
    main([command, str(sample_runs / "main"), "--protocol", "v2", *out])
    said = (tmp_path / "v2.md").read_text() if out else capsys.readouterr().out
    said = said.replace("batches K for (c)", "").replace("layer of (c)", "")
    assert not [
        text
        for text in ("(a)", "(b)", "(c)", "(d)", "trustworthy", "cosine >", "> inf", "a 9")
        if text in said
    ]
    assert any(name in said for name in ("D1", "D3"))


def test_a_threshold_that_it_does_not_have_is_refused(sample_runs: Path, capsys) -> None:
    given = ["--protocol", "v2", "--stability-drift-ceiling", "0.9"]
    assert main(["show", str(sample_runs / "floor"), *given]) == 2
    assert "--stability-drift-ceiling: protocol v2 does not judge (c)" in capsys.readouterr().err


def test_the_mode_is_not_read_from_what_is_not_judged() -> None:
    report = DiagnosticReport(
        residual_norms=[1, 400], bp_grad_norms=[4e-10], cross_batch_stability=0.01
    )
    assert failure_mode(report) == "scale failure; noise (cosine +0.010)"
    assert failure_mode(report.with_thresholds(V2)) == "scale failure"
