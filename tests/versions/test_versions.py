"""The short set of tests that runs on every Python and on the oldest versions of the dependencies.

`.ci/versions` runs it where torch is not installed: the audit here measures with a function that needs none.
"""

import json
from pathlib import Path

import pytest

from fa_core.audit.audit import Measuring, audit
from fa_core.audit.devices import Execution
from fa_core.audit.jobs import MeasureOptions
from fa_core.formats import scan
from fa_tui.cli import COMMANDS, main
from fa_tui.session import Session
from tests.conftest import REPOSITORY
from tests.fa_core.rows import row_of
from tests.fa_tui.looks import app_on, shows
from tests.json_files import put_json

PUBLISHED = str(REPOSITORY / "sample_runs" / "audit_table_s42_s123_s456.json")


def test_the_command_line_judges_the_published_runs(capsys):
    assert main(["show", PUBLISHED, "--format", "json"]) == 0
    runs = json.loads(capsys.readouterr().out)
    walked_back = [run for run in runs if run["verdict"].startswith("needs walk-back")]
    assert (len(runs), len(walked_back)) == (15, 9)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, capsys):
    assert main([command, "--help"]) == 0
    assert f"Usage: fa-tui {command}" in capsys.readouterr().out


def test_a_worker_process_measures_and_the_audit_file_reads_back(tmp_path, monkeypatch):
    monkeypatch.chdir(
        REPOSITORY / "tests" / "fa_core" / "audit"
    )  # the worker imports `faults` from there
    monkeypatch.setenv("FA_TUI_MEASURE", "faults:measure_described")
    checkpoint = tmp_path / "dfa_s42.json"
    network = {"arch": "resmlp", "arch_args": {"d": 8, "L": 2}, "data": "synthetic"}
    put_json(checkpoint, {"provenance": network, "growth": 99.0})
    row = row_of("dfa_s42", checkpoint, ...)
    out = tmp_path / "audit.json"
    how = Measuring(execution=Execution(device="cpu"))
    finished = audit([row], out, MeasureOptions(data="synthetic"), how)
    assert finished.failures == []
    (read,) = scan([out]).rows
    assert read.report.flags == {"a"}


async def test_a_threshold_key_changes_the_first_screen():
    app = app_on(Session(scan([Path(PUBLISHED)]).rows))
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, "9 of 15")
        await pilot.press("a", "5", "enter")
        await shows(pilot, "11 of 15")
