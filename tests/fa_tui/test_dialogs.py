"""Copies, export, presets, what-if and settings, in the explorer."""

from pathlib import Path

import pytest
from textual.command import Command, CommandList, DiscoveryHit
from textual.widgets import Input

from fa_core.formats.rows import Problem
from fa_core.report.baseline import FrozenBaseline
from fa_core.report.report_facts import DiagnosticThresholds
from fa_tui.app import ExplorerApp
from fa_tui.follow import Reading
from fa_tui.key_list import palette
from fa_tui.screens.questions import ChoiceList
from fa_tui.settings import (
    Loaded,
    Settings,
    load_presets,
    load_settings,
    presets_file,
    remember_places,
    save_preset,
    settings_file,
)
from fa_tui.terminal.abilities import Terminal
from fa_tui.widgets.line import Line
from tests.fa_tui.conftest import COLOURFUL
from tests.fa_tui.looks import (
    filter_by,
    ratio_is,
    running,
    said,
    says,
    screen_text,
    set_a_to,
    settled,
    shows,
    walked,
)
from tests.fa_tui.waiting import until
from tests.json_files import json_of

STRICT = DiagnosticThresholds(h_norm_explosion_ratio=5)


pytestmark = pytest.mark.usefixtures("places")


async def ask(pilot, *keys):
    """Press a key that opens a page or a list, and then those that choose from it."""
    app = pilot.app
    for key in keys:
        before = (app.screen, app.explorer.page)
        await pilot.press(key)
        await until(pilot, lambda before=before: (app.screen, app.explorer.page) != before)


async def test_y_copies_the_value_and_capital_y_the_command(app, copied):
    async with running(app) as pilot:
        await pilot.press("a", "5", "enter", "escape", "y")
        await says(pilot, "copied, if the terminal allows it: ✓---·")
        app.paths = [Path("my audits.json")]
        await pilot.press("Y")
        await until(pilot, lambda: len(copied) == 2)
        for name in ("\udcff", "runs\x1b[201~", "runs\x03\ntouch PWNED\n#"):
            app.paths = [Path(name)]
            app.say("")
            await pilot.press("Y")
            await says(pilot, "not copied: it is not printable as it stands")
    assert copied == ["✓---·", "fa-tui show 'my audits.json' --h-norm-explosion-ratio 5"]


async def test_export_asks_for_a_name_and_says_where_it_saved(app, places):
    (places / "mine.csv").write_text("precious")
    async with running(app) as pilot:
        await filter_by(pilot, "dfa")
        await shows(pilot, "filter dfa, 3 of 15 runs")
        await ask(pilot, "e")
        entry = app.screen
        assert entry.query_one(Input).value == "fa-tui.csv"
        entry.query_one(Input).value = "mine.csv"
        await until(pilot, lambda: "is there already" in entry.note.text)
        await pilot.press("enter")
        assert app.screen is entry
        entry.query_one(Input).value = "other.json"
        await pilot.press("enter")
        await says(pilot, f"saved {places / 'other.json'}")
    assert (places / "mine.csv").read_text() == "precious"
    reports = json_of(places / "other.json")["reports"]
    assert sorted(reports) == ["dfa_s123", "dfa_s42", "dfa_s456"]


@pytest.mark.parametrize("leave", ["escape", "ctrl+c"])
async def test_esc_and_ctrl_c_leave_every_dialog_without_a_trace(app, places, leave):
    async with running(app) as pilot:
        before = said(app)
        for keys in (["e"], ["p", "2"], ["w"], ["o"], ["question_mark"], ["colon"]):
            await ask(pilot, *keys, leave)
            assert app.screen is app.explorer
        await pilot.press("slash", *"ep", leave, "a", "5", leave)
        assert app.session.filter is None and app.session.thresholds == DiagnosticThresholds()
        assert said(app) == before
    assert not list(places.iterdir())


