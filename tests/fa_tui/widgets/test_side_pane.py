"""The pane of the run under the cursor: its width, and all of it."""

from __future__ import annotations

from fa_tui.app import ExplorerApp
from fa_tui.screens.explorer_panes import SidePane
from fa_tui.settings import load_settings
from tests.fa_tui.waiting import until


async def test_the_line_between_the_panes_moves_by_key_and_mouse_and_is_there_the_next_time(
    app: ExplorerApp,
) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.explorer.detail is not None)
        pane = app.explorer.query_one(SidePane)
        before = pane.region.width
        await pilot.press("less_than_sign")
        await until(pilot, lambda: pane.region.width == before + 4)
        await pilot.mouse_down(pane, offset=(0, 5))
        await pilot.hover(pane, offset=(-6, 5))
        await pilot.mouse_up(pane, offset=(-6, 5))
        await until(pilot, lambda: pane.region.width > before + 4)
        kept = pane.chosen
        await until(pilot, lambda: load_settings().settings.side == kept)
    again = ExplorerApp(app.session, settings=load_settings())
    async with again.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: again.explorer.query_one(SidePane).region.width == kept)


async def test_z_gives_the_pane_with_the_focus_all_of_the_width_and_again_shows_both(
    app: ExplorerApp,
) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.explorer.detail is not None)
        await pilot.press("z")
        await until(pilot, lambda: app.explorer.matrix.region.width == 120)
        await pilot.press("z")
        await until(pilot, lambda: app.explorer.query_one(SidePane).region.width > 20)
        await pilot.press("tab", "z")
        await until(pilot, lambda: app.explorer.query_one(SidePane).region.width == 120)
