"""Several keys at once: each goes where the one before it led."""

import asyncio

import pytest
from textual import events
from textual.keys import _character_to_key

from fa_core.errors import INTERNAL_ERROR
from fa_tui.screens.questions import ChoiceScreen, SureScreen
from fa_tui.settings import load_presets
from fa_tui.terminal.keys import DIALOGS, Parser
from fa_tui.widgets.entry import Entry
from tests.fa_tui.looks import app_on, ratio_is, running
from tests.fa_tui.scenes import epochs
from tests.fa_tui.waiting import until

SIZE = (120, 40)
NAMES = {"\r": "enter", "\x1b": "escape", "\x0f": "ctrl+o", "\x10": "ctrl+p", "\x03": "ctrl+c"}
"""Keys that Textual names otherwise than by their character."""


def test_a_byte_that_is_no_utf_8_is_a_key_like_any_other():
    from textual.drivers import linux_driver

    assert vars(linux_driver)["getincrementaldecoder"]("utf-8")().decode(b"a\xfcb") == "a\ufffdb"


@pytest.mark.parametrize(
    "sequence",
    [
        "\x1b[97;5:3u",
        "\x1b[99999999999u",
        "\x1b[48;30;100;0;0t\x1b[<35;5;5M",
    ],
)
def test_a_sequence_that_cannot_be_read_is_passed_over(sequence):
    parser = Parser()
    found = [*parser.feed(f"{sequence}b\x1b[<35;5;5M")]
    assert [each.key for each in found if isinstance(each, events.Key)] == ["b"]
    assert isinstance(found[-1], events.MouseMove) and found[-1].x == 4


async def test_an_end_of_the_input_is_an_internal_error(app):
    async with app.run_test():
        app.panic("Traceback")
    assert app.return_code == INTERNAL_ERROR


async def at_once(pilot, keys):
    """Hand the app all keys before it has handled one, as a terminal does with a packet."""
    for key in keys:
        name = NAMES.get(key) or _character_to_key(key)
        pilot.app.post_message(events.Key(name, key))
    for _ in range(20):
        await pilot.pause(0.01)


async def test_four_thresholds_in_one_packet_are_all_set(app):
    async with app.run_test(size=SIZE) as pilot:
        await at_once(pilot, "a7\rb1e-8\rc.5\rd-4\r")
        thresholds = app.session.thresholds
        assert (thresholds.h_norm_explosion_ratio, thresholds.g_norm_floor) == (7.0, 1e-8)
        assert (thresholds.stability_drift_ceiling, thresholds.frozen_acc_margin_pp) == (0.5, -4.0)


@pytest.mark.parametrize("end", ["\r", "\x1b"])
async def test_keys_after_the_one_that_closes_the_filter_go_to_the_explorer(app, end):
    async with app.run_test(size=SIZE) as pilot:
        await at_once(pilot, f"/method:ep{end}a5\r")
        await ratio_is(pilot, 5.0)
        assert app.session.scope_text == ("method:ep" if end == "\r" else "")
        assert app.focused.id == "slider-a"


async def test_keys_after_the_one_that_opens_a_dialog_are_its_answer(app):
    async with app.run_test(size=SIZE) as pilot:
        await at_once(pilot, "w0.349\r")
        assert app.session.counts().walked == 12


async def test_keys_after_the_one_that_opens_a_screen_go_to_that_screen(app):
    async with app.run_test(size=SIZE) as pilot:
        await at_once(pilot, "C\tb1e-8\r")
        screen = app.explorer.page
        assert screen.group.name == "dfa"
        assert app.session.thresholds.g_norm_floor == 1e-8


async def test_what_goes_on_behind_a_closed_dialog_delays_one_key_and_not_every_one(
    app, monkeypatch
):
    monkeypatch.setattr("fa_tui.terminal.keys._PATIENCE_SECONDS", 0.05)
    written = asyncio.Event()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause(0.1)
        app.run_worker(written.wait(), group=DIALOGS)
        await at_once(pilot, "a7")
        await at_once(pilot, "\r")
        assert app.session.thresholds.h_norm_explosion_ratio == 7.0
        assert app.keys._waited_enough
        written.set()
        await pilot.pause(0.1)
        await at_once(pilot, "b1e-8\r")
        assert app.session.thresholds.g_norm_floor == 1e-8
        assert not app.keys._waited_enough


