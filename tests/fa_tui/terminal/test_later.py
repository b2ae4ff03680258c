"""What is to happen after a while happens, also where the process has to wait for a processor meanwhile."""

import ast
import itertools
import time
from pathlib import Path

import fa_tui
from tests.fa_tui.looks import ratio_is, running

LATE = 0.005
"""Seconds from one look at the clock to the next: more than a slider waits for the keys that come together."""


async def test_no_slider_step_is_lost_where_the_process_waits_for_a_processor(app, monkeypatch):
    async with running(app) as pilot:
        await pilot.press("a")
        await pilot.pause()
        real, looks = time.monotonic, itertools.count(1)
        monkeypatch.setattr("textual._time.get_time", lambda: real() + LATE * next(looks))
        await pilot.press("right", "right")
        await ratio_is(pilot, 63)


def test_no_module_sets_a_timer_that_may_drop_its_callback():
    calls = [
        f"{path}:{node.lineno}"
        for path in Path(fa_tui.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "set_timer"
    ]
    assert not calls, "use fa_tui.terminal.painting.after"
