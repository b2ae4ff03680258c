"""A frozen baseline that a person assumes is told from a measured one wherever it can be read."""

import json

import pytest

from fa_core.analysis.seeds import over_seeds
from fa_core.formats import scan
from fa_core.formats.rows import with_given_baseline
from fa_core.formats.table import AuditTable
from fa_core.report.baseline import FrozenBaseline
from fa_core.report.report_facts import DiagnosticThresholds
from fa_core.reporting.paper_table import paper_table
from fa_core.reporting.sections.runs import beyond_table
from fa_tui.app import ExplorerApp
from fa_tui.samples import sample_runs
from fa_tui.session import Session
from fa_tui.share import Shared, write_data
from fa_tui.views.columns import columns_of
from fa_tui.views.comparison import compared_lines
from fa_tui.views.filters import ViewState
from fa_tui.views.glyphs import UNICODE
from fa_tui.widgets.detail import RunPage
from tests.fa_tui.looks import running, screen_text, shows
from tests.fa_tui.printing import complaint, printed, refusal

USUAL = DiagnosticThresholds()
BOTH = FrozenBaseline(0.349, {"dfa": 0.1})
"""BP and EP, which record none, by 0.349; DFA, which records 0.349, by 0.1."""


@pytest.fixture
def session(published_table):
    return Session(scan([published_table]).rows, baseline=BOTH)


@pytest.mark.parametrize("method", ["bp", "dfa", "state_bridge"])
def test_the_detail_pane(session, method):
    index = next(index for index, row in enumerate(session.rows) if row.method == method)
    judged = session.flags[index], session.undecided[index]
    lines = RunPage(session.rows[index], 200, UNICODE).lines(USUAL, judged)
    text = "\n".join("".join(piece for piece, _ in line) for line in lines)
    said = {
        "bp": ["(d) by an assumed", "d: baseline 0.349 assumed", "frozen baseline 0.349 assumed"],
        "dfa": [
            "abc measured,",
            "d: baseline 0.1 assumed, 0.349 recorded",
            "0.1 assumed, 0.349 recorded",
        ],
        "state_bridge": ["frozen baseline 0.349"],
    }
    assert all(words in text for words in said[method]), text
    assert ("assumed" in text) == (method != "state_bridge")


def test_the_comparison(session):
    rows = [row for row in session.rows if row.seed == 42 and row.method in ("bp", "state_bridge")]
    lines = compared_lines([row.report for row in rows])
    assert any(line.label == "judged numbers   ?: by an assumed frozen baseline" for line in lines)


def test_of_an_audit_table_to_be_opened_again_it_is_said_that_it_is_left_out(session, tmp_path):
    note = write_data(tmp_path / "out.json", Shared(rows=session.rows), USUAL)
    assert note == ": without the assumed frozen baseline, as recorded"
    again = scan([tmp_path / "out.json"]).rows
    assert write_data(tmp_path / "again.json", Shared(rows=again), USUAL) == ""


def test_show_tells_it_in_json_markdown_and_the_table(published_table, capsys):
    show = ("show", published_table, "--frozen-baseline", "0.349,dfa=0.1", "--format")
    found = {row["key"]: row for row in json.loads(printed(capsys, *show, "json"))}
    bp, dfa, bridge = (found[f"{method}_s42"] for method in ("bp", "dfa", "state_bridge"))
    assert (bp["frozen_baseline_acc"], bp["assumed_baseline_acc"], bp["margin_pp"]) == (
        None,
        0.349,
        26.59,
    )
    assert (bp["coverage"], bp["evidence"]) == ("abc", {"d": "assumed"})
    assert (dfa["frozen_baseline_acc"], dfa["assumed_baseline_acc"]) == (0.349, 0.1)
    assert bridge["coverage"] == "abcd" and "assumed_baseline_acc" not in bridge
    for form in ("markdown", "table"):
        text = printed(capsys, *show, form)
        assert "?+26.59" in text
        assert (
            "dfa seed 456: ?: (d) against a frozen baseline of 0.1 assumed, 0.349 recorded" in text
        )


@pytest.mark.parametrize("command", ["seeds", "sweep", "utility"])
def test_every_analysis_command_says_it(published_table, capsys, command):
    given = (command, published_table, "--frozen-baseline", "0.349")
    words = (
        "(d) is assumed, not measured, on 6 of 15 runs: against a frozen baseline of 0.349 (bp, ep)"
    )
    assert words in " ".join(printed(capsys, *given).split())
    assert words in printed(capsys, *given, "--format", "json")
    assert "assumed" not in printed(capsys, command, published_table)


