"""Opening a page of the explorer and reading what it shows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual._context import visible_screen_stack
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widget import Widget

import fa_tui
from fa_tui.app import ExplorerApp
from fa_tui.later import Later
from fa_tui.pages.page import Page
from fa_tui.session import History, Session
from tests.fa_tui.conftest import COLOURFUL
from tests.fa_tui.waiting import until

SIZE = (120, 40)


class Stage(App[None]):
    """An app of one widget, dressed as in the explorer."""

    CSS_PATH = Path(fa_tui.__file__).with_name("later.tcss")

    def __init__(self, widget: Widget) -> None:
        super().__init__()
        self.widget = widget

    def compose(self) -> ComposeResult:
        yield self.widget


def app_on(session: Session) -> ExplorerApp:
    """An explorer in a terminal that can show everything."""
    return ExplorerApp(session, title="runs", terminal=COLOURFUL)


@asynccontextmanager
async def running(app: ExplorerApp, size: tuple[int, int] = SIZE) -> AsyncIterator[Pilot[int]]:
    """The explorer in a terminal of this size, once it takes keys."""
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.explorer.takes_keys)
        await pilot.pause()
        yield pilot


def stepped(session: Session, **changes: object) -> Session:
    """The session after a step of its thresholds or baseline."""
    history = History(session)
    history.record(session.but(**changes), None, at=0.0)
    return history.now


async def opened(pilot: Pilot[Any], *keys: str) -> Any:
    """Press keys, the first of which opens a page; wait until that shows what they ask for."""
    app = pilot.app
    assert isinstance(app, ExplorerApp)
    await until(pilot, lambda: app.explorer.takes_keys)
    before = app.explorer.page
    await pilot.press(keys[0])
    await until(pilot, lambda: app.explorer.page is not before and app.explorer.page.is_mounted)
    await pilot.pause()
    if keys[1:]:
        await pilot.press(*keys[1:])
    await settled(pilot)
    return app.explorer.page


async def settled(pilot: Pilot[Any], page: Page | None = None) -> None:
    """Wait until everything that was asked for is shown."""
    app = pilot.app
    assert isinstance(app, ExplorerApp)
    await pilot.pause()
    await until(pilot, lambda: not is_due(app))
    await pilot.pause()


def is_due(app: ExplorerApp) -> bool:
    """Whether a page or a slider is still to show something that was asked for."""
    widgets = [app.explorer.page]
    if app.explorer.sliders is not None:
        widgets += app.explorer.sliders.children
    return any(
        isinstance(value, Later) and value.is_due
        for widget in widgets
        for value in vars(widget).values()
    )


def strips_of(app: ExplorerApp) -> list[Strip]:
    """What is on screen, as styled lines."""
    # as Textual does before it renders: a dialog keeps what it finds below itself
    visible_screen_stack.set(app._background_screens)
    return app.screen._compositor.render_strips(app.screen.size)


def said(app: ExplorerApp) -> str:
    """What the status line says."""
    return app.explorer.status.text


def screen_text(app: ExplorerApp) -> str:
    """What is on screen, as lines."""
    return "\n".join(strip.text.rstrip() for strip in strips_of(app))


async def shows(pilot: Pilot[Any], words: str) -> None:
    """Wait until the screen shows these words."""
    await until(pilot, lambda: words in screen_text(pilot.app))  # type: ignore[arg-type]


def below_tabs(app: ExplorerApp) -> str:
    """What is on screen below the tab bar, as lines."""
    first, *lines = screen_text(app).split("\n")
    if "Matrix" not in first:
        lines.insert(0, first)
    return "\n".join(lines)


def cell_at_cursor(app: ExplorerApp) -> str:
    """What the cell under the cursor says."""
    table: Any = app.explorer.page.main
    return "".join(text for text, _ in table.cell(table.line, table.column)).strip()


async def set_a_to(pilot: Pilot[Any], typed: str) -> None:
    """Type a value into slider (a)."""
    await pilot.press("a", *typed, "enter")
    await pilot.pause()
