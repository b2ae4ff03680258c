"""Names of any characters: every table keeps its columns, and nothing that steers a terminal is shown."""

import pytest
from msgspec.structs import replace
from textual.geometry import Size

from fa_tui.app import ExplorerApp
from fa_tui.jobs.listing import Listed
from fa_tui.pages.jobs import jobs_grid
from fa_tui.screens.questions import Choice, shown_choices
from fa_tui.session import Session
from fa_tui.views.filters import ViewState
from fa_tui.views.glyphs import ASCII, UNICODE
from fa_tui.views.text import width_of
from fa_tui.widgets.table import GridTable, LineTable
from tests.fa_tui.conftest import COLOURFUL, PLAIN
from tests.fa_tui.looks import Stage, opened, running, screen_text, settled
from tests.fa_tui.odd_names import ODD_NAMES, WIDE
from tests.fa_tui.scenes import epochs, published, trace
from tests.fa_tui.waiting import until

SIZES = [(80, 24), (120, 40)]
TERMINALS = [COLOURFUL, PLAIN]


def odd():
    """A published method under every odd name."""
    of_one_method = [row for row in published() if row.method == "credit_bridge"]
    return Session(
        [
            replace(
                row,
                key=f"{name}_s{row.seed}",
                method=name,
                axes={"arch": name},
                report=replace(row.report, method_name=name, notes=name, recorded_verdict=name),
            )
            for name in ODD_NAMES
            for row in of_one_method
        ]
    )


def misfits(view):
    """The parts of a table that are wider than their place, or hold what is not to be shown."""
    found = []
    for line in (None, *range(view.line_count())):
        if line is not None and view.heading(line) is not None:
            continue
        parts = [(None, view.frozen_width, view.frozen(line))]
        parts += [
            (column, view.width_of(column), view.cell(line, column))
            for column in range(view.column_count)
        ]
        for column, width, row in parts:
            text = "".join(piece for piece, _ in row)
            if width_of(text) > width or not text.isprintable():
                found.append((line, column, text))
    return found


def views(of):
    return [view for view in of.query(LineTable) if view.display]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("terminal", TERMINALS)
@pytest.mark.parametrize(
    "look",
    [
        ViewState(),
        ViewState(show="growth"),
        ViewState(long=True),
    ],
    ids=str,
)
async def test_the_runs(look, terminal, size):
    app = ExplorerApp(odd(), terminal=terminal, look=look)
    async with running(app, size) as pilot:
        for key in ("down", "right", "down", "space"):
            await pilot.press(key)
        (view,) = views(app.screen)
        assert misfits(view) == []


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("keys", ["C", "D"])
async def test_what_is_made_of_them(keys, size):
    app = ExplorerApp(odd(), terminal=COLOURFUL)
    async with running(app, size) as pilot:
        screen = await opened(pilot, *keys)
        for view in views(screen):
            assert misfits(view) == [] and view.frozen_width < view.view.width


async def test_no_page_sends_what_steers_a_terminal():
    app = ExplorerApp(odd(), terminal=COLOURFUL)
    async with running(app) as pilot:
        for key in ("down", "enter", "escape", "t", "C", "A"):
            await pilot.press(key)
            await settled(pilot)
            assert screen_text(app).replace("\n", "").isprintable(), key


@pytest.mark.parametrize("size", SIZES)
async def test_the_timeline(size):
    app = ExplorerApp(epochs([trace(name, 1, 1.1) for name in ODD_NAMES]), terminal=COLOURFUL)
    async with running(app, size) as pilot:
        screen = await opened(pilot, "T")
        for view in views(screen):
            assert misfits(view) == []


@pytest.mark.parametrize("size", SIZES)
async def test_jobs(size):
    table = GridTable()
    jobs = [
        Listed(id=name, name=name, state="queued", device=name, words=name) for name in ODD_NAMES
    ]
    table.set_grid(jobs_grid(jobs))
    async with Stage(table).run_test(size=size) as pilot:
        await until(pilot, lambda: table.size == Size(*size))
        assert misfits(table) == []


@pytest.mark.parametrize("size", SIZES)
async def test_the_cursor_moves_over_whole_names(size):
    app = ExplorerApp(odd(), terminal=COLOURFUL)
    async with running(app, size) as pilot:
        await pilot.press("right", "down", "left")
        line = next(
            line for line in screen_text(app).splitlines() if line.startswith(f" {WIDE[:4]}")
        )
        name, _, cells = line.partition("✗")
        assert WIDE in name or f"…{WIDE[-4:]}" in name
        assert width_of(name) == app.explorer.matrix.frozen_width and cells


def test_a_list_to_choose_from():
    for glyphs in (UNICODE, ASCII):
        choices = [Choice(name, "note", "") for name in ODD_NAMES]
        lines = [line.plain for line in shown_choices(choices, glyphs)]
        assert len({width_of(line) for line in lines}) == 1
        assert all(line.isprintable() for line in lines)
