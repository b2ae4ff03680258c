"""The pane of the run under the cursor: its width, and all of it."""

from __future__ import annotations

from fa_tui.app import ExplorerApp
from fa_tui.pages.runs import SidePane
from fa_tui.settings import load_settings
from tests.fa_tui.waiting import until


async def test_the_line_between_the_panes_moves_by_key_and_mouse_and_is_there_the_next_time(
    app: ExplorerApp,
) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.explorer.takes_keys)
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
