"""Runs of one name in two folders are told apart by every analysis, as they are by the verdict table."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fa_core.facts.names import run_names
from fa_core.formats.audit_table_writer import unique_keys
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow, differing_axes
from fa_tui.cli import main
from fa_tui.session import Session
from fa_tui.views.grid import Axes, build_grid
from fa_tui.views.words import among, disambiguate, labels, run_name


@pytest.fixture
def folders(tmp_path: Path, sample_runs: Path) -> Path:
    """Two folders with a run folder ``dfa_s42`` each."""
    for folder, run in (("first", "dfa_s42"), ("second", "ep_s42")):
        shutil.copytree(sample_runs / "main" / run, tmp_path / folder / "dfa_s42")
        manifest = tmp_path / folder / "dfa_s42" / "manifest.json"
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "method": "dfa"}))
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str], *args: str | Path) -> str:
    main([str(arg) for arg in args])
    return capsys.readouterr().out


def printed_json(capsys: pytest.CaptureFixture[str], *args: str | Path) -> Any:
    return json.loads(printed(capsys, *args, "--format", "json"))


def test_the_verdict_table_tells_them_apart(
    folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {Path(row["source"]).parent.name for row in printed_json(capsys, "show", folders)} == {
        "first",
        "second",
    }
    text = printed(capsys, "show", folders, "--format", "markdown")
    assert "first/dfa_s42" in text and "second/dfa_s42" in text


def test_decision_utility_names_each_run_once(
    folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full = printed_json(capsys, "utility", folders)["strategies"][-1]["walked_back"]
    assert sorted(full) == sorted(set(full))
    assert set(full) <= {"first/dfa_s42:dfa_s42", "second/dfa_s42:dfa_s42"}
    assert "first/dfa_s42:dfa_s42" in full


def test_the_timelines_have_a_name_each(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.dumps(printed_json(capsys, "timeline", folders))
    names = re.findall(r'"key": "([^"]*)"', found)
    assert sorted(names) == ["first/dfa_s42:dfa_s42", "second/dfa_s42:dfa_s42"]


def test_the_report_has_a_name_for_each(
    folders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.md"
    printed(capsys, "report", folders, "--out", report)
    lines = [
        line
        for line in report.read_text().splitlines()
        if line.startswith("| first/dfa_s42:dfa_s42 ")
    ]
    # the timelines, and baselines by other rules; the other tables are one per folder
    assert len(lines) == 2


@given(
    runs=st.lists(
        st.tuples(
            st.sampled_from(["dfa_s42", "bp_s1", "a:dfa_s42", "dfa_s42#2"]),
            st.sampled_from(
                [
                    "a.json",
                    "b/a.json",
                    "b/a.jsonl",
                    "a/dfa_s42",
                    "b/dfa_s42",
                    "b/dfa_s42/trace.jsonl",
                    "/a",
                ]
            ),
        ),
        max_size=8,
    )
)
def test_every_run_has_a_name_of_its_own(runs: list[tuple[str, str]]) -> None:
    names = run_names([key for key, _ in runs], [source for _, source in runs])
    assert len(set(names)) == len(runs)
    assert all(key in name for (key, _), name in zip(runs, names, strict=True))


def test_an_axis_that_differs_stands_on_every_run_of_the_method_that_has_it() -> None:
    """λ = 0.001 on one seed, λ = 0.01 on three: two seeds stand alone, and are no plain DFA."""
    rows = [
        _penalised("dfa", 0.001, 42),
        *(_penalised("dfa", 0.01, seed) for seed in (42, 123, 456)),
    ]
    rows.append(_penalised("bp", 0.5, 42))
    assert differing_axes((row.method, row) for row in rows) == {"dfa": ["lam"], "bp": []}
    shown = ["dfa λ=0.001", "dfa λ=0.01", "dfa λ=0.01", "dfa λ=0.01", "bp"]
    assert labels(rows) == shown
    named = ["".join(name) for name in disambiguate(rows)]
    assert named == [
        "dfa s42 λ=0.001",
        "dfa s42 λ=0.01",
        "dfa s123 λ=0.01",
        "dfa s456 λ=0.01",
        "bp s42",
    ]
    assert [among(rows, row) for row in rows] == named
    session = Session(rows)
    assert [run_name(session, index) for index in range(len(rows))] == named
    assert unique_keys(rows) == [
        "dfa_s42_lam0.001",
        *(f"dfa_s{seed}_lam0.01" for seed in (42, 123, 456)),
        "bp_s42",
    ]


def test_the_default_is_named_where_its_axis_differs_and_the_audit_tells_it() -> None:
    facts = {"arch": "resmlp", "recipe": {"lam": 0.0}}
    plain = AuditRow(
        source="a.json",
        key="",
        method="bp",
        seed=42,
        report=DiagnosticReport(provenance=facts),
    )
    vit = replace(plain, axes={"arch": "vit_mini"})
    silent = replace(plain, report=DiagnosticReport())
    assert labels([plain, vit]) == ["bp arch=resmlp", "bp arch=vit_mini"]
    assert labels([plain, plain])[0].startswith("bp") and "arch" not in labels([plain])[0]
    assert labels([silent, vit]) == ["bp", "bp arch=vit_mini"], "nothing says what it is"
    assert [line.label for line in build_grid([plain, vit]).lines] == [
        "bp arch=resmlp",
        "bp arch=vit_mini",
    ]
    assert build_grid([plain, vit], axes=Axes("method", "arch")).columns == [
        "arch=resmlp",
        "arch=vit_mini",
    ]


def _penalised(method: str, lam: float, seed: int) -> AuditRow:
    return AuditRow(source="a.json", key="", method=method, seed=seed, axes={"lam": lam})
