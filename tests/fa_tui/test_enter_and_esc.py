"""Enter opens what the cursor is on, and Esc goes back, on every page."""

import pytest

from fa_tui.jobs.listing import Listed
from fa_tui.views.words import parted
from tests.fa_tui.looks import app_on, filter_by, on_page, opened, running, screen_text, shows
from tests.fa_tui.scenes import many
from tests.fa_tui.waiting import until


@pytest.mark.parametrize("size", [(80, 24), (50, 24), (60, 15), (80, 10), (80, 12), (200, 60)])
@pytest.mark.parametrize("long", [False, True], ids=["matrix", "table"])
async def test_a_run_opens_on_all_of_the_width_with_its_four_lines(app, size, long):
    async with running(app, size) as pilot:
        explorer = app.explorer
        await pilot.press(*["t"] * long, "down")
        await pilot.press("enter")
        await until(pilot, lambda: explorer.focused is explorer.page.detail)
        pane = explorer.page.detail
        await until(pilot, lambda: pane.size.width > size[0] - 8)
        await shows(pilot, "d margin")
        assert all(f" {letter} " in screen_text(app) for letter in "abcd")
        await pilot.press(*["down"] * 8, "escape")
        await until(pilot, lambda: explorer.focused is explorer.page.view)
        assert not explorer.page.has_class("-run-alone") and pane.scroll_offset.y == 0
        assert explorer.page.id == ("Table" if long else "Matrix"), "one step back"
        await until(pilot, lambda: explorer.page.view.size.width > size[0] // 3)


async def test_a_double_click_opens_the_run(app):
    async with running(app, (80, 24)) as pilot:
        explorer = app.explorer
        await pilot.click(explorer.page.view, offset=(30, 2), times=2)
        await until(pilot, lambda: explorer.focused is explorer.page.detail)


async def test_enter_and_esc_typed_ahead_leave_the_runs(app):
    async with running(app, (80, 24)) as pilot:
        explorer = app.explorer
        await pilot.press("t", "enter", "escape", "down")
        await pilot.pause(0.05)
        assert explorer.focused is explorer.page.view and explorer.page.view.line == 1


async def test_enter_in_compare_goes_to_the_run_in_the_matrix(app):
    async with running(app) as pilot:
        page = await opened(pilot, "C", "tab", "right")
        run = page.row
        assert run == page.group.rows[1]
        await pilot.press("enter")
        await on_page(pilot, "Matrix")
        assert app.explorer.row == app.explorer.matrix.row == run


async def test_enter_on_a_job_goes_to_its_run(app):
    app.jobs.listed = lambda: [Listed(id="7", name="a run", state="running")]
    async with running(app) as pilot:
        page = await opened(pilot, "J")
        assert page.row == 7
        await pilot.press("enter")
        await on_page(pilot, "Matrix")
        assert app.explorer.matrix.row == 7


async def test_the_selected_run_is_common_to_all_pages(app):
    async with running(app) as pilot:
        await pilot.press("down", "right", "t")
        await on_page(pilot, "Table")
        assert app.session.rows[app.explorer.page.row].key == "dfa_s123"
        await pilot.press("down", "C")
        await until(
            pilot, lambda: app.explorer.page.id == "Compare" and app.explorer.page.is_mounted
        )
        await pilot.pause()
        assert app.session.rows[app.explorer.page.row].key == "state_bridge_s123"


async def test_esc_peels_slider_page_and_filter(app):
    async with running(app) as pilot:
        explorer = app.explorer
        await filter_by(pilot, "dfa")
        await until(pilot, lambda: explorer.takes_keys and app.session.filter is not None)
        page = await opened(pilot, "C")
        await pilot.press("a")
        assert explorer.focused is explorer.sliders.sliders["a"]
        await pilot.press("escape")
        assert explorer.focused is page.main
        await pilot.press("escape")
        await on_page(pilot, "Matrix")
        assert app.session.scope_text == "dfa"
        await pilot.press("escape")
        assert app.session.filter is None and len(app.session.in_scope) == 15
        await pilot.press("f")
        assert app.session.scope_text == "dfa"


async def test_the_sliders_fold_with_a_key_and_where_the_page_needs_the_lines(app):
    async with running(app, (80, 24)) as pilot:
        explorer = app.explorer

        def lines():
            return explorer.sliders.size.height

        await until(pilot, lambda: lines() == 6)
        await pilot.press("z")
        await until(pilot, lambda: lines() == 1)
        await pilot.press("z")
        await until(pilot, lambda: lines() == 6)
        explorer._folds = None
        page = await opened(pilot, "C")
        await until(pilot, lambda: lines() == 1)
        await pilot.press("b")
        await until(pilot, lambda: lines() == 3), "the one with the focus is shown"
        await pilot.press("escape")
        await until(pilot, lambda: lines() == 1 and page.size.height > 12)


async def test_the_first_run_that_flips_comes_into_sight():
    app = app_on(many())
    async with running(app, (80, 24)) as pilot:
        explorer = app.explorer
        await pilot.press("a", "right_curly_bracket")
        await pilot.pause()
        for _ in range(3):
            await pilot.press("right_square_bracket")
            await pilot.pause()
            turned, still = parted(app.session)
            place = explorer.matrix.place_of((turned or still)[0].row)
            assert place[0] in explorer.matrix.visible_lines()