async def test_o_completes_a_path_and_refuses_one_without_runs(app, places, published_table):
    mine = places / "mine.json"
    mine.write_text("no audit")
    async with running(app) as pilot:
        await ask(pilot, "o")
        await pilot.press("m")
        await shows(pilot, "mine.json")
        await pilot.press("tab")
        assert app.screen.query_one(Input).value == "mine.json"
        await pilot.press("enter")
        await says(pilot, "mine.json: ")
        mine.write_bytes(published_table.read_bytes())
        remember_places([mine])
        await ask(pilot, "o")
        await pilot.press("down", "enter")
        await until(pilot, lambda: not app.is_running)
    assert app.opens_next == mine


async def test_a_preset_is_saved_used_and_removed(app):
    async with running(app) as pilot:
        await set_a_to(pilot, "5")
        await walked(pilot, 11)
        await ask(pilot, "p", "2")
        await pilot.press(*"mine", "enter")
        await says(pilot, "preset mine saved")
        assert load_presets()[0]["mine"] == STRICT
        await ask(pilot, "p", "1")
        await walked(pilot, 9)
        await ask(pilot, "p", "2")
        await walked(pilot, 11)
        await pilot.press("u")
        await walked(pilot, 9)
        await ask(pilot, "p", "4", "enter")
        await says(pilot, "mine removed")
    assert list(load_presets()[0]) == ["protocol"]


async def test_a_broken_presets_file_is_told(app):
    presets_file().parent.mkdir(parents=True)
    presets_file().write_text("[mine]\nh_norm_explosion_ratio = 'x'\n")
    async with running(app) as pilot:
        await ask(pilot, "p")
        assert "mine.h_norm_explosion_ratio" in said(app)


async def test_what_if_fills_in_a_baseline_and_says_what_flips(app):
    async with running(app) as pilot:
        await ask(pilot, "w")
        await pilot.press(*"34.9")
        note = app.screen.note
        await until(pilot, lambda: "outside [0, 1]" in note.text)
        app.screen.query_one(Input).value = "zz=0.4"
        await until(pilot, lambda: "no run of method 'zz'; known: bp, dfa" in note.text)
        app.screen.query_one(Input).value = "0.349"
        await pilot.press("enter")
        await walked(pilot, 12)
        assert "frozen baseline 0.349: +d → ✗ ep s42, +d → ✗ ep s123, +d → ✗ ep s456" in said(app)
        assert app.session.baseline == FrozenBaseline(0.349)
        await ask(pilot, "w")
        assert app.screen.query_one(Input).value == "0.349"
        app.screen.query_one(Input).value = ""
        await pilot.press("enter")
        await walked(pilot, 9)
        assert "as recorded" in said(app)


async def test_the_count_above_the_sliders_follows_every_undo(app):
    async with running(app) as pilot:
        line = app.explorer.query_one("#sliders-summary", Line)
        for keys in ("a", "{", "b", "}", "u", "u"):
            await pilot.press(keys)
            await settled(pilot)
            counts = f" {app.session.counts().walked} of 15 need walk-back"
            assert line.text.startswith(counts), keys
        assert app.session.thresholds == DiagnosticThresholds()


@pytest.mark.parametrize("focus", ["escape", "a"])
async def test_a_what_if_is_undone_and_redone(app, focus):
    async with running(app) as pilot:
        await pilot.press(focus, "u")
        await says(pilot, "nothing to undo")
        await ask(pilot, "w")
        await pilot.press(*"0.349", "enter")
        await walked(pilot, 12)
        await set_a_to(pilot, "1e9")
        await ratio_is(pilot, 1e9)
        await pilot.press(*(["escape"] if focus == "escape" else []), "u")
        await until(pilot, lambda: app.session.thresholds == DiagnosticThresholds())
        assert app.session.baseline == FrozenBaseline(0.349)
        await pilot.press("u")
        await until(pilot, lambda: not app.session.baseline)
        assert app.session.counts().walked == 9
        assert "frozen baselines as recorded: −d → ✓ ep s42" in said(app)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: app.session.baseline == FrozenBaseline(0.349))
        assert app.session.counts().walked == 12
        await pilot.press("u", "u")
        await says(pilot, "nothing to undo")


