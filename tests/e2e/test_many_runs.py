"""Ten thousand runs opened, slid, scrolled and filtered; 256 checkpoints measured while the slider moves."""

import statistics

import pytest

from tests.e2e.synthetic import unmeasured_runs

STEP_BUDGET = 800
LINE = 4000
PAGE = 14_000
"""Bytes of a screen of 120×40 in which every cell changed colour or text (a page of a plain DataTable: 20 KB)."""


def test_ten_thousand_runs_are_opened_slid_scrolled_and_filtered(open_explorer, ten_thousand):
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


@pytest.mark.slow
def test_while_256_checkpoints_are_measured_a_slider_step_costs_what_it_costs_at_rest(
    open_explorer, tmp_path
):
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
