"""The charts below a short matrix."""

from __future__ import annotations

import pytest

from fa_tui.app import ExplorerApp
from fa_tui.screens.explorer_panes import SidePane
from fa_tui.settings import load_settings
from fa_tui.widgets.chart import Canvas
from tests.fa_tui.looks import app_on, screen_text
from tests.fa_tui.scenes import many, unmeasured
from tests.fa_tui.waiting import until


async def test_the_runs_on_the_line_under_the_cursor_are_drawn_below_it(app: ExplorerApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "○ bp s42  □ bp s123  △ bp s456" in screen_text(app))
        await pilot.press("down")
        await until(pilot, lambda: "○ dfa s42  □ dfa s123  △ dfa s456" in screen_text(app))
        await pilot.press("t")
        await until(pilot, lambda: "○ dfa s42" not in screen_text(app))


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_they_take_no_room_from_lines_and_are_not_there_in_a_small_terminal(
    size: tuple[int, int],
) -> None:
    app = app_on(many())
    async with app.run_test(size=size) as pilot:
        await until(
            pilot, lambda: app.explorer.charts is not None and app.explorer.charts.is_mounted
        )
        await pilot.pause()
        assert app.explorer.charts is not None and not app.explorer.charts.display


async def test_a_line_of_which_nothing_was_measured_has_none() -> None:
    app = app_on(unmeasured())
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "○ bp s42" in screen_text(app))
        await pilot.press("down")
        await until(pilot, lambda: "residual stream" not in screen_text(app))


async def test_a_slider_redraws_none_of_it(
    app: ExplorerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "○ bp s42" in screen_text(app))
        drawn: list[object] = []
        monkeypatch.setattr(Canvas, "set_chart", lambda canvas, chart: drawn.append(chart))
        await pilot.press("a", "5", "enter")
        await until(pilot, lambda: "11 of 15" in screen_text(app))
        assert not drawn


async def test_on_a_wide_screen_they_are_next_to_the_columns_of_the_matrix(
    app: ExplorerApp,
) -> None:
    async with app.run_test(size=(200, 60)) as pilot:
        await until(pilot, lambda: "residual stream" in screen_text(app))
        charts = app.explorer.charts
        assert charts is not None and charts.has_class("-beside")
        assert (
            charts.region.x >= app.explorer.matrix.virtual_size.width and charts.region.right <= 200
        )


async def test_the_line_between_the_panes_moves_by_key_and_mouse_and_is_there_the_next_time(
    app: ExplorerApp,
) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "○ bp s42" in screen_text(app))
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