COMMANDS = ("show", "check", "seeds", "sweep", "utility", "timeline")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_method_that_no_run_has_is_one_line_that_names_those_there_are(
    published_table, capsys, command
):
    said = "no run of method 'state_brige'; did you mean state_bridge? known: bp, dfa"
    given = ("--frozen-baseline", "dfa=0.3,state_brige=0.4")
    assert said in refusal(capsys, command, published_table, *given)


def test_of_no_runs_no_method_is_missed(tmp_path, capsys):
    assert "nothing here" in complaint(
        capsys, "show", tmp_path, "--frozen-baseline", "zz=0.4", code=3
    )


def test_who_measures_keeps_what_was_measured_and_records_what_was_given(published_table):
    rows = scan([published_table]).rows
    given = [with_given_baseline(row, BOTH) for row in rows]
    reports = {row.key: row.report for row in given}
    for key, assumed in (("bp_s42", None), ("dfa_s42", 0.1)):
        report = reports[key]
        assert (report.frozen_baseline_acc, report.assumed_baseline_acc) == (0.349, assumed)
        assert report.measured == "abc"
    caption = paper_table(over_seeds(AuditTable.from_rows(given)), USUAL, "audit")
    assert "?: over a frozen baseline given by hand" in caption
    assert [with_given_baseline(row, FrozenBaseline()) for row in rows] == list(rows)


@pytest.mark.parametrize("control", ["random_init_s42", "frozen_s42"])
def test_controls_are_judged_by_a_baseline_only_where_they_are_named(control, capsys):
    run, method = sample_runs() / "main" / control, control.removesuffix("_s42")
    show = ("show", str(run), "--frozen-baseline")
    assert "assumed" not in printed(capsys, *show, "0.349")
    assert "(d) against a frozen baseline of 0.9 assumed" in printed(
        capsys, *show, f"0.349,{method}=0.9"
    )


def test_the_timeline_of_a_control_says_why_as_its_audit_does(capsys):
    frozen = sample_runs() / "main" / "frozen_s42"
    for given in ([], ["--frozen-baseline", "0.349"]):
        out = " ".join(printed(capsys, "timeline", frozen, *given).split())
        assert "(d) not judged: frozen is a baseline itself" in out and "assumed" not in out
    assert "(d) not measured: frozen is a baseline itself" in printed(capsys, "show", frozen)


@pytest.mark.parametrize("assumed", [True, False])
def test_the_long_view_and_the_report_mark_a_number_by_an_assumed_baseline(
    published_table, assumed
):
    rows = scan([published_table]).rows
    session = Session(rows, baseline=BOTH if assumed else None)
    columns = {column.name: column for column in columns_of(session.runs)}
    said = {
        row.key: (columns["margin"].text(session, i), columns["frozen"].text(session, i))
        for i, row in enumerate(rows)
    }
    assert said["bp_s42"] == (("?+26.59", "?0.349") if assumed else ("·", "·"))
    assert not any("?" in text for text in said["state_bridge_s42"])
    assert all("?" not in columns["acc"].text(session, i) for i in range(len(rows)))
    (grid,) = beyond_table(session.runs.table, USUAL)
    rooms = {row[0]: row[4] for row in grid.rows}
    assert [rooms[name].startswith("?") for name in ("bp_s42", "state_bridge_s42")] == [
        assumed,
        False,
    ]
    assert ("assumed" in grid.caption) == assumed
    table = paper_table(over_seeds(session.runs.table), USUAL, "audit")
    assert "All four were measured" not in table and table.count("& abc?d &") == 3 * assumed


async def test_the_matrix_marks_a_number_by_an_assumed_baseline(published_table):
    app = ExplorerApp(
        Session(scan([published_table]).rows, baseline=BOTH), look=ViewState(show="margin")
    )
    async with running(app) as pilot:
        await shows(pilot, "?+26.59")
        lines = {line.split()[0]: line for line in screen_text(app).splitlines() if line.strip()}
        assert "?" not in lines["state_bridge"] and lines["dfa"].count("?") == 3


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("given", ["", " ", "0.3,", "=0.3", "ep=", "nan", "1.5", "-0.1"])
def test_what_is_no_accuracy_is_one_line_and_never_no_baseline_or_one_for_all(
    published_table, capsys, command, given
):
    err = refusal(capsys, command, published_table, "--frozen-baseline", given)
    said = "outside [0, 1]" if given in ("1.5", "-0.1") else "write 0.349 or METHOD=0.349"
    assert "--frozen-baseline" in err and said in err
