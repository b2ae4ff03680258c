"""What `check` and `show` claim of runs: on what they are trustworthy, and what is no claim at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.formats import load_audits
from fa_core.report import DiagnosticReport
from fa_tui.cli import main
from fa_tui.session import Session
from fa_tui.views.filters import Filter

QUIET: dict[str, Any] = {"residual_norms": [1.0, 2.0], "bp_grad_norms": [1e-3, 1e-3]}
ONLY_A: dict[str, Any] = {"residual_norms": [1.0, 2.0]}
DEEP: dict[str, Any] = {"headline_acc": 0.4, "frozen_baseline_acc": 0.3}
FIRES: dict[str, Any] = {"residual_norms": [1.0, 100.0]}
BOUND: dict[str, Any] = {"residual_norms": [30.0], "growth_bound": 8.2, "evidence": {"a": "bound"}}
PROVEN: dict[str, Any] = {
    "residual_norms": [30.0],
    "growth_bound": 82.0,
    "evidence": {"a": "bound"},
}
PROXY: dict[str, Any] = {"bp_grad_norms": [1e-3], "evidence": {"b": "proxy"}}
NOTHING: dict[str, Any] = {"notes": "not measured", "headline_acc": 0.4}


def written(folder: Path, **reports: dict[str, Any]) -> str:
    path = folder / "table.json"
    known = {f"{key}_s1": {"method_name": key, **fields} for key, fields in reports.items()}
    path.write_text(json.dumps({"reports": known}))
    return str(path)


@pytest.mark.parametrize(
    ("reports", "options", "code", "says"),
    [
        ({"bp": QUIET | DEEP}, "", 0, "1 run: 1 trustworthy on a, b, d, 0 need walk-back"),
        ({"bp": ONLY_A}, "", 0, "1 run: 1 trustworthy on (a) alone, 0 need walk-back"),
        ({"bp": ONLY_A, "fa": QUIET}, "", 0, "2 trustworthy (1 on (a) alone; 1 on a, b), 0 need"),
        ({"bp": PROXY}, "", 0, "1 trustworthy on (b) by proxy alone"),
        ({"bp": PROXY | DEEP}, "", 0, "1 trustworthy on d, (b) by proxy"),
        (
            {"bp": ONLY_A},
            "--require ab",
            4,
            "required and not measured: (b) not in the source [a measured]",
        ),
        ({"bp": PROXY | DEEP}, "--require b", 4, "(b) only by proxy [d measured, b by proxy]"),
        ({"bp": QUIET | DEEP}, "--require a,b,d", 0, "1 trustworthy"),
        (
            {"bp": QUIET | {"headline_acc": 0.4}},
            "--require d",
            4,
            "(d) no frozen baseline [ab measured]",
        ),
        (
            {"bp": QUIET | {"headline_acc": 0.4}},
            "--require d --frozen-baseline 0.3",
            4,
            "(d) by an assumed baseline [ab measured, d by a baseline of 0.3 assumed]",
        ),
        ({"bp": QUIET, "dfa": FIRES}, "--require d", 1, "required and not measured: (d)"),
        ({"bp": BOUND}, "", 4, "(a) undecided on bp seed 1: only a lower bound is known"),
        ({"bp": BOUND | DEEP}, "", 4, "1 run: 0 trustworthy, 0 need walk-back, 1 undecided"),
        (
            {"bp": BOUND | DEEP},
            "",
            4,
            "trustworthy on (d) alone; undecided on a [d measured, a by a bound]",
        ),
        ({"bp": PROVEN}, "", 1, "needs walk-back: residual stream exploded [a by a bound]"),
        ({"bp": NOTHING}, "", 4, "bp seed 1: not measured [nothing measured]"),
        (
            {"frozen": FIRES, "bp": QUIET},
            "",
            0,
            "2 runs: 1 trustworthy on a, b, 0 need walk-back, 1 control",
        ),
        (
            {"random_targets": FIRES},
            "--require abd",
            0,
            "1 run: 0 trustworthy, 0 need walk-back, 1 control",
        ),
    ],
)
def test_check_says_on_what_it_judges_and_exits_by_it(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    reports: dict[str, Any],
    options: str,
    code: int,
    says: str,
) -> None:
    assert main(["check", written(tmp_path, **reports), *options.split()]) == code
    assert says in capsys.readouterr().out


def test_check_refuses_a_requirement_that_is_no_diagnostic(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", written(tmp_path, bp=QUIET), "--require", "abx"]) == 2
    assert "--require 'abx' is not a list of diagnostics" in capsys.readouterr().err


def test_a_bound_that_does_not_fire_is_undecided_on_every_surface(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, bp=BOUND, dfa=PROVEN, ep=BOUND | DEEP)
    report = DiagnosticReport(**BOUND)
    assert (report.flags, report.undecided, report.residual_stream_exploded) == (
        frozenset(),
        {"a"},
        None,
    )
    assert "(a) undecided: growth per block 8.2 [bound]" in str(
        report
    ) and "trustworthy" not in str(report)
    assert main(["show", path]) == 0
    table = capsys.readouterr().out
    assert "?~···" in table and "✗a···" in table and "✓~··-" in table
    assert "3 runs: 0 trustworthy, 1 needs walk-back, 2 undecided" in table
    assert main(["show", path, "--format", "json"]) == 0
    assert [row.get("undecided", "") for row in json.loads(capsys.readouterr().out)] == [
        "a",
        "",
        "a",
    ]
    loaded = load_audits([path])
    assert loaded.undecided().tolist() == [1, 0, 1] and loaded.flags().tolist() == [0, 1, 0]
    assert loaded.undecided(DiagnosticThresholds(h_norm_explosion_ratio=5.0)).tolist() == [0, 0, 0]
    session = Session(loaded.rows())
    assert [session.cell(row) for row in range(3)] == ["?~···", "✗a···", "✓~··-"]
    assert session.words(2) == "trustworthy on (d) alone; undecided on a"


def test_controls_claim_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, bp=QUIET, frozen=FIRES, random_init=QUIET)
    assert main(["show", path]) == 0
    table = capsys.readouterr().out
    assert (
        table.count("▫") == 3
        and "3 runs: 1 trustworthy on a, b, 0 need walk-back, 2 controls" in table
    )
    assert not [
        line for line in table.splitlines() if "▫-" in line and not line.endswith("control")
    ]
    session = Session(load_audits([path]).rows())
    assert [session.cell(row) for row in range(3)] == ["✓--··", "▫a···", "▫--··"]
    assert [session.words(row) for row in (1, 2)] == ["control", "control"]
    assert [
        Filter(f"is:{state}").rows(session) for state in ("trustworthy", "walkback", "control")
    ] == [
        [0],
        [],
        [1, 2],
    ]
    frozen = DiagnosticReport("frozen", **FIRES)
    assert (
        frozen.words == "control" and frozen.verdict == "needs walk-back: residual stream exploded"
    )


def test_a_recorded_verdict_is_explained_by_the_thresholds_it_was_judged_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loose = DiagnosticReport(
        **QUIET | {"bp_grad_norms": [1e-3, 1e-9]}, thresholds=DiagnosticThresholds(1e-10)
    )
    stated, unstated = loose.to_dict(), {**loose.to_dict(), "thresholds": {}}
    unstated.pop("thresholds")
    path = written(tmp_path, dfa=stated, ep=unstated)
    for command in ("show", "check"):
        main([command, path])
        said = [line for line in capsys.readouterr().out.splitlines() if "recorded as" in line]
        assert ["judged there at deepest ‖g_L‖ < 1e-10" in line for line in said] == [True, False]
