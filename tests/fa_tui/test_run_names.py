"""Runs of one name in two folders are told apart by every analysis, as by the explorer."""

import shutil

import pytest
from msgspec.structs import replace

from fa_core.formats.audit_table import unique_keys
from fa_core.formats.rows import AuditRow
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_tui.cli import main
from fa_tui.session import Session
from fa_tui.views.grid import build_grid
from fa_tui.views.words import disambiguate, labels, run_name
from tests.json_files import json_of, put_json


def test_every_command_tells_runs_of_one_name_apart(tmp_path, sample_runs, capsys):
    for folder, run in (("first", "dfa_s42"), ("second", "ep_s42")):
        shutil.copytree(sample_runs / "main" / run, tmp_path / folder / "dfa_s42")
        manifest = tmp_path / folder / "dfa_s42" / "manifest.json"
        put_json(manifest, {**json_of(manifest), "method": "dfa"})
        audit = manifest.with_name("audit.json")
        report = {**json_of(audit), "method_name": "dfa"}
        # else the manifest has changed since
        del report["provenance"]["hashes"]
        put_json(audit, report)
    for command, names in (
        ("show", ("dfa (first)", "dfa (second)")),
        ("utility", ("dfa_s42@first/dfa_s42",)),
        ("timeline", ("dfa_s42@first/dfa_s42", "dfa_s42@second/dfa_s42")),
    ):
        main([command, str(tmp_path), "--format", "markdown" if command == "show" else "json"])
        printed = capsys.readouterr().out
        assert all(name in printed for name in names), command
    main(["report", str(tmp_path), "--out", str(tmp_path / "report.md")])
    assert r"| dfa_s42\@first/dfa_s42 |" in (tmp_path / "report.md").read_text()


def run(lam, seed, source="a.json"):
    axes = {} if lam is None else {"lam": lam}
    return AuditRow(source=source, key="", method="dfa", seed=seed, axes=axes)


@pytest.mark.parametrize(
    ("rows", "names", "keys"),
    [
        # two seeds stand alone, and are no plain DFA
        (
            [run(0.001, 42), run(0.01, 42), run(0.01, 123)],
            ["dfa s42 λ=0.001", "dfa s42 λ=0.01", "dfa s123 λ=0.01"],
            ["dfa_lam0.001_s42", "dfa_lam0.01_s42", "dfa_lam0.01_s123"],
        ),
        (
            [run(None, 42), run(None, 42), run(None, 7)],
            ["dfa s42", "dfa s42#2", "dfa s7"],
            ["dfa_s42", "dfa_s42#2", "dfa_s7"],
        ),
        (
            [run(None, 1), run(None, 1, "x/dfa_s1"), run(None, 1, "x/dfa")],
            ["dfa s1 (a.json)", "dfa s1 (x) (dfa_s1)", "dfa s1 (x) (dfa)"],
            ["dfa_s1", "dfa_s1#2", "dfa_s1#3"],
        ),
    ],
)
def test_a_run_has_one_name_in_lists_the_explorer_and_files(rows, names, keys):
    assert disambiguate(rows) == names
    session = Session(rows)
    # one that has no namesake among its seed needs no axis
    said = [name.replace("s123 λ=0.01", "s123") for name in names]
    assert [run_name(session, index) for index in range(len(rows))] == said
    seeds = [f" s{row.seed}" for row in rows]
    assert labels(rows) == [n.replace(s, "", 1) for n, s in zip(names, seeds, strict=True)]
    assert unique_keys(rows) == keys


def test_the_default_is_named_where_its_axis_differs_and_the_audit_tells_it():
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
    assert [line.label for line in build_grid([plain, vit], [0, 1]).lines] == [
        "bp arch=resmlp",
        "bp arch=vit_mini",
    ]
