"""The explorer driven by keys and mouse, without a terminal."""

import pytest
from textual.command import CommandPalette

from fa_core.formats import scan
from fa_core.report.quantities import QUANTITIES
from fa_tui.app import LARGEST_SCREEN, ExplorerApp
from fa_tui.session import Session
from fa_tui.widgets.line import KeyBar
from tests.fa_core.rows import row_of
from tests.fa_tui.looks import (
    SIZE,
    app_on,
    cell_at_cursor,
    on_screen,
    running,
    screen_text,
    shows,
)
from tests.fa_tui.waiting import until


async def test_a_slider_step_that_flips_nothing_paints_no_cell_of_the_matrix(app, monkeypatch):
    async with running(app) as pilot:
        await pilot.press("a")
        await pilot.pause()
        painted = []
        matrix = app.explorer.matrix
        render_line = matrix.render_line
        monkeypatch.setattr(matrix, "render_line", lambda y: painted.append(y) or render_line(y))
        await pilot.press("left")
        await pilot.pause()
        assert painted == []
        await pilot.press(*"5.0", "enter")
        await pilot.pause()
        assert set(painted) == {matrix.line_count()}, "only the line of ep is painted"


async def test_arrows_and_hjkl_walk_the_matrix(app):
    async with running(app) as pilot:
        matrix = app.explorer.matrix
        await pilot.press("down", "right")
        assert (matrix.line, matrix.column) == (1, 1)
        await pilot.press("j", "l", "k", "h")
        assert (matrix.line, matrix.column) == (1, 1)
        await pilot.press("end")
        assert matrix.line == matrix.line_count() - 1
        await pilot.press("home")
        assert matrix.line == 0


async def test_a_click_moves_the_cursor_and_the_wheel_scrolls(app):
    async with running(app, (80, 24)) as pilot:
        matrix = app.explorer.matrix
        offset = matrix.frozen_width + matrix.width_of(0) + 2
        await pilot.click(matrix, offset=(offset, 3))
        assert (matrix.line, matrix.column) == (2, 1)
        assert app.session.rows[matrix.row].key == "state_bridge_s123"


async def test_headings_are_never_under_the_cursor(two_sources):
    app = ExplorerApp(two_sources)
    async with running(app) as pilot:
        for _ in range(12):
            await pilot.press("down")
            assert app.explorer.row is not None
        for _ in range(12):
            await pilot.press("up")
            assert app.explorer.row is not None


async def test_v_shows_numbers_instead_of_letters_and_comes_round(app):
    async with running(app) as pilot:
        await pilot.press("down", "v")
        assert cell_at_cursor(app) == "2043.33"
        app.explorer.matrix.show_quantity(QUANTITIES[1])
        assert cell_at_cursor(app) == "4.17e-9"
        await pilot.press("v")
        assert cell_at_cursor(app) == "✗▃▇███ ▅▂▂▂▂"
        await pilot.press("v")
        assert cell_at_cursor(app) == "✗ab-d"
        await pilot.press("v")
        assert cell_at_cursor(app) == "4.17e-9"


async def test_numbers_come_with_a_legend(app):
    async with running(app) as pilot:
        await pilot.press("v")
        await pilot.pause()
        legend = app.explorer.status.text
        assert legend == " growth 0.96 to 24126.14   (a) fires   · not measured"
        app.explorer.matrix.show_quantity(QUANTITIES[7])
        await pilot.pause()
        assert app.explorer.status.text == " deep Γ was measured on no run here"
        await pilot.press("v", "v")
        await pilot.pause()
        assert "a fires" in app.explorer.status.text


async def test_the_key_line_names_what_works_now(app):
    async with running(app) as pilot:
        assert "space Mark" in screen_text(app)
        assert "Problems" not in screen_text(app), "there are none"
        await pilot.press("m")
        await shows(pilot, "no checkpoint here")
        await pilot.press("a")
        await pilot.pause()
        line = screen_text(app).splitlines()[-1]
        assert "[ ] Next flip" in line and "{ } Verdict change" in line


