"""Several keys at once: each goes where the one before it led."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest
from textual import events
from textual.keys import _character_to_key
from textual.pilot import Pilot

from fa_tui.app import ExplorerApp
from fa_tui.screens.compare import CompareScreen
from fa_tui.terminal.keys import DIALOGS
from tests.fa_tui.looks import screen_text

SIZE = (120, 40)


async def at_once(pilot: Pilot[int], keys: Iterable[str]) -> None:
    """Hand the app all keys before it has handled one, as a terminal does with a packet."""
    for key in keys:
        name = {"\r": "enter", "\x1b": "escape"}.get(key) or _character_to_key(key)
        pilot.app.post_message(events.Key(name, key))
    for _ in range(20):
        await pilot.pause(0.01)


async def test_a_value_typed_ahead_reaches_the_slider(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await at_once(pilot, "a5\r")
        assert app.session.thresholds.h_norm_explosion_ratio == 5.0


async def test_four_thresholds_in_one_packet_are_all_set(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await at_once(pilot, "a7\rb1e-8\rc.5\rd-4\r")
        thresholds = app.session.thresholds
        assert (thresholds.h_norm_explosion_ratio, thresholds.g_norm_floor) == (7.0, 1e-8)
        assert (thresholds.stability_drift_ceiling, thresholds.frozen_acc_margin_pp) == (0.5, -4.0)


async def test_a_filter_typed_ahead_keeps_its_first_letter(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await at_once(pilot, "/method:ep\r")
        assert "3 of 15 runs: method:ep (/)" in screen_text(app)
        assert app.focused is app.explorer.matrix


async def test_keys_after_the_one_that_opens_a_dialog_are_its_answer(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await at_once(pilot, "w0.349\r")
        assert app.session.walk_backs() == 12


async def test_keys_after_the_one_that_opens_a_screen_go_to_that_screen(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await at_once(pilot, "Cnb1e-8\r")
        screen = app.screen
        assert isinstance(screen, CompareScreen)
        assert screen.group is not None and screen.group.name == "dfa"
        assert app.session.thresholds.g_norm_floor == 1e-8


async def test_what_goes_on_behind_a_closed_dialog_delays_one_key_and_not_every_one(
    app: ExplorerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fa_tui.terminal.keys._PATIENCE_SECONDS", 0.05)
    written = asyncio.Event()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause(0.1)
        app.run_worker(written.wait(), group=DIALOGS)
        await at_once(pilot, "a7")
        await at_once(pilot, "\r")
        assert app.session.thresholds.h_norm_explosion_ratio == 7.0
        assert app._waited_enough
        written.set()
        await pilot.pause(0.1)
        await at_once(pilot, "b1e-8\r")
        assert app.session.thresholds.g_norm_floor == 1e-8
        assert not app._waited_enough


async def test_a_key_that_fails_to_come_back_does_not_cost_the_keyboard(
    app: ExplorerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fa_tui.terminal.keys._PATIENCE_SECONDS", 0.02)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app._under_way = events.Key("z", "z")
        await at_once(pilot, "a5\r")
        assert app.session.thresholds.h_norm_explosion_ratio == 5.0
