"""Sweep and seeds on screen: what the commands print, following the sliders."""

import pytest
from msgspec.structs import replace

from fa_core.analysis.seeds import over_seeds
from fa_core.analysis.threshold_sweep import sensitivities
from fa_core.reporting.blocks import Grid
from fa_core.reporting.sections.analyses import seeds_blocks, sensitivity_blocks
from fa_tui.follow import Reading
from fa_tui.session import Session
from fa_tui.views.printed import lines_of
from tests.fa_tui.looks import app_on, filter_by, opened, page_line, running, set_a_to, settled
from tests.fa_tui.looks import below_tabs as screen_text
from tests.fa_tui.waiting import until


def grids_of(blocks):
    return [block for block in blocks if isinstance(block, Grid)]


async def _open(pilot, *keys):
    return await opened(pilot, "A", *keys)


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_no_number_is_cut_at_any_width(session, width):
    for blocks in (
        [*sensitivity_blocks(sensitivities(session.runs.table))],
        [*seeds_blocks(over_seeds(session.runs.table))],
    ):
        lines = [line.text for line in lines_of(blocks, width)]
        text = "\n".join(lines)
        assert max(map(len, lines)) <= width
        for grid in grids_of(blocks):
            for row in grid.rows:
                assert all(cell in text for cell in row if cell[-1].isdigit() and " " not in cell)


async def test_number_keys_and_clicks_open_what_the_commands_print(app):
    async with running(app) as pilot:
        screen = await _open(pilot, "2")
        means, ranges = grids_of(seeds_blocks(over_seeds(app.session.runs.table)))
        for shown, *printed in zip(screen.table.text[1:], means.rows, ranges.rows, strict=True):
            assert tuple(shown) == (*printed[0], *printed[1][1:])
        await pilot.click(screen.tabs, offset=(4, 0))
        await settled(pilot)
        assert "63.357×" in screen_text(app) and "(10.961, 694.458)" in screen_text(app)
        await pilot.press("A")
        assert app.explorer.page.id == "Matrix"


async def test_thresholds_and_runs_that_change_are_followed(app):
    async with running(app) as pilot:
        screen = await _open(pilot)
        assert "(1.935), 0/6" in screen.text.text
        await set_a_to(pilot, "5")
        await settled(pilot)
        assert "(1.935), 2/6" in screen.text.text
        row = replace(app.session.rows[0], source="new.json")
        app.folders_changed([Reading("new.json", [row])])
        await settled(pilot)
        assert "16 runs" in screen_text(app) and "2/7" in screen.text.text


async def test_the_analyses_are_of_the_runs_in_scope_and_say_what_the_filter_takes_from_them(app):
    async with running(app) as pilot:
        await filter_by(pilot, "seed<100 method:dfa")
        await until(pilot, lambda: app.session.filter is not None)
        screen = await _open(pilot, "2")
        assert "1 of 15 runs" in page_line(app, 0)
        assert "Only some runs of a method pass the filter: dfa 1 of 3." in screen.text.text
        assert "state_bridge" not in screen.text.text
        await pilot.press("1")
        await settled(pilot)
        assert "The filter leaves out every healthy run (f: all runs)." in screen.text.text
        await pilot.press("f")
        await settled(pilot)
        assert "The filter leaves out" not in screen.text.text


@pytest.mark.parametrize(
    ("filtered", "said"), [(False, "No run is open"), (True, "No run passes the filter")]
)
async def test_where_there_is_nothing_to_analyse_it_says_so(app, filtered, said):
    app = app if filtered else app_on(Session([]))
    async with running(app, (80, 24)) as pilot:
        if filtered:
            await filter_by(pilot, "growth>1e30")
            await until(pilot, lambda: app.session.in_scope == [])
        screen = await _open(pilot)
        for key in "12":
            await pilot.press(key)
            await settled(pilot)
            assert said in screen.text.text