async def test_a_change_takes_back_what_was_said_of_the_one_before(app):
    async with running(app) as pilot:
        await pilot.press("u")
        await says(pilot, "nothing to undo")
        await pilot.press("a", "right")
        await until(pilot, lambda: app.session.thresholds != DiagnosticThresholds())
        await until(pilot, lambda: "nothing to undo" not in said(app))
        await ask(pilot, "p", "1")
        await says(pilot, "thresholds: protocol")
        assert app.session.thresholds == DiagnosticThresholds()
        await pilot.press("u")
        await until(pilot, lambda: app.session.thresholds != DiagnosticThresholds())
        await until(pilot, lambda: "thresholds:" not in said(app))
        await ask(pilot, "w")
        await pilot.press(*"0.349", "enter")
        await says(pilot, "frozen baseline 0.349")
        await pilot.press("a", "right")
        await until(pilot, lambda: "frozen baseline" not in said(app))


async def test_what_flipped_is_of_the_last_change(app):
    async with running(app) as pilot:
        await ask(pilot, "w")
        await pilot.press(*"0.349", "enter")
        await shows(pilot, "  +d → ✗ ep")
        app.folders_changed([Reading("audit_table.json", app.session.rows[:1])])
        await until(pilot, lambda: "  +d" not in screen_text(app))
        await ask(pilot, "w")
        await pilot.press(*"0.348", "enter")
        await says(pilot, "no verdict flips")
        assert "  +d" not in screen_text(app)


async def test_a_list_is_moved_through_by_arrows_and_taken_by_mouse(app):
    save_preset("mine", STRICT)
    async with running(app) as pilot:
        await ask(pilot, "p")
        asked = app.screen
        await pilot.press("up")
        assert asked.choices[asked.list.highlighted].text == "remove ..."
        await pilot.press("down", "down", "k", "j")
        assert asked.choices[asked.list.highlighted].text == "mine"
        await pilot.click(ChoiceList, offset=(5, 1))
        await until(pilot, lambda: app.session.thresholds == STRICT)


async def test_settings_choose_theme_numbers_and_say_what_is_wrong(session):
    settings = Settings(theme="fa-light", show="growth")
    wrong = [Problem("settings.toml", "settings.toml: line 3: them: unknown setting")]
    app = ExplorerApp(session, terminal=COLOURFUL, settings=Loaded(settings, wrong))
    async with running(app):
        assert app.current_theme.name == "fa-light"
        assert app.explorer.page.cell_text() == "1.00"
        assert "line 3" in said(app)
        assert app.check_action("show_problems", ())


async def test_what_is_wrong_with_the_settings_is_whole_on_a_narrow_status_line(
    session, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ("a_long_folder_" * 8)))
    file = settings_file()
    file.parent.mkdir(parents=True)
    file.write_text("theme = 'nope'\n")
    app = ExplorerApp(session, terminal=COLOURFUL, settings=load_settings())
    async with running(app, (80, 24)) as pilot:
        said = "settings.toml: theme: there is no 'nope'; defaults are used"
        await shows(pilot, said)
        assert str(file) in app.session.problems[0].message, "the list of problems says where it is"


async def test_a_theme_is_remembered_and_where_it_cannot_be_the_colours_change_all_the_same(app):
    async with running(app):
        app.dress("fa-light")
        assert app.theme == "fa-light"
        assert "settings.toml" in said(app)
        file = settings_file()
        assert file.read_text() == 'theme = "fa-light"\n'
        file.unlink()
        file.mkdir()
        app.dress("fa-dark")
        assert app.theme == "fa-dark"
        assert "for now" in said(app)


async def test_a_terminal_of_16_colours_is_offered_no_theme_that_it_cannot_show(session):
    app = ExplorerApp(
        session, terminal=Terminal("xterm", True, 16), settings=Loaded(Settings(theme="fa-light"))
    )
    async with running(app):
        assert app.theme == "fa-ansi"
        assert app.themes_here == ["fa-ansi"]


@pytest.mark.parametrize("action", ["page_down", "page_up"])
async def test_a_page_in_the_palette_waits_until_its_list_is_laid_out(app, action):
    async with running(app) as pilot:
        shown = palette(app)
        await app.push_screen(shown)
        commands = shown.query_one(CommandList)
        commands.add_option(Command("Sort by", DiscoveryHit("Sort by", lambda: None)))
        commands.highlighted = 0
        shown._action_command_list(action)
        await pilot.pause()
        assert app.screen is shown
