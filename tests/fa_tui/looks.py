"""Opening a screen of the explorer and reading what it shows."""

from __future__ import annotations

from typing import Any

from textual._context import visible_screen_stack
from textual.pilot import Pilot

from fa_tui.app import ExplorerApp
from fa_tui.screens.threshold_screen import JudgedScreen
from fa_tui.session import Session
from tests.fa_tui.conftest import COLOURFUL
from tests.fa_tui.waiting import until

SIZE = (120, 40)


def app_on(session: Session) -> ExplorerApp:
    """An explorer in a terminal that can show everything."""
    return ExplorerApp(session, title="runs", terminal=COLOURFUL)


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


def screen_text(app: ExplorerApp) -> str:
    """What is on screen, as lines."""
    # as Textual does before it renders: a dialog keeps what it finds below itself
    visible_screen_stack.set(app._background_screens)
    return "\n".join(
        strip.text.rstrip() for strip in app.screen._compositor.render_strips(app.screen.size)
    )


def below_tabs(app: ExplorerApp) -> str:
    """What is on screen below the tab bar, as lines."""
    first, *lines = screen_text(app).split("\n")
    if "Matrix" not in first:
        lines.insert(0, first)
    return "\n".join(lines)


def cell_at_cursor(app: ExplorerApp) -> str:
    """What the cell under the cursor says."""
    table = app.explorer.runs
    return "".join(text for text, _ in table.cell(table.line, table.column)).strip()


async def set_a_to(pilot: Pilot[Any], typed: str) -> None:
    """Type a value into slider (a)."""
    await pilot.press("a", *typed, "enter")
    await pilot.pause()
