"""The command line completes, its help fits a terminal, and its codes say what happened."""

import itertools

import pytest

from fa_tui.cli import COMMANDS, main
from tests.fa_tui.printing import complaint, printed, printed_json


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("se", "seeds"),
        ("show x --format m", "markdown"),
        ("show --stab", "--stability-drift-ceiling"),
    ],
)
def test_a_shell_is_told_what_may_follow(words, found, monkeypatch, capsys):
    monkeypatch.setenv("_FA_TUI_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"fa-tui {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().out.split() == [found]
    monkeypatch.setenv("COMP_CWORD", "zz")
    assert main([]) == 0


def test_every_line_of_the_help_fits_eighty_columns(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    lines = printed(capsys, "--help").splitlines()
    assert max(map(len, lines)) <= 80
    said = dict(line.split(maxsplit=1) for line in lines[lines.index("Commands:") + 1 :])
    assert set(said) == set(COMMANDS) and all(
        text.endswith(".") and "..." not in text for text in said.values()
    )


@pytest.mark.parametrize(
    "words",
    [
        "check",
        "audit --out x.json",
        "report --out x.md",
        "verify",
        "seeds",
        "sweep",
        "utility",
        "timeline",
    ],
)
def test_a_command_that_judges_writes_or_measures_needs_a_path(
    words, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert "PATH" in complaint(capsys, *words.split()) and not list(tmp_path.iterdir())


def test_check_ends_with_the_count_and_the_letters(published_table, capsys):
    flags = [row["flags"] for row in printed_json(capsys, "show", published_table)]
    letters = ", ".join(
        f"({letter}) {sum(letter in fired for fired in flags)}" for letter in "abcd"
    )
    out = printed(capsys, "check", published_table, code=1).splitlines()
    assert (
        out[-1]
        == f"15 runs: {flags.count('')} trustworthy on a, b, c, 9 need walk-back; fires: {letters}"
    )


def test_a_file_that_cannot_be_read_gives_the_code_that_its_folder_gives(
    published_table, tmp_path, capsys
):
    (tmp_path / "good.json").write_bytes(published_table.read_bytes())
    (tmp_path / "notes.txt").write_text("none of ours")
    assert main(["show", str(tmp_path)]) == 0
    broken = tmp_path / "broken.json"
    broken.write_text('{"reports": 3')
    for command in ("show", "check", "seeds", "sweep", "utility"):
        for path in (tmp_path, broken):
            assert main([command, str(path)]) == 3
            out, err = capsys.readouterr()
            assert "broken.json: truncated JSON" in err and bool(out) == (path is tmp_path)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_examples_of_the_help_can_be_copied(command, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    lines = printed(capsys, command, "--help").splitlines()
    examples = [line for line in lines if line.startswith("      fa-tui ")]
    assert examples
    for line, after in itertools.pairwise(lines):
        if line in examples:
            assert after == "" or line.endswith("\\"), line
