"""A penalty log at the command line: bounded by hand, and every number that is not exact says so."""

import pytest

from fa_core.formats import scan
from fa_tui.cli import main
from fa_tui.follow import Reading
from fa_tui.session import merged
from fa_tui.settings import settings_file
from tests.fa_tui.looks import running
from tests.fa_tui.printing import complaint, printed, printed_json
from tests.json_files import json_of, put_json

GIVEN = ["--h0", "8.7", "--depth", "4", "--frozen-baseline", "0.349"]


@pytest.fixture
def penalty_log(tmp_path):
    log = [{"epoch": 30, "h_L_norm": 3.56e4, "g_2_norm": 1e-4, "test_acc": 0.3625}]
    path = tmp_path / "dfa_pen_lam0.01_s42.json"
    return put_json(path, {"lam": 0.01, "seed": 42, "final_test_acc": 0.3625, "log": log})


def test_the_published_penalty_case_is_reached_with_options(penalty_log, capsys):
    (row,) = printed_json(capsys, "show", penalty_log, *GIVEN)
    assert row["max_per_block_growth"] == pytest.approx(8.0, abs=0.01)
    assert (row["coverage"], row["flags"]) == ("ab", "d")
    assert row["evidence"] == {"a": "bound", "b": "proxy", "d": "assumed"}


def test_a_bound_and_a_proxy_are_marked_in_the_table_with_a_legend(penalty_log, capsys):
    table = printed(capsys, "show", penalty_log, *GIVEN)
    line = next(line for line in table.splitlines() if line.strip().startswith("dfa"))
    assert "≥7.998" in line and "≈1e-4" in line and "+1.35" in line
    assert "≥: only a lower bound" in table
    assert "≥7.998" in printed(capsys, "show", penalty_log, *GIVEN, "--format", "markdown")


def test_exact_numbers_are_not_marked(published_table, capsys):
    table = printed(capsys, "show", published_table, *GIVEN)
    assert "≥" not in table and "≈" not in table
    assert all("evidence" not in row for row in printed_json(capsys, "show", published_table))


@pytest.mark.parametrize(
    "given", [("--h0", "8.7"), ("--depth", "4"), ("--h0", "-1", "--depth", "4")]
)
def test_half_a_bound_or_one_that_cannot_be_meant_is_a_usage_error(penalty_log, capsys, given):
    assert "--h0" in complaint(capsys, "show", penalty_log, *given)


async def test_the_explorer_bounds_a_log_too_also_when_it_changes_and_its_command_says_so(
    penalty_log, started
):
    assert main(["open", str(penalty_log), *GIVEN]) == 0
    session = started[0].session
    assert session.rows[0].report.max_per_block_growth == pytest.approx(8, 0.01)
    log = json_of(penalty_log)
    log["log"][0]["h_L_norm"] *= 10**4
    put_json(penalty_log, log)
    session, _ = merged(session, [Reading(str(penalty_log), scan([penalty_log]).rows)])
    assert session.rows[0].report.max_per_block_growth == pytest.approx(80, 0.01)
    async with running(started[0]):
        command = started[0].explorer.page.shared().command
    assert "show" in command and "--h0 8.7 --blocks 4" in " ".join(command)


@pytest.fixture
def foreign_log(tmp_path):
    path = tmp_path / "dfa_s1.csv"
    path.write_text("epoch,val_acc\n1,0.25\n2,0.5\n")
    return path


def test_commands_read_columns_that_are_named(foreign_log, capsys):
    line = ["timeline", foreign_log]
    (run,) = printed_json(capsys, *line, "--columns", "acc=val_acc")["runs"]
    assert run["final_acc"] == 0.5
    assert "epoch, val_acc; name them, --columns acc=val_acc" in complaint(capsys, *line, code=3)
    assert "unknown number in --columns 'accuracy'" in complaint(
        capsys, *line, "--columns", "accuracy=val_acc"
    )


@pytest.mark.parametrize(
    ("settings", "options", "read"),
    [
        ("", ["--columns", "acc=val_acc"], [0.25, 0.5]),
        ('columns = "acc=val_acc"', [], [0.25, 0.5]),
        ('columns = "acc=other"', ["--columns", "acc=val_acc"], [0.25, 0.5]),
        ('columns = "x=val_acc"', [], []),
    ],
)
def test_the_explorer_reads_columns_of_the_command_line_or_of_the_settings(
    foreign_log, started, settings, options, read
):
    settings_file().parent.mkdir(parents=True, exist_ok=True)
    settings_file().write_text(settings)
    assert main(["open", str(foreign_log.parent), *options]) == 0
    session = started[0].session
    assert [epoch.test_acc for trace in session.traces for epoch in trace.epochs] == read
    said = "\n".join(problem.message for problem in session.problems)
    assert ("settings.toml: unknown number in columns" in said) == (not read)
