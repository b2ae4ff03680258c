"""The long view of the runs, and the filter that both views are under."""

import re

import msgspec
import pytest
from textual.widgets import Input

from fa_core.formats import scan
from fa_tui.app import ExplorerApp
from fa_tui.follow import Reading
from fa_tui.session import Session
from fa_tui.widgets import matrix
from tests.fa_tui.looks import (
    app_on,
    filter_by,
    on_page,
    ratio_is,
    running,
    screen_text,
    set_a_to,
    shows,
)
from tests.fa_tui.printing import printed_json
from tests.fa_tui.waiting import until

METHODS = ["bp", "dfa", "state_bridge", "credit_bridge", "ep"]


def methods_on_screen(app):
    """The methods that lead a line of the matrix."""
    lines = screen_text(app).splitlines()
    return [method for method in METHODS if any(line.startswith(f" {method} ") for line in lines)]


async def test_the_long_view_sorts_by_the_column_under_the_cursor_and_goes_to_the_top(app):
    async with running(app) as pilot:
        await pilot.press("down", "t")
        await pilot.pause()
        assert app.session.rows[app.explorer.row].key == "dfa_s42"
        await pilot.press("s")
        table = app.explorer.page.view
        growths = [app.session.rows[row].report.max_per_block_growth for row in table._shown]
        assert growths == sorted(growths)
        assert app.explorer.row == table._shown[0]
        assert "by growth ↑" in screen_text(app)
        await pilot.press("s")
        assert [
            app.session.rows[row].report.max_per_block_growth for row in table._shown
        ] == growths[::-1]
        assert app.explorer.row == table._shown[0]
        await pilot.press("s")
        assert list(table._shown) == list(range(15)), "as the runs were read"


async def test_the_long_view_sorts_by_method_then_by_seed(app):
    async with running(app) as pilot:
        await pilot.press("t", "S")
        await shows(pilot, "by method ↑")
        await pilot.press("S")
        await shows(pilot, "by seed ↑")
        seeds = [app.session.rows[row].seed for row in app.explorer.page.view._shown[::5]]
        assert seeds == [42, 123, 456]


async def test_the_copied_command_prints_the_runs_that_are_on_screen_in_their_order(
    published_table, capsys
):
    app = ExplorerApp(Session(scan([published_table]).rows), paths=[published_table])
    async with running(app) as pilot:
        await set_a_to(pilot, "5")
        await pilot.press("escape", "slash", *"is:walkback -method:bridge", "enter", "t", "s", "s")
        await pilot.pause()
        shown = [
            (app.session.rows[row].key, app.session.judged(row).words)
            for row in app.explorer.page.view._shown
        ]
        command = app.explorer.page.shared().command
    assert command[0] == "show"
    capsys.readouterr()
    assert [(row["key"], row["verdict"]) for row in printed_json(capsys, *command)] == shown
    assert [key for key, _ in shown] == ["dfa_s456", "dfa_s42", "dfa_s123", "ep_s123", "ep_s456"]


@pytest.mark.parametrize("width", [80, 81, 87, 120])
async def test_no_number_is_cut_at_any_edge_and_the_header_tells_of_more(app, width):
    async with running(app, (width, 24)) as pilot:
        await pilot.press("t")
        await pilot.pause()
        table = app.explorer.page.view
        titles = {column.title for column in table._columns} | {"method", "seed", "verdict"}
        for _ in table._columns:
            await pilot.pause()
            header = table.render_line(0).text
            assert {*re.split(" *[‹›] *|  +", header.strip())} - {""} <= titles
            assert header.rstrip().endswith("›") == (table.column < table.column_count - 1)
            assert header[table.frozen_width - 1] == (" " if table.scroll_offset.x == 0 else "‹")
            assert "bp" in table.render_line(1).text[: table.frozen_width]
            await pilot.press("right")


async def test_a_live_filter_follows_the_slider(app):
    async with running(app) as pilot:
        await filter_by(pilot, "method:ep flag:a")
        assert app.explorer.matrix.line_count() == 0
        await set_a_to(pilot, "5")
        assert app.explorer.matrix.line_count() == 1
        assert screen_text(app).count("✗a--·") == 3, (
            "two cells of the matrix, and the title of the detail"
        )


