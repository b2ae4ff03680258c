"""Copy and export act on the screen that the person is on."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fa_core.formats import Trace, scan
from fa_core.formats.rows import AuditRow
from fa_tui.app import ExplorerApp
from fa_tui.cli import main
from fa_tui.screens.questions import ChoiceList, ChoiceScreen
from fa_tui.session import Session
from fa_tui.sharing.pieces import traces_of
from tests.fa_tui.looks import app_on, opened
from tests.fa_tui.waiting import until

SIZE = (120, 40)


@pytest.fixture
def app(published_table: Path) -> ExplorerApp:
    app = app_on(Session(scan([published_table]).rows))
    app.paths = [published_table]
    return app


async def pick(pilot: Any, *keys: str) -> None:
    """Press y or e and then what to take."""
    screen = pilot.app.screen
    await pilot.press(keys[0])
    await until(pilot, lambda: isinstance(pilot.app.screen, ChoiceScreen))
    await pilot.press(*keys[1:])
    await until(pilot, lambda: pilot.app.screen is screen)


@pytest.mark.parametrize(("key", "command"), [("1", "sweep"), ("2", "seeds")])
async def test_an_analysis_gives_what_its_command_prints(
    app: ExplorerApp,
    key: str,
    command: str,
    copied: list[str],
    published_table: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot, "A", key, "a", "5", "enter", "escape")
        for what in "jtl":
            await pick(pilot, "y", what)
            await until(pilot, lambda what=what: len(copied) == "jtl".index(what) + 1)  # type: ignore[misc]
    record, table, line = copied
    assert main([*shlex.split(line)[1:], "--format", "json"]) == 0
    assert json.loads(record) == json.loads(capsys.readouterr().out), (
        "the numbers on screen are the command's"
    )
    assert line == f"fa-tui {command} {published_table} --h-norm-explosion-ratio 5"
    assert table.startswith("**") and "|---" in table


async def test_compare_gives_the_compared_runs_and_every_layer(
    app: ExplorerApp, copied: list[str]
) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot, "C", "n", "down")
        await pick(pilot, "y", "t")
        await pick(pilot, "y", "r")
        await pick(pilot, "y", "c")
        await until(pilot, lambda: len(copied) == 3)
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, ChoiceScreen))
        notes = [choice.note for choice in app.screen.query_one(ChoiceList).choices]
    table, rows, cell = copied
    assert table.splitlines()[0] == "|  | s42 | s123 | s456 | max/min |"
    assert "| ‖h_0‖ |" in table and "| growth 0→1 |" in table and "| verdict | ✗ab-d |" in table
    assert [line.split(" | ")[0] for line in rows.splitlines()[2:]] == ["| dfa"] * 3
    assert float(cell) == app.session.rows[1].report.residual_norms[0]
    assert ".html of dfa: 3 runs" in notes


def test_of_two_runs_of_one_name_the_trace_next_to_the_audit_is_exported() -> None:
    name: dict[str, Any] = {"key": "dfa_s42", "method": "dfa", "seed": 42}
    left, right = (
        Trace(source=str(Path(side, "dfa_s42", "trace.jsonl")), **name)
        for side in ("left", "right")
    )
    assert traces_of([AuditRow(source=str(Path("left", "dfa_s42")), **name)], [left, right]) == [
        left
    ]
    table = AuditRow(source="audits.json", **name)
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
    assert traces_of([AuditRow(source="log.json", **name)], logged) == logged[1:]
