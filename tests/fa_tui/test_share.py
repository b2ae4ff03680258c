"""What a page gives: files, and the command that prints the same."""

import csv
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from fa_core.errors import UsageError
from fa_core.formats import Trace, scan
from fa_core.report.baseline import FrozenBaseline
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.report_facts import DiagnosticThresholds
from fa_tui.app import ExplorerApp
from fa_tui.cli import main
from fa_tui.session import Session
from fa_tui.share import (
    Shared,
    baseline_text,
    command_for,
    free_name,
    name_problem,
    typed,
    write_data,
)
from fa_tui.views.epochs import traces_of
from fa_tui.views.filters import Filter
from tests.fa_core.rows import row_of
from tests.fa_tui.looks import app_on, opened, running
from tests.fa_tui.printing import printed_json
from tests.json_files import json_of

STRICT = DiagnosticThresholds(h_norm_explosion_ratio=5)


@pytest.fixture
def rows(published_table):
    return scan([published_table]).rows


@pytest.fixture
def app(published_table):
    app = app_on(Session(scan([published_table]).rows))
    app.paths = [published_table]
    return app


def test_files_are_judged_by_the_sliders_and_open_again(tmp_path, rows):
    write_data(tmp_path / "out.csv", Shared(rows=rows), STRICT)
    assert (tmp_path / "out.csv").read_text().count("needs walk-back") == 9 + 11
    write_data(tmp_path / "out.json", Shared(rows=rows), STRICT)
    written = json_of(tmp_path / "out.json")["reports"].values()
    assert sum(report["verdict"] != "trustworthy" for report in written) == 11
    assert [row.key for row in scan([tmp_path / "out.json"]).rows] == [row.key for row in rows]


def test_no_runs_are_told_and_nothing_is_written(tmp_path):
    with pytest.raises(UsageError, match="no runs to export"):
        write_data(tmp_path / "out.csv", Shared(), STRICT)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (" ", "the name must end in .csv, .json, .md"),
        ("report.txt", "the name must end in"),
        ("x" * 400 + ".csv", "cannot be: File name too long"),
        ("no/such/folder/report.md", "no folder no/such/folder"),
        ("taken.csv", "taken.csv is there already: choose another name"),
        ("taken.md", "taken-methods-1.svg is there already"),
        ("report.MD", ""),
    ],
)
def test_a_name_that_cannot_be_is_refused_while_it_is_typed(tmp_path, monkeypatch, text, problem):
    monkeypatch.chdir(tmp_path)
    for name in ("taken.csv", "taken-methods-1.svg"):
        (tmp_path / name).touch()
    assert problem in name_problem(text) and bool(name_problem(text)) == bool(problem)
    assert free_name(Path("taken.csv")) == Path("taken-2.csv")


@pytest.mark.parametrize(
    ("thresholds", "baseline"),
    [
        (DiagnosticThresholds(), None),
        (STRICT, None),
        (
            DiagnosticThresholds(g_norm_floor=0.0, frozen_acc_margin_pp=-12.5),
            FrozenBaseline(0.349, {"bp": 0.6}),
        ),
        (
            DiagnosticThresholds(
                h_norm_explosion_ratio=1 / 3, stability_drift_ceiling=float("inf")
            ),
            None,
        ),
    ],
)
def test_the_command_prints_the_same_verdicts(published_table, rows, capsys, thresholds, baseline):
    session = Session(rows, thresholds=thresholds, baseline=baseline or FrozenBaseline())
    command = command_for(ExplorerApp(session, paths=[published_table]), "show")
    shown = [record["verdict"] for record in printed_json(capsys, *command)]
    assumed = [row.judged_by(baseline) if baseline else row for row in rows]
    assert shown == [row.report.with_thresholds(thresholds).words for row in assumed]


def test_a_command_is_quoted_for_a_shell():
    session = Session([], baseline=FrozenBaseline(None, {"ep": 0.3}))
    command = command_for(ExplorerApp(session, paths=[Path("my runs"), Path("-x.json")]), "show")
    assert typed(command) == "fa-tui show 'my runs' ./-x.json --frozen-baseline ep=0.3"
    assert baseline_text(FrozenBaseline()) == ""


@pytest.mark.parametrize(("key", "command"), [("1", "sweep"), ("2", "seeds")])
async def test_an_analysis_gives_what_its_command_prints(
    app, key, command, published_table, tmp_path, capsys
):
    async with running(app) as pilot:
        screen = await opened(pilot, "A", key, "a", "5", "enter", "escape")
        shared = screen.shared()
        shown = screen.shared().table.grid
    assert typed(shared.command) == (
        f"fa-tui {command} {published_table} --h-norm-explosion-ratio 5"
    )
    assert main([*shared.command, "--format", "json"]) == 0
    write_data(tmp_path / "out.json", shared, STRICT)
    assert json_of(tmp_path / "out.json") == json.loads(capsys.readouterr().out)
    write_data(tmp_path / "out.csv", shared, STRICT)
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        assert len(list(csv.reader(file))) == 1 + len(shown.rows)


async def test_no_command_is_offered_for_marked_runs_that_no_filter_can_name(tmp_path):
    report = DiagnosticReport(headline_acc=0.5)
    rows = [row_of(f"my dfa_s{n}", tmp_path, method="dfa", report=report) for n in range(3)]
    app = app_on(Session(rows))
    async with running(app):
        app.show(app.session.but(marked=frozenset({1})))
        app.show(app.session.but(filter=Filter("is:marked")))
        assert app.explorer.page.shared().command == []


def test_of_two_runs_of_one_name_the_trace_next_to_the_audit_is_taken():
    name = {"key": "dfa_s42", "method": "dfa", "seed": 42}
    left, right = (
        Trace(source=str(Path(side, "dfa_s42", "trace.jsonl")), **name)
        for side in ("left", "right")
    )
    assert traces_of([row_of("dfa_s42", "left/dfa_s42")], [left, right]) == [left]
    table = row_of("dfa_s42", "audits.json")
    assert traces_of([table], [right]) == [], (
        "another run of its name is not shown as if it were this one"
    )
    for folder in (
        Path("right", "dfa_s42"),
        Path("right", "dfa_s42").absolute(),
        Path("right", "dfa_s42", "audit.json"),
    ):
        assert traces_of([replace(table, checkpoint=str(folder))], [left, right]) == [right]
    logged = [replace(left, source="log.json", key=key) for key in ("dfa_s1", "dfa_s42")]
    assert traces_of([row_of("dfa_s42", "log.json")], logged) == logged[1:]
