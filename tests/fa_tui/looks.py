"""In which terminals a screen is looked at: sizes, themes, characters."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from fa_tui.app import ExplorerApp
from fa_tui.screens.judged import JudgedScreen
from fa_tui.session import Session
from fa_tui.terminal.abilities import Terminal
from tests.fa_tui.waiting import until

LOOKS = {
    "80x24": ((80, 24), "fa-dark", True),
    "120x40": ((120, 40), "fa-dark", True),
    "200x60": ((200, 60), "fa-dark", True),
    "light": ((120, 40), "fa-light", True),
    "ascii": ((80, 24), "fa-ansi", False),
}
"""Name → size, theme, whether there is Unicode."""

looks = pytest.mark.parametrize("look", LOOKS)


def app_looking(look: str, session: Session) -> ExplorerApp:
    """An explorer as it looks in one of the terminals."""
    os.environ.pop("NO_COLOR", None)
    _, theme, unicode = LOOKS[look]
    terminal = Terminal("xterm-256color", True, 1 << 24) if unicode else Terminal("vt100", False, 16)
    app = ExplorerApp(session, title="runs", terminal=terminal)
    app.theme = theme
    return app


async def opened(pilot: Pilot[Any], *keys: str) -> JudgedScreen:
    """Press keys on the explorer, the first of which opens a screen; wait until it shows what they ask for."""
    app = pilot.app
    assert isinstance(app, ExplorerApp)
    await until(pilot, lambda: app.explorer.sliders is not None)
    await pilot.press(keys[0])
    await until(pilot, lambda: isinstance(app.screen, JudgedScreen) and app.screen.is_mounted)
    screen = app.screen
    assert isinstance(screen, JudgedScreen)
    await pilot.pause()
    if keys[1:]:
        await pilot.press(*keys[1:])
    await settled(pilot, screen)
    return screen


async def settled(pilot: Pilot[Any], screen: JudgedScreen) -> None:
    """Wait until everything that was asked for is shown."""
    await pilot.pause()
    await until(pilot, lambda: not screen.is_due)
    await pilot.pause()


def before(*keys: str) -> Callable[[Pilot[Any]], Any]:
    """What `snap_compare` runs before it looks."""

    async def run(pilot: Pilot[Any]) -> None:
        await opened(pilot, *keys)

    return run


def screen_text(app: ExplorerApp) -> str:
    """What is on screen, as lines."""
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips(app.screen.size))
