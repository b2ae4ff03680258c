"""The explorer driven by keys and mouse, without a terminal."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.command import CommandPalette
from textual.pilot import Pilot
from textual.widgets import Input

from fa_core.formats import scan
from fa_core.rows import AuditRow, Problem
from fa_tui.app import ExplorerApp
from fa_tui.cli import main
from fa_tui.session import Session
from fa_tui.widgets.keybar import KeyBar

SIZE = (120, 40)


def screen_text(app: ExplorerApp) -> str:
    """What is on screen, as lines."""
    width, height = app.size
    lines = app.screen._compositor.render_strips(app.screen.size)
    return "\n".join(strip.text for strip in lines)[: (width + 1) * height]


async def until(pilot: Pilot[int], holds: Callable[[], bool]) -> None:
    """Let the app work until something holds."""
    for _ in range(200):
        if holds():
            return
        await pilot.pause(0.05)
    raise AssertionError("never happened; the screen:\n" + screen_text(pilot.app))  # type: ignore[arg-type]


def cell_at_cursor(app: ExplorerApp) -> str:
    table = app.explorer.runs
    return "".join(segment.text for segment in table.cell(table.line, table.column)).strip()


async def drag_a_to(pilot: Pilot[int], typed: str) -> None:
    """Type a value into slider (a)."""
    await pilot.press("a", *typed, "enter")
    await pilot.pause()


async def test_opens_on_the_matrix_with_every_verdict(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        text = screen_text(app)
        assert "9 of 15 walk back" in text
        for cell in ("✗ab-d", "✗abcd", "✓abc·"):
            assert cell in text
        assert app.focused is app.explorer.matrix


async def test_slider_a_at_five_flips_two_ep_seeds_and_home_restores(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await drag_a_to(pilot, "5")
        assert app.session.walk_backs() == 11
        text = screen_text(app)
        assert "11 of 15 walk back" in text
        assert "2/3 MIXED" in text
        assert "ep s123 +a, ep s456 +a" in text
        await pilot.press("home")
        await pilot.pause()
        assert "9 of 15 walk back" in screen_text(app)
        assert "MIXED" not in screen_text(app)


async def test_a_slider_step_that_flips_nothing_paints_no_cell_of_the_matrix(
    app: ExplorerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("a")
        await pilot.pause()
        painted: list[int] = []
        matrix = app.explorer.matrix
        render_line = matrix.render_line
        monkeypatch.setattr(matrix, "render_line", lambda y: painted.append(y) or render_line(y))
        await pilot.press("left")
        await pilot.pause()
        assert painted == []
        await pilot.press(*"5.0", "enter")
        await pilot.pause()
        assert set(painted) == {matrix.line_count()}, "only the line of ep is painted"


async def test_arrows_and_hjkl_walk_the_matrix(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        matrix = app.explorer.matrix
        await pilot.press("down", "right")
        assert (matrix.line, matrix.column) == (1, 1)
        await pilot.press("j", "l", "k", "h")
        assert (matrix.line, matrix.column) == (1, 1)
        await pilot.press("end")
        assert matrix.line == matrix.line_count() - 1
        await pilot.press("home")
        assert matrix.line == 0


async def test_the_detail_follows_the_cursor(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("down")
        await pilot.pause(0.05)
        assert "DFA  seed 42" in screen_text(app)
        assert "residual stream exploded" in screen_text(app)


async def test_a_click_moves_the_cursor_and_the_wheel_scrolls(app: ExplorerApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        matrix = app.explorer.matrix
        offset = matrix.frozen_width + matrix.width_of(0) + 2
        await pilot.click(matrix, offset=(offset, 3))
        assert (matrix.line, matrix.column) == (2, 1)
        assert app.session.rows[matrix.row or 0].key == "state_bridge_s123"


async def test_headings_are_never_under_the_cursor(sample_runs: Path, two_sources: Session) -> None:
    app = ExplorerApp(two_sources)
    async with app.run_test(size=SIZE) as pilot:
        for _ in range(12):
            await pilot.press("down")
            assert app.explorer.row is not None
        for _ in range(12):
            await pilot.press("up")
            assert app.explorer.row is not None


async def test_space_marks_and_the_title_counts(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("space", "down", "space")
        await pilot.pause()
        assert len(app.session.marked) == 2
        assert "2 marked" in screen_text(app)
        assert cell_at_cursor(app) == "✗ab-d•"


async def test_v_shows_numbers_instead_of_letters_and_comes_round(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("down", "v")
        assert cell_at_cursor(app) == "2043"
        await pilot.press("v")
        assert cell_at_cursor(app) == "4.2e-9"
        await pilot.press("V", "V")
        assert cell_at_cursor(app) == "✗ab-d"


async def test_the_long_view_sorts_by_the_column_under_the_cursor_and_goes_to_the_top(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("down", "t")
        await pilot.pause()
        assert app.session.rows[app.explorer.row or 0].key == "dfa_s42"
        await pilot.press("right", "s")
        table = app.explorer.runs
        growths = [app.session.rows[row].report.max_per_block_growth for row in table._shown]
        assert growths == sorted(growths)
        assert app.explorer.row == table._shown[0]
        assert "by growth ↑ (s S)" in screen_text(app)
        await pilot.press("s")
        assert [app.session.rows[row].report.max_per_block_growth for row in table._shown] == growths[::-1]
        assert app.explorer.row == table._shown[0]
        await pilot.press("s")
        assert table._shown == list(range(15)), "as the runs were read"


async def test_the_long_view_sorts_by_any_column_from_a_list_also_by_method_and_seed(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("t", "S")
        await until(pilot, lambda: "Sort by" in screen_text(app))
        await pilot.press("2")
        await until(pilot, lambda: "by seed" in screen_text(app))
        assert [app.session.rows[row].seed for row in app.explorer.runs._shown[::5]] == [42, 123, 456]
        await pilot.press("S")
        await until(pilot, lambda: "Sort by" in screen_text(app))
        await pilot.press("2")
        await until(pilot, lambda: "by seed ↓" in screen_text(app))
        assert [app.session.rows[row].seed for row in app.explorer.runs._shown[::5]] == [456, 123, 42]


async def test_the_copied_command_prints_the_runs_that_are_on_screen_in_their_order(
    published_table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = ExplorerApp(Session(scan([published_table]).rows), paths=[published_table])
    async with app.run_test(size=SIZE) as pilot:
        await drag_a_to(pilot, "5")
        await pilot.press("escape", "slash", *"is:walkback -method:bridge", "enter", "t", "right", "s", "s")
        await pilot.pause()
        shown = [(app.session.rows[row].key, app.session.verdict(row)) for row in app.explorer.runs._shown]
        line = next(piece for piece in app.explorer.shared().pieces if piece.key == "l").text()
    words = shlex.split(line)
    assert words[:2] == ["fa-tui", "show"]
    capsys.readouterr()
    assert main([*words[1:], "--format", "json"]) == 0
    assert [(row["key"], row["verdict"]) for row in json.loads(capsys.readouterr().out)] == shown
    assert [key for key, _ in shown] == ["dfa_s456", "dfa_s42", "dfa_s123", "ep_s123", "ep_s456"]


async def test_numbers_come_with_a_legend_of_their_shades(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("v")
        await pilot.pause()
        legend = app.explorer.status.text
        assert legend.startswith(" growth 0.959 ")
        assert "24126 log" in legend and "(a) fires" in legend
        strip = app.explorer.status.render_line(0)
        shades = {segment.style.bgcolor for segment in strip if segment.style and segment.text == " "}
        assert len(shades) >= 8
        await pilot.press("V", "V")
        await pilot.pause()
        assert app.explorer.status.text == " deep Γ was measured on no run here"
        await pilot.press("v")
        await pilot.pause()
        assert "letter fires" in app.explorer.status.text


async def test_text_that_is_cut_at_the_edge_has_a_sign_there_and_the_header_tells_of_more(app: ExplorerApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("t")
        await pilot.pause()
        table = app.explorer.runs
        header = table.render_line(0).text
        assert header.rstrip().endswith("›")
        await pilot.press(*["right"] * 11)
        await pilot.pause()
        lines = [table.render_line(y).text for y in range(4)]
        assert lines[0][table.frozen_width] == "‹"
        assert [line.rstrip()[-1] for line in lines] == ["›", "y", "›", "›"], "trustworthy, and two that are longer"


async def test_unmeasured_values_sort_last_both_ways(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("t", *["right"] * 4)
        for _ in range(2):
            await pilot.press("s")
            margins = [app.session.rows[row].report.margin_pp for row in app.explorer.runs._shown]
            assert margins[-6:] == [None] * 6


async def test_a_filter_applies_while_typing_and_escape_drops_it(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("slash", *"flag:c")
        await pilot.pause()
        assert app.explorer.matrix.line_count() == 3
        assert "5 of 15 runs: flag:c" in screen_text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert app.explorer.matrix.line_count() == 5
        assert not app.screen.query(Input)
        assert app.focused is app.explorer.matrix


async def test_a_live_filter_follows_the_slider(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("slash", *"method:ep flag:a", "enter")
        await pilot.pause()
        assert app.explorer.matrix.line_count() == 0
        await drag_a_to(pilot, "5")
        assert app.explorer.matrix.line_count() == 1
        assert screen_text(app).count("✗a--·") == 3, "two cells of the matrix, and the title of the detail"


async def test_a_filter_that_means_nothing_says_so_and_can_be_mended(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("slash", *"dfa growth>x")
        await pilot.pause()
        assert "'x' is not a number" in screen_text(app)
        await pilot.press("backspace", *"9")
        await pilot.pause()
        assert "'x'" not in screen_text(app)
        assert app.explorer.matrix.line_count() == 1


async def test_a_filter_that_means_nothing_is_not_taken_and_shows_what_the_terms_before_it_find(
    app: ExplorerApp,
) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("slash", *"method:dfa growht>3", "enter")
        await pilot.pause()
        assert "growht is not known; did you mean growth?" in screen_text(app)
        assert app.explorer.shown == [1, 6, 11]
        assert app.screen.query(Input), "it stays, to be mended"


async def test_the_beginning_of_a_name_empties_no_screen_and_says_how_to_go_on(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("slash", *"growth")
        await pilot.pause()
        assert app.explorer.shown is None
        assert "no run is called growth; write growth>1" in screen_text(app)
        await pilot.press("enter")
        await pilot.pause()
        assert app.explorer.shown == [], "it was meant as a word"


@pytest.mark.parametrize("pane", ["matrix", "detail", "slider-a"])
async def test_every_pane_explains_itself(app: ExplorerApp, pane: str) -> None:
    first = {"matrix": "The matrix: one line", "detail": "The run under the cursor", "slider-a": "The threshold of one"}
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause(0.1)
        app.screen.query_one(f"#{pane}").focus()
        await pilot.press("question_mark")
        await pilot.pause()
        assert first[pane] in screen_text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.explorer


async def test_problems_are_listed_with_their_reasons(session: Session) -> None:
    app = ExplorerApp(Session(session.rows, problems=[Problem("x.json", "x.json: truncated at line 3")]))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert "1 not opened (P)" in screen_text(app)
        await pilot.press("P")
        await pilot.pause()
        assert "x.json: truncated at line 3" in screen_text(app)


async def test_the_key_line_names_what_works_now(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert "space Mark" in screen_text(app)
        assert "Measure" not in screen_text(app), "nothing here has a checkpoint"
        assert "Problems" not in screen_text(app), "there are none"
        await pilot.press("a")
        await pilot.pause()
        assert "] Next flip" in screen_text(app)


async def test_a_click_on_the_key_line_presses_the_key(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await pilot.click(KeyBar, offset=(3, 0))
        await pilot.pause()
        assert len(app.session.marked) == 1


async def test_eighty_by_twenty_four_keeps_matrix_verdict_and_a_slider(app: ExplorerApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        text = screen_text(app)
        assert "✓abc·" in text
        assert "trustworthy (on a," in text
        assert "fires above" in text
        assert "9 of 15 walk back" in text
        assert not app.explorer.matrix.show_horizontal_scrollbar


@pytest.mark.parametrize("size", [(20, 5), (39, 40), (120, 9)])
async def test_a_tiny_terminal_is_told_so_and_comes_back(app: ExplorerApp, size: tuple[int, int]) -> None:
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        assert "too small" in screen_text(app)
        await pilot.resize_terminal(*SIZE)
        await pilot.pause()
        assert "9 of 15 walk back" in screen_text(app)


async def test_an_empty_table_opens(tmp_path: Path) -> None:
    app = ExplorerApp(Session([]))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("down", "space", "t", "s", "down", "t", "v", "m", "a", "left")
        await pilot.pause()
        assert "0 of 0 walk back" in screen_text(app)


async def test_hundreds_of_methods_and_seeds_scroll_both_ways_and_paint_only_what_is_seen(session: Session) -> None:
    rows = [
        AuditRow(
            source="big.json", key=f"m{method}_s{seed}", method=f"m{method}", seed=seed, report=session.rows[0].report
        )
        for method in range(300)
        for seed in range(40)
    ]
    app = ExplorerApp(Session(rows))
    async with app.run_test(size=SIZE) as pilot:
        matrix = app.explorer.matrix
        await pilot.press("end", *["right"] * 39)
        await pilot.pause()
        assert app.session.rows[matrix.row or 0].key == "m299_s39"
        assert "m299" in screen_text(app)
        assert len(list(matrix.visible_lines())) < 40
        first, last = matrix._visible_columns()
        assert last - first < 12


@pytest.fixture
def two_sources(sample_runs: Path, published_table: Path, published_cnn: Path) -> Session:
    from fa_core.formats import scan

    return Session(scan([published_table, published_cnn]).rows)


def test_the_explorer_imports_neither_torch_nor_numpy_nor_heavy_widgets_before_the_paint() -> None:
    code = (
        "import sys, fa_tui.app, fa_tui.screens.explorer, fa_core.formats;"
        "bad = {'torch', 'numpy', 'textual.widgets._data_table', 'textual.widgets._markdown',"
        " 'textual.widgets._tabs', 'fa_core.engine', 'typer'} & set(sys.modules);"
        "print(sorted(bad))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("view", ["matrix", "table"])
async def test_no_run_to_show_says_why(app: ExplorerApp, view: str) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press(*(["t"] if view == "table" else []), "slash", *"method:none", "enter")
        await pilot.pause()
        assert "no run matches; / changes the filter" in screen_text(app)


async def test_a_folder_without_audits_says_where_to_go() -> None:
    app = ExplorerApp(Session(()))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert "no audits here; T shows traces" in screen_text(app)


async def test_what_the_footer_has_no_room_for_is_reached_by_mouse_through_the_palette(app: ExplorerApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.explorer.sliders is not None)
        await pilot.pause()
        line = screen_text(app).splitlines()[-1]
        assert "Analysis" not in line
        await pilot.click(KeyBar, offset=(line.index("More"), 0))
        await until(pilot, lambda: isinstance(app.screen, CommandPalette))
        await pilot.press(*"analysis")
        await until(pilot, lambda: "sweep, utility, seeds (A)" in screen_text(app))
