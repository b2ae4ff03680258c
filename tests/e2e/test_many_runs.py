"""Ten thousand runs opened, slid, scrolled and filtered; 256 checkpoints measured while the slider moves."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from tests.e2e.conftest import Open
from tests.e2e.synthetic import audit_table, unmeasured_runs

STEP_BUDGET = 800
PAGE = 14_000
"""Bytes of a screen of 120×40 in which every cell changed colour or text (a page of a plain DataTable: 20 KB)."""


def test_ten_thousand_runs_are_opened_slid_scrolled_and_filtered(
    open_explorer: Open, ten_thousand: Path
) -> None:
    terminal = open_explorer(ten_thousand, ready="of 10000 need walk-back")
    assert len(terminal.sent) <= 2 * PAGE, "the first paint and what the analysis adds"

    terminal.press("a")
    assert (
        statistics.median(len(terminal.press(key)) for key in ["left"] * 8 + ["right"] * 8)
        <= STEP_BUDGET
    )
    terminal.press("escape")
    terminal.press("t", quiet=0.5)
    pages = [len(terminal.press(key)) for key in ["pagedown"] * 5 + ["pageup"] * 5]
    assert 0 < max(pages) <= PAGE
    terminal.press("end", quiet=0.5)
    assert "_9999" in terminal.text()

    terminal.press("home")
    terminal.press("/", limit=1)
    # the cursor of the entry blinks: the terminal is never silent
    typed = [len(terminal.press(key, limit=0.4)) for key in "method:dfa3 growth>100"]
    terminal.press("enter")
    terminal.wait_for("filter method:dfa3 growth>100, 330 of 10000 runs")
    assert statistics.median(typed) <= PAGE / 4
    assert "dfa3" in terminal.text()
    assert "dfa0" not in terminal.text()


@pytest.mark.parametrize(("view", "columns", "lines"), [("t", 120, 40), ("?", 80, 24)])
def test_a_line_further_costs_that_line_and_not_the_page(
    open_explorer: Open, ten_thousand: Path, view: str, columns: int, lines: int
) -> None:
    terminal = open_explorer(
        ten_thousand, ready="of 10000 need walk-back", columns=columns, lines=lines
    )
    terminal.press(view, quiet=0.5)
    terminal.press(*["down"] * 40, quiet=0.5)
    back = [len(terminal.press(key)) for key in ["up"] * 5]
    terminal.press("home", quiet=0.5)
    terminal.press(*["down"] * (lines - 10), quiet=0.5)
    onward = [len(terminal.press(key)) for key in ["down"] * 5]
    assert 0 < statistics.median(onward) <= STEP_BUDGET
    assert statistics.median(back) <= STEP_BUDGET


def test_a_terminal_that_cannot_scroll_a_part_shows_the_same(
    open_explorer: Open, tmp_path: Path
) -> None:
    many = audit_table(tmp_path / "many.json", 1000)
    seen, sent = [], []
    for term in ("xterm", "ansi"):
        terminal = open_explorer(
            many, ready="of 1000 need walk-back", env={"TERM": term, "COLORTERM": None}
        )
        terminal.press("t", quiet=0.5)
        terminal.press(*["down"] * 60, quiet=0.5)
        before = len(terminal.sent)
        terminal.press("down", "down", "down", quiet=0.5)
        terminal.press("up", quiet=0.5)
        seen.append(terminal.text())
        sent.append(bytes(terminal.sent[before:]))
    assert seen[0] == seen[1]
    assert [b"\x1b[r" in data for data in sent] == [True, False]


@pytest.mark.slow
def test_while_256_checkpoints_are_measured_a_slider_step_costs_what_it_costs_at_rest(
    open_explorer: Open, tmp_path: Path
) -> None:
    terminal = open_explorer(unmeasured_runs(tmp_path / "runs", 256), ready="256 not measured")
    terminal.press("a")
    keys = ["left"] * 6 + ["right"] * 6
    at_rest = statistics.median(len(terminal.press(key, quiet=0.1)) for key in keys)
    terminal.press("escape")
    terminal.press("*", "m")
    terminal.wait_for("measuring")
    terminal.press("a")
    while_measuring = []
    for key in keys * 3:
        if not any(word in terminal.text() for word in ("measuring", "queued")):
            break
        while_measuring.append(len(terminal.press(key, quiet=0.03, limit=0.3)))
    assert len(while_measuring) >= len(keys), "it was measuring all the while"
    # a row that comes in between repaints its cell, the count and the progress
    assert statistics.median(while_measuring) <= at_rest + STEP_BUDGET
    terminal.wait_until(lambda: any(tmp_path.rglob("audit.json")))