async def test_a_filter_that_means_nothing_is_not_taken_and_shows_what_the_terms_before_it_find(
    app,
):
    async with running(app) as pilot:
        await filter_by(pilot, "method:dfa growht>3")
        assert "growht is not known; did you mean growth?" in screen_text(app)
        assert "filter method:dfa, 3 of 15 runs" in screen_text(app)
        assert methods_on_screen(app) == ["dfa"]
        assert app.screen.query(Input), "it stays, to be mended"


async def test_the_beginning_of_a_name_empties_no_screen_and_says_how_to_go_on(app):
    async with running(app) as pilot:
        await pilot.press("slash", *"growth")
        await pilot.pause()
        assert methods_on_screen(app) == METHODS
        assert "no run is called growth; write growth>1" in screen_text(app)
        await pilot.press("enter")
        await pilot.pause()
        assert "filter growth, 0 of 15 runs" in screen_text(app), "it was meant as a word"


@pytest.mark.parametrize("view", ["matrix", "table"])
async def test_no_run_to_show_says_why(app, view):
    async with running(app) as pilot:
        await pilot.press(*(["t"] if view == "table" else []), "slash", *"method:none", "enter")
        await pilot.pause()
        assert "no run matches; / changes the filter" in screen_text(app)


async def test_a_filter_of_marks_follows_them(app):
    async with running(app) as pilot:
        await pilot.press("t", "space", "space", "space", "slash", *"is:marked", "enter")
        await pilot.pause()
        assert "filter is:marked, 3 of 15 runs" in screen_text(app)
        await pilot.press("home", "space")
        await pilot.pause()
        assert "filter is:marked, 2 of 15 runs" in screen_text(app)
        assert app.explorer.row == 1, "the run below the one that went"


async def test_closing_the_filter_leaves_the_sliders_as_they_were(app):
    async with running(app, (80, 24)) as pilot:
        await filter_by(pilot, "dfa")
        await until(pilot, lambda: not app.screen.query(Input))
        await pilot.pause()
        assert app.focused is app.explorer.matrix
        assert [slider.id for slider in app.screen.query(".-expanded")] == ["slider-a"]


async def test_short_names_take_no_room_from_the_columns(app):
    async with running(app, (80, 24)) as pilot:
        await filter_by(pilot, "method=bp")
        await until(pilot, lambda: not app.screen.query(Input))
        await pilot.pause()
        matrix = app.explorer.matrix
        assert matrix.virtual_size.width <= matrix.view.width


async def test_the_key_line_names_no_key_that_would_be_typed_into_the_filter(app):
    async with running(app) as pilot:
        await pilot.press("slash")
        await until(pilot, lambda: app.focused is not app.explorer.matrix)
        await pilot.pause()
        line = screen_text(app).splitlines()[-1]
        assert "F1 Help" in line
        assert "/ Filter" not in line and "? Help" not in line
        await pilot.press("escape")
        await until(pilot, lambda: not app.screen.query(Input))
        await pilot.pause()
        assert "/ Filter" in screen_text(app).splitlines()[-1]


async def test_what_was_moved_on_another_screen_is_said_of_the_runs_that_are_shown_now(app):
    async with running(app) as pilot:
        await pilot.press("a", "left_square_bracket", "escape")
        await shows(pilot, "+a → ✗")
        await pilot.press("slash", *"flag:a", "enter", "C", "a", *"1e9", "enter")
        await ratio_is(pilot, 1e9)
        await pilot.press("escape", "escape")
        await on_page(pilot, "Matrix")
        assert " 0 of 15 runs" in screen_text(app)


async def test_f_goes_back_to_the_scope_before_a_filter_was_typed_and_taken_away(app):
    narrowed = lambda: (  # noqa: E731
        "filter method:dfa, 3 of 15 runs" in screen_text(app) and app.explorer.takes_keys
    )
    async with running(app) as pilot:
        await filter_by(pilot, "method:dfa")
        await until(pilot, narrowed)
        await pilot.press("slash", *" seed:42")
        await shows(pilot, "filter method:dfa seed:42, 1 of 15 runs")
        await pilot.press("escape")
        await until(pilot, narrowed)
        await pilot.press("slash", "ctrl+u", "x", "backspace", "enter")
        await until(pilot, lambda: ": 15 runs" in screen_text(app) and app.explorer.takes_keys)
        await pilot.press("slash", *"bp", "escape")
        await until(pilot, lambda: app.explorer.takes_keys)
        assert ": 15 runs" in screen_text(app)
        await pilot.press("f")
        await shows(pilot, "filter method:dfa, 3 of 15 runs")


