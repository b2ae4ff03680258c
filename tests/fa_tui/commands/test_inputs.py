"""What could not be opened or measured, on stderr."""

import pytest

from fa_core.formats.rows import Problem
from fa_tui.cli import main
from fa_tui.commands.inputs import report_failures, report_problems
from tests.fa_tui.printing import complaint


def test_the_same_problem_of_many_runs_is_one_line(capsys):
    report_problems(
        [
            *(Problem(f"run{i}", "mymod:load: returned tuple") for i in range(3)),
            Problem("x", "x: is empty"),
        ]
    )
    assert capsys.readouterr().err.splitlines() == [
        "fa-tui: mymod:load: returned tuple (3 runs)",
        "fa-tui: x: is empty",
    ]


def test_a_reason_that_runs_share_is_one_line_whatever_their_paths_and_logs(capsys):
    died = [
        Problem(f"/r/{i}", f"/r/{i}: its worker on cpu died; log: /tmp/worker-{i}.log")
        for i in range(39)
    ]
    none = [Problem(f"/r/{i}", "no worker could start on cpu") for i in range(3)]
    report_failures([*died, *none, Problem("x", "x: is empty")])
    assert capsys.readouterr().err.splitlines() == [
        "fa-tui: its worker on cpu died; log: … (39 runs: /r/0, /r/1, /r/2, /r/3 and 35 more)",
        "fa-tui: no worker could start on cpu (3 runs: /r/0, /r/1, /r/2)",
        "fa-tui: x: is empty",
    ]


@pytest.mark.parametrize(
    "command", ["check", "verify", "seeds", "sweep", "utility", "timeline", "audit", "report"]
)
def test_a_filter_that_no_run_passes_is_wrong_usage_and_writes_nothing(
    command, sample_runs, tmp_path, capsys
):
    out = tmp_path / "out.md"
    writes = ["--out", str(out)] if command in ("audit", "report") else []
    assert main([command, str(sample_runs / "main"), *writes, "--filter", "method:no_such"]) == 2
    assert capsys.readouterr() == (
        "",
        "fa-tui: --filter method:no_such: no run passes it; `fa-tui show` lists the runs\n",
    )
    assert not out.exists()


def test_no_run_of_a_method_and_a_seed_is_wrong_usage_too(published_table, capsys):
    asked = "--methods dfa --seeds 42 --filter method:bp"
    said = complaint(capsys, "check", published_table, *asked.split())
    assert f"{asked}: no run passes it" in said
    show = ["show", str(published_table), "--filter", "method:no_such"]
    assert main(show) == 0, "an answer for show"