async def test_a_key_that_fails_to_come_back_does_not_cost_the_keyboard(app, monkeypatch):
    monkeypatch.setattr("fa_tui.terminal.keys._PATIENCE_SECONDS", 0.02)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.keys._under_way = events.Key("z", "z")
        await at_once(pilot, "a5\r")
        assert app.session.thresholds.h_norm_explosion_ratio == 5.0


@pytest.mark.parametrize("keys", ["yYy", "p11", "e\x1bj", "Ntt", "w\x1b\x1b", "??\x1b\x1b"])
async def test_a_second_answer_does_not_close_what_lies_below(app, keys, places):
    async with app.run_test(size=SIZE) as pilot:
        await at_once(pilot, keys)
        assert app.is_running
        assert app.screen_stack[0] is app.explorer


async def test_a_click_beside_a_key_is_too_late(app):
    async with app.run_test(size=SIZE) as pilot:
        await at_once(pilot, "p")
        asked = app.screen
        assert isinstance(asked, ChoiceScreen)
        asked.dismiss(None)
        asked.dismiss("save")
        await asked.dismiss(None)
        assert app.screen is app.explorer


async def test_a_question_that_is_covered_stays_where_it_is(app):
    async with app.run_test(size=SIZE) as pilot:
        await at_once(pilot, "p?")
        asked, cover = app.screen_stack[-2:]
        assert isinstance(asked, ChoiceScreen)
        await asked.dismiss("save")
        assert app.screen is cover
        await at_once(pilot, "\x1b")
        await until(pilot, lambda: app.screen is asked)


async def test_the_second_question_of_a_dialog_gets_all_that_is_typed_ahead(app, places):
    async with app.run_test(size=SIZE) as pilot:
        await at_once(pilot, "p2my [x] preset\r")
        await until(pilot, lambda: "my [x] preset" in load_presets()[0])
        await at_once(pilot, "p3second\r")
        await until(pilot, lambda: "second" in load_presets()[0])
        await at_once(pilot, "ex.csv\r")
        await until(pilot, (places / "x.csv").is_file)
    assert sorted(load_presets()[0]) == ["my [x] preset", "protocol", "second"]


async def test_all_lines_of_a_paste_are_in_the_filter(app):
    async with running(app) as pilot:
        await at_once(pilot, "/")
        await until(pilot, lambda: len(app.screen.query(Entry)) == 1)
        app.post_message(events.Paste("method:dfa\r\n\nflag:b\n"))
        await until(pilot, lambda: app.screen.query_one(Entry).value == "method:dfa flag:b")


async def test_leaving_does_not_wait_for_what_was_typed_before(app):
    async with running(app) as pilot:
        await at_once(pilot, ["j"] * 4096 + ["\x03"])
        await until(pilot, lambda: not app.is_running)
    assert app.return_code == 0


OPENING = [
    lambda app: app.action_show_problems(),
    lambda app: app.action_help(),
    lambda app: app.action_command_palette(),
    lambda app: app.push_screen(SureScreen("Leave?", "", lambda: True)),
    lambda app: app.push_screen(ChoiceScreen("a list", [])),
]


@pytest.mark.parametrize("opening", OPENING)
async def test_any_screen_may_close_while_it_opens_and_the_runs_change(opening):
    app = app_on(epochs())
    async with running(app) as pilot:
        for turns in range(5):
            opening(app)
            assert app.screen is not app.explorer
            for _ in range(turns):
                await asyncio.sleep(0)
            app.show(app.session.but(read=[*app.session.read]))
            app.explorer.jobs_changed([])
            app.pop_screen()
            app.show(app.session.but(read=[*app.session.read]))
            await pilot.pause()