async def test_a_filter_is_the_scope_of_every_screen_and_one_key_puts_it_aside(app):
    async with running(app) as pilot:
        await pilot.press("slash", *"method:bp", "enter", "a", "left_square_bracket")
        await shows(pilot, "+a → ✗ bp s42")
        assert "1 of 3 need walk-back" in screen_text(app)
        await pilot.press("A")
        await shows(pilot, "filter method:bp, 3 of 15 runs")
        assert "1 of 3 need walk-back" in screen_text(app)
        await pilot.press("f")
        await shows(pilot, "13 of 15 need walk-back")
        await pilot.press("escape")
        await shows(pilot, ": 15 runs")
        assert methods_on_screen(app) == METHODS
        await pilot.press("f")
        await until(pilot, lambda: methods_on_screen(app) == ["bp"])


async def test_a_click_elsewhere_keeps_the_filter_and_closes_its_line(app):
    async with running(app, (80, 24)) as pilot:
        await pilot.press("slash", *"method:ep")
        await until(pilot, lambda: methods_on_screen(app) == ["ep"])
        await pilot.click(app.explorer.matrix, offset=(30, 1))
        await until(pilot, lambda: not app.screen.query("FilterLine"))
        assert app.focused is app.explorer.matrix
        assert app.session.scope_text == "method:ep"
        assert "enter keeps it" not in screen_text(app)
        await pilot.press("slash")
        await until(pilot, lambda: isinstance(app.focused, Input))
        assert app.focused.value == "method:ep "
        await pilot.click("#slider-a")
        await until(pilot, lambda: not app.screen.query("FilterLine"))
        assert app.focused is app.explorer.sliders.sliders["a"], "the click was taken back"


async def test_runs_are_marked_in_the_long_view_as_in_the_matrix_and_a_star_that_marks_none_says_why(
    app,
):
    async with running(app) as pilot:
        await pilot.press("slash", *"method:dfa", "enter", "t", "plus")
        await until(pilot, lambda: len(app.session.marked) == 3)
        assert screen_text(app).count("• dfa") == 3
        await pilot.press("asterisk")
        await until(pilot, lambda: not app.session.marked)
        await pilot.press("asterisk")
        await shows(pilot, "every run here is measured or has no checkpoint")
        await pilot.press("t", "asterisk")
        await until(pilot, lambda: app.explorer.page.id != "Table")
        assert "every run here is measured or has no checkpoint" in screen_text(app)


async def test_runs_that_lie_as_they_lay_are_not_laid_out_again(app, monkeypatch):
    async with running(app) as pilot:
        laid_out = []
        build = matrix.build_grid
        monkeypatch.setattr(
            matrix, "build_grid", lambda *given: laid_out.append(given) or build(*given)
        )
        await pilot.press("t", "down", "t", "down", "t", "t")
        await pilot.press("slash", "escape")
        await filter_by(pilot, "method:dfa")
        narrowed = len(laid_out)
        assert narrowed > 0
        before, laid_out[:] = list(laid_out), []
        assert all(shown is not None for _, shown in before), "each time for other runs than all"
        await pilot.press("slash", *"is:walkback", "enter", "t", "t")
        await pilot.pause()
        assert app.session.scope_text == "method:dfa is:walkback"
        assert (laid_out, methods_on_screen(app)) == ([], ["dfa"])


async def test_the_matrix_shows_what_changed_while_the_long_view_was_on_screen(
    app, published_table
):
    async with running(app) as pilot:
        await pilot.press("t", "slash", *"method:ep", "enter", "t")
        await pilot.pause()
        assert methods_on_screen(app) == ["ep"]
        await pilot.press("t", "f", "t")
        await pilot.pause()
        assert methods_on_screen(app) == METHODS
        await pilot.press("t")
        found = scan([published_table])
        more = [msgspec.structs.replace(row, source="more.json") for row in found.rows]
        app.folders_changed([Reading(place="more.json", rows=more)])
        await pilot.press("t")
        await pilot.pause()
        assert len(app.session.in_scope) == 30


async def test_at_eighty_columns_runs_of_one_method_and_seed_do_not_look_alike(sample_runs):
    rows = [row for row in scan([sample_runs / "atlas"]).rows if not row.is_control]
    app = app_on(Session(rows))
    async with running(app, (80, 24)) as pilot:
        await pilot.press("t")
        view = app.explorer.page.view
        starts = ["".join(text for text, _ in view.frozen(line))[:24] for line in range(len(rows))]
        assert len({*starts}) == len(rows)