@pytest.mark.parametrize("size", [(20, 5), (39, 40), (120, 9)])
async def test_a_tiny_terminal_is_told_so_and_comes_back(app, size):
    async with running(app, size) as pilot:
        assert "too small" in screen_text(app)
        await pilot.resize_terminal(*SIZE)
        await pilot.pause()
        assert "9 of 15 need walk-back" in screen_text(app)


async def test_a_terminal_that_states_any_size_is_laid_out_up_to_a_limit(app):
    async with app.run_test(size=(1 << 16, 1 << 16)) as pilot:
        await pilot.pause()
        assert app.size == app.screen.size == LARGEST_SCREEN


async def test_an_empty_table_opens():
    app = ExplorerApp(Session([]))
    async with running(app) as pilot:
        await pilot.press("down", "space", "t", "s", "down", "t", "v", "m", "a", "left")
        await pilot.pause()
        assert "0 of 0 need walk-back" in screen_text(app)


async def test_hundreds_of_methods_and_seeds_scroll_both_ways_and_paint_only_what_is_seen(session):
    rows = [
        row_of(f"m{method}_s{seed}", "big.json", report=session.rows[0].report)
        for method in range(50)
        for seed in range(25)
    ]
    app = ExplorerApp(Session(rows))
    async with running(app) as pilot:
        matrix = app.explorer.matrix
        await pilot.press("end", *["right"] * 24)
        await pilot.pause()
        assert app.session.rows[matrix.row].key == "m49_s24"
        assert "m49" in screen_text(app)
        assert len(list(matrix.visible_lines())) < 40
        shown = matrix._whole_columns(matrix.view.width - matrix.frozen_width)
        assert len(shown) < 20


@pytest.fixture
def two_sources(published_table, published_cnn):
    return Session(scan([published_table, published_cnn]).rows)


async def test_what_the_footer_has_no_room_for_is_reached_by_mouse_through_the_palette(app):
    async with running(app, (80, 24)) as pilot:
        line = screen_text(app).splitlines()[-1]
        assert "Analysis" not in line
        await pilot.click(KeyBar, offset=(line.index("More"), 0))
        await on_screen(pilot, CommandPalette)
        await pilot.press(*"analysis")
        await shows(pilot, "(A): sweep, seeds")


async def test_what_flipped_stays_highlighted_until_the_next_step_and_is_walked(app):
    async with running(app) as pilot:
        await pilot.press("a", "left_curly_bracket")
        await shows(pilot, "  +a → ✗ ep s123")
        assert "✗a--·◂" in screen_text(app)
        await pilot.press("n")
        assert app.session.rows[app.explorer.row].key == "ep_s123"
        await shows(pilot, "1 of 1 flipped: +a ep s123, needs walk-back")
        await pilot.press("left")
        await until(pilot, lambda: "◂" not in screen_text(app))
        await pilot.press("n")
        await shows(pilot, "no run flipped with the last step")


async def test_the_cursor_starts_on_a_run_and_may_rest_on_an_empty_cell():
    app = app_on(Session([row_of(key, f"runs/{key}") for key in ("dfa_s2", "bp_s1", "bp_s2")]))
    async with running(app, (80, 24)) as pilot:
        assert app.explorer.row == 0 and "no run selected" not in screen_text(app)
        await pilot.press("left")
        await shows(pilot, "no run selected")
        assert app.explorer.row is None


async def test_a_drag_reports_all_that_flipped_since_it_began(app):
    async with running(app) as pilot:
        slider = app.explorer.sliders.sliders["a"]
        await pilot.mouse_down("#slider-a", offset=(50, 0))
        for column in (40, 38, 36):
            slider._drag_to(column)
            await until(
                pilot, lambda: slider.value == app.session.thresholds.h_norm_explosion_ratio != 50.0
            )
            await pilot.pause()
        flipped = {flip.row for flip in app.session.flips}
        assert (
            flipped == {row for row, flags in enumerate(app.session.flags) if flags == 1}
            and len(flipped) > 1
        )
        slider._drag_to(50)
        await until(pilot, lambda: not app.session.flips)
        await shows(pilot, "9 of 15 need walk-back")
