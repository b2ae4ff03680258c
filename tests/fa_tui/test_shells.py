"""Completion scripts and the manual page say what the commands are; the help fits a terminal."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

import fa_tui
from fa_tui import typer_app
from fa_tui.cli import COMMANDS, main

SHELLS = Path(fa_tui.__file__).parent / "shells"


def test_the_files_are_what_the_commands_are() -> None:
    found = importlib.util.spec_from_file_location(
        "shells", Path(fa_tui.__file__).parents[1] / "docs" / "shells.py"
    )
    assert found is not None and found.loader is not None
    shells = importlib.util.module_from_spec(found)
    found.loader.exec_module(shells)
    written = shells.files()
    assert {path.name for path in SHELLS.iterdir()} == {path.name for path in written}
    for path, text in written.items():
        assert path.read_text(encoding="utf-8") == text, "run python docs/shells.py"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "man"])
def test_they_are_printed_and_no_command_is_imported(shell: str) -> None:
    code = "import sys; from fa_tui.cli import main; code = main(); print(*sys.modules, file=sys.stderr); sys.exit(code)"
    ran = subprocess.run(
        [sys.executable, "-c", code, "completion", shell], capture_output=True, check=True
    )
    assert ran.stdout == (SHELLS / f"fa-tui.{shell}").read_bytes()
    assert {"torch", "textual", "numpy"}.isdisjoint(ran.stderr.decode().split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("fa-tui se", "seeds serve settings"),
        ("fa-tui audit --eng", "--engine"),
        ("fa-tui audit --engine ", "local ray"),
        ("fa-tui show x --format m", "markdown"),
        ("fa-tui completion ", "bash fish man zsh"),
        ("fa-tui show runs", ""),
        ("fa-tui settings g", "get"),
        ("fa-tui settings get gl", "glyphs"),
        ("fa-tui settings set theme ", ""),
        ("fa-tui report x --figure res", "rescue"),
        ("fa-tui schema man", "manifest"),
        ("fa-tui pitfalls norm-axis null", "null-feedback"),
        ("fa-tui replicate stu", "studentnet"),
        ("fa-tui show --format = m", "markdown"),
        ("fa-tui runs.json --stab", "--stability-drift-ceiling"),
    ],
)
def test_bash_completes(words: str, found: str) -> None:
    typed = words.split(" ")
    script = (
        f'source {SHELLS / "fa-tui.bash"}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _fa_tui; '
        'printf "%s\\n" "${COMPREPLY[@]}" | sort | xargs'
    )
    ran = subprocess.run(
        ["bash", "-c", script, "bash", *typed], capture_output=True, check=True, text=True
    )
    assert ran.stdout.strip() == found


def test_every_line_of_the_help_fits_eighty_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
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
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 2
    assert "PATH" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_a_report_makes_no_folder(
    published_table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ([str(published_table)], ["--blank"]):
        assert main(["report", *words, "--out", str(tmp_path / "not" / "there.md")]) == 2
        assert "no such folder" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_check_ends_with_the_count_and_the_letters(
    published_table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(published_table), "--format", "json"]) == 0
    flags = [row["flags"] for row in json.loads(capsys.readouterr().out)]
    letters = ", ".join(
        f"({letter}) {sum(letter in fired for fired in flags)}" for letter in "abcd"
    )
    assert main(["check", str(published_table)]) == 1
    out = capsys.readouterr().out.splitlines()
    assert (
        out[-1]
        == f"15 runs: {flags.count('')} trustworthy on a, b, c, 9 need walk-back; fires: {letters}"
    )


def test_a_file_that_cannot_be_read_gives_the_code_that_its_folder_gives(
    published_table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "good.json").write_bytes(published_table.read_bytes())
    (tmp_path / "notes.txt").write_text("none of ours")
    assert main(["show", str(tmp_path)]) == 0
    broken = tmp_path / "broken.json"
    broken.write_text('{"reports": 3')
    for command in ("show", "check", "seeds", "sweep", "utility"):
        for path in (tmp_path, broken):
            assert main([command, str(path)]) == 3
            assert "broken.json: truncated JSON" in capsys.readouterr().err


def words_of(line: str) -> list[str]:
    """The words of a command, without its comment."""
    return shlex.split(" ".join(line.split()), comments=True)


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("command", COMMANDS)
def test_help_breaks_no_option_and_its_examples_can_be_copied(command: str, columns: int) -> None:
    text = typer_app.help_text(command, min(columns, 80) - 2)
    known: Any = typer.main.get_command(typer_app.build([command])).commands[command]  # type: ignore[attr-defined]
    example = re.compile(r"^ +(fa-tui .*(?:\n +.*)*)", re.M)
    shown = [one.replace("\\\n", " ") for one in example.findall(text)]
    written = example.findall(inspect.cleandoc(known.help))
    assert [words_of(one) for one in shown] == [words_of(one) for one in written]
    for word in re.findall(r"--[a-z][\w-]*", known.help):
        assert re.search(rf"{word}(?![\w-])", text), word
    for one in known.params:
        for word in (one.help or "").split():
            assert len(word) > 40 or word in text, word
