"""Opening a page of the explorer and reading what it shows."""

from contextlib import asynccontextmanager
from pathlib import Path

from textual._context import visible_screen_stack
from textual.app import App

import fa_tui
from fa_tui.app import ExplorerApp
from fa_tui.later import Later
from fa_tui.session import History
from tests.fa_tui.conftest import COLOURFUL
from tests.fa_tui.waiting import until

SIZE = (120, 40)


class Stage(App[None]):
    """An app of one widget, dressed as in the explorer."""

    CSS_PATH = Path(fa_tui.__file__).with_name("later.tcss")

    def __init__(self, widget):
        super().__init__()
        self.widget = widget

    def compose(self):
        yield self.widget


def app_on(session):
    """An explorer in a terminal that can show everything."""
    return ExplorerApp(session, title="runs", terminal=COLOURFUL)


@asynccontextmanager
async def running(app, size=SIZE):
    """The explorer in a terminal of this size, once it takes keys."""
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.explorer.takes_keys)
        await pilot.pause()
        yield pilot


def stepped(session, **changes):
    """The session after a step of its thresholds or baseline."""
    history = History(session)
    history.record(session.but(**changes), None, at=0.0)
    return history.now


async def opened(pilot, *keys):
    """Press keys, the first of which opens a page; wait until that shows what they ask for."""
    app = pilot.app
    await until(pilot, lambda: app.explorer.takes_keys)
    before = app.explorer.page
    await pilot.press(keys[0])
    await until(pilot, lambda: app.explorer.page is not before and app.explorer.page.is_mounted)
    await pilot.pause()
    if keys[1:]:
        await pilot.press(*keys[1:])
    await settled(pilot)
    return app.explorer.page


async def settled(pilot):
    """Wait until everything that was asked for is shown."""
    app = pilot.app
    await pilot.pause()
    await until(pilot, lambda: not is_due(app))
    await pilot.pause()


def is_due(app):
    """Whether a page or a slider is still to show something that was asked for."""
    widgets = [app.explorer.page]
    if app.explorer.sliders is not None:
        widgets += app.explorer.sliders.children
    return any(
        isinstance(value, Later) and value.is_due
        for widget in widgets
        for value in vars(widget).values()
    )


def strips_of(app):
    """What is on screen, as styled lines."""
    # as Textual does before it renders: a dialog keeps what it finds below itself
    visible_screen_stack.set(app._background_screens)
    return app.screen._compositor.render_strips(app.screen.size)


def said(app):
    """What the status line says."""
    return app.explorer.status.text


def screen_text(app):
    """What is on screen, as lines."""
    return "\n".join(strip.text.rstrip() for strip in strips_of(app))


async def shows(pilot, words):
    """Wait until the screen shows these words."""
    await until(pilot, lambda: words in screen_text(pilot.app))


async def says(pilot, words):
    """Wait until the status line says these words."""
    await until(pilot, lambda: words in said(pilot.app))


async def on_page(pilot, name):
    """Wait until the explorer is on this page."""
    await until(pilot, lambda: pilot.app.explorer.page.id == name)


async def on_screen(pilot, kind):
    """Wait until a screen of this kind is in front."""
    await until(pilot, lambda: isinstance(pilot.app.screen, kind))


async def walked(pilot, count):
    """Wait until so many runs need walk-back."""
    await until(pilot, lambda: pilot.app.session.counts().walked == count)


async def ratio_is(pilot, ratio):
    """Wait until the threshold of (a) is this one."""
    await until(pilot, lambda: pilot.app.session.thresholds.h_norm_explosion_ratio == ratio)


async def jobs_end(pilot):
    """Wait until no job is queued or runs."""
    await until(pilot, lambda: not pilot.app.jobs.unfinished())


def below_tabs(app):
    """What is on screen below the tab bar, as lines."""
    first, *lines = screen_text(app).split("\n")
    if "Matrix" not in first:
        lines.insert(0, first)
    return "\n".join(lines)


def page_line(app, number):
    """One line of what is on screen below the tab bar."""
    return below_tabs(app).splitlines()[number]


def cell_at_cursor(app):
    """What the cell under the cursor says."""
    table = app.explorer.page.main
    return "".join(text for text, _ in table.cell(table.line, table.column)).strip()


async def set_a_to(pilot, typed):
    """Type a value into slider (a)."""
    await pilot.press("a", *typed, "enter")
    await pilot.pause()


async def filter_by(pilot, typed):
    """Type a filter."""
    await pilot.press("slash", *typed, "enter")
    await pilot.pause()
