"""The command line as a person or a script meets it, in real processes where that matters."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fa_tui.cli import main
from tests.fa_tui.printing import complaint, printed, printed_json, refusal


def run(*args):
    return subprocess.run(
        [sys.executable, "-m", "fa_tui", *map(str, args)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("option", ["--h-norm-explosion-ratio", "--g-norm-floor"])
@pytest.mark.parametrize("number", ["-3", "-inf"])
def test_a_threshold_that_no_number_can_be_below_is_refused(
    published_table, capsys, option, number
):
    assert "is never negative" in refusal(capsys, "show", published_table, option, number)


def test_a_margin_and_a_cosine_may_be_negative(published_table, capsys):
    rows = printed_json(
        capsys,
        "show",
        published_table,
        "--frozen-acc-margin-pp",
        "-30",
        "--stability-drift-ceiling",
        "-1",
    )
    assert {"c"} <= set(rows[0]["flags"]) and not any("d" in row["flags"] for row in rows)


def test_below_the_table_stands_why_b_fired_on_each_run(sample_runs, capsys):
    lines = printed(capsys, "show", sample_runs / "floor").splitlines()
    fired, references = zip(
        *(line.split("; the reference is exact ") for line in lines if "(b) fires" in line),
        strict=True,
    )
    assert fired == (
        "bp seed 42: (b) fires: converged (γ_L 0.49, ‖e_T‖ 3.6e-6)",
        "dfa seed 42: (b) fires: cancelled (γ_L 5e-7, ‖e_T‖ 0.86)",
    )
    assert set(references) == {"(cosine 1.000000, none lost): the gradient is small, not noise"}


def test_runs_whose_cause_cannot_be_told_share_one_line(published_table, published_cnn, capsys):
    (line,) = [
        line
        for line in printed(capsys, "show", published_table).splitlines()
        if "(b) fires" in line
    ]
    assert line.count("seed") == 4 and " and 5 more: " in line
    assert line.endswith("(b) fires: undetermined (B and ‖e_T‖ not recorded)")
    assert "(b) fires" not in printed(capsys, "show", published_cnn)


@pytest.mark.parametrize("command", ["check", "seeds", "utility", "sweep"])
@pytest.mark.parametrize(
    ("name", "content", "hint"),
    [
        ("empty.json", '{"reports": {}, "summary": []}', "name audits"),
        (
            "trace_dfa_s7.jsonl",
            '{"epoch": 1, "test_acc": 0.3, "residual_norms": [1, 2], "bp_grad_norms": [1, 1]}\n',
            "timeline",
        ),
    ],
)
def test_a_file_without_an_audit_is_one_line_that_says_so(
    command, name, content, hint, tmp_path, capsys
):
    (tmp_path / name).write_text(content)
    err = refusal(capsys, command, tmp_path / name, code=3)
    assert name in err and hint in err


def test_show_says_which_command_reads_traces(tmp_path, capsys):
    (tmp_path / "trace_dfa_s7.jsonl").write_text(
        '{"epoch": 1, "test_acc": 0.3, "residual_norms": [1, 2]}\n'
    )
    assert printed_json(capsys, "show", tmp_path) == []
    assert "`fa-tui timeline` reads traces" in complaint(capsys, "show", tmp_path, code=0)


def test_a_missing_path_is_one_line_and_exit_3_and_debug_asks_for_the_traceback(tmp_path, capsys):
    assert "absent.json" in refusal(capsys, "show", tmp_path / "absent.json", code=3)
    done = run("show", tmp_path / "absent.json", "--debug")
    assert done.returncode != 0 and "Traceback" in done.stderr


LONG = "x" * 5000


@pytest.mark.parametrize("command", ["", "open", "show", "check", "verify", "seeds", "timeline"])
def test_an_empty_path_is_not_the_current_folder(command, capsys):
    assert (
        complaint(capsys, *filter(None, [command]), "")
        == "fa-tui: an empty path; is a variable unset? the current folder is .\n"
    )


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["show", LONG], 3),
        (["open", LONG], 3),
        (["audit", "RUN", "--out", LONG], 2),
        (["audit", "RUN", "--out", ""], 2),
        (["report", "RUN", "--out", f"{LONG}.md"], 2),
        (["train", "--method", "bp", "--out", LONG], 3),
        (["train", "--method", "bp", "--out", ""], 2),
        (["train", "--method", "bp", "--out", "OUT", "--threads", "999999999999"], 2),
        (["train", "--method", "bp", "--out", "OUT", "--data", "broken_for_tests:load"], 2),
    ],
)
def test_values_that_cannot_be_meant_are_one_line(
    args, code, sample_runs, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken_for_tests.py").write_text(
        "def load():\n    raise RuntimeError('boom\\nagain')\n"
    )
    given = {"RUN": str(sample_runs / "main" / "bp_s42"), "OUT": str(tmp_path / "out")}
    said = complaint(capsys, *[given.get(arg, arg) for arg in args], code=code).splitlines()
    begun = [line for line in said if line.endswith("to measure") or ": starting" in line]
    assert [line for line in said if line not in begun] == said[-1:]
    assert "internal error" not in said[-1]


def test_a_path_that_is_named_twice_is_read_once(sample_runs, capsys):
    run = str(sample_runs / "main" / "bp_s42")
    assert main(["check", run, run]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("1 run: ") and not err


def test_a_misspelt_command_is_no_path_and_a_wrong_option_says_where_help_is(capsys):
    assert main(["shwo", "x.json"]) == 2
    said = "fa-tui: no command or path 'shwo'; did you mean `fa-tui show`?\n"
    assert capsys.readouterr().err == said
    err = complaint(capsys, "show", "--fromat", "json")
    assert err.count("\n") == 1 and "--format" in err and "fa-tui show --help" in err


UNNEEDED = {
    "from fa_core.formats import scan; scan([table])": "torch numpy textual",
    "from fa_tui.cli import main; main(['show', table])": "torch textual",
    "import fa_core.training.plan": "torch",
    "import fa_core.audit.audit, fa_core.audit.cluster": "torch numpy ray",
    # before the first paint
    "import fa_tui.cli, fa_tui.opening, fa_tui.pages.matrix": "torch numpy typer html "
    "fa_core.audit.audit textual.widgets._data_table textual.widgets._markdown textual.widgets._tabs",
}
"""What is done → what it does not import."""


@pytest.mark.parametrize("code", UNNEEDED)
def test_what_is_not_needed_is_not_imported(published_table, code):
    found = f"print(*[name for name in {UNNEEDED[code].split()} if name in sys.modules])"
    program = f"import sys; table = sys.argv[1]; {code}; {found}"
    command = [sys.executable, "-c", program, str(published_table)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--seeds 42 123 456", "--seeds 42,123,456"),
        ("--methods bp dfa", "--methods bp,dfa"),
        ("--frozen-baseline bp=0.3 dfa=0.2", "--frozen-baseline bp=0.3,dfa=0.2"),
    ],
)
def test_a_list_with_blanks_is_refused_with_commas(published_table, words, line, capsys):
    assert (
        complaint(capsys, "seeds", published_table, *words.split())
        == f"fa-tui: lists take commas; write {line}\n"
    )


def test_a_path_behind_a_list_is_a_path(published_table, capsys):
    assert main(["seeds", "--seeds", "42", str(published_table)]) == 0
    assert "no such file" in complaint(capsys, "seeds", "--seeds", "42", "missing.json", code=3)


def shell(line, **environment):
    """Run a line of bash in which ``$FA`` is the program."""
    program = f"{sys.executable} -m fa_tui"
    return subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        encoding="latin-1" if environment else "utf-8",
        env={**os.environ, "FA": program, **environment},
    )


@pytest.mark.parametrize(
    ("command", "code"),
    {
        "check . | head -1": 1,
        "check . >&-": 1,
        "check dfa_s42 | true": 1,
        "check bp_s42 | true": 0,
        "diff bp_s42 dfa_s42 | true": 1,
        "seeds . | true": 0,
        "show . --format csv | head -1": 0,
    }.items(),
)
def test_the_exit_code_is_that_of_the_answer_when_nobody_reads(sample_runs, command, code):
    done = shell(f"cd {sample_runs}/main; $FA {command}; exit ${{PIPESTATUS[0]}}")
    assert (done.returncode, done.stderr) == (code, "")


@pytest.mark.parametrize("command", ["show", "--help", "--version"])
@pytest.mark.parametrize("stdout", [">&-", ">/dev/full"])
def test_a_stdout_that_takes_nothing_is_one_line_and_exit_3(command, stdout):
    if stdout == ">/dev/full" and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    done = shell(f"$FA {command} {stdout}")
    assert done.returncode == 3
    (said,) = done.stderr.splitlines()
    assert said in (
        "fa-tui: stdout is closed: there is nowhere to print to",
        "fa-tui: cannot print the result (No space left on device)",
    )


def test_a_terminal_without_unicode_gets_what_it_can_show(published_table):
    done = shell(f"$FA show {published_table}", PYTHONIOENCODING="latin-1")
    assert done.returncode == 0
    assert "(b) |g_L|" in done.stdout
    done = shell(f"$FA show {published_table} --format json", PYTHONIOENCODING="ascii")
    assert len(json.loads(done.stdout)) == 15


def test_the_csv_of_show_is_that_of_a_report_and_json_has_more(sample_runs, tmp_path, capsys):
    (record, *_) = printed_json(capsys, "show", sample_runs / "controls")
    assert {"noise_scale", "margins_by_rule", "flips", "intervals", "beside"} <= record.keys()
    out = tmp_path / "made" / "runs.csv"
    assert main(["report", str(sample_runs / "controls"), "--out", str(out)]) == 0
    capsys.readouterr()
    assert printed(capsys, "show", sample_runs / "controls", "--format", "csv") == out.read_text()


def test_the_table_has_no_blanks_at_its_edges(published_table, capsys):
    lines = printed(capsys, "show", published_table).splitlines()
    assert lines[0].split()[0] == "method"
    assert all(line == line.rstrip() for line in lines)


def test_a_folder_of_thousands_of_other_files_is_told_in_a_few_lines(tmp_path, capsys):
    for number in range(60):
        (tmp_path / f"note{number}.pt").write_text("not a checkpoint")
        (tmp_path / f"note{number}.txt").write_text("not ours")
    told = complaint(capsys, "show", tmp_path, code=3).splitlines()
    assert len(told) == 21
    assert told[-1] == "fa-tui: and 40 more problems; the explorer lists them all (P)"
