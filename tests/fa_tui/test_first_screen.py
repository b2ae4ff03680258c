"""The first screen explains itself: what is open, every seed, the run, and the way to each screen."""

import pytest

from fa_core.formats import scan
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_tui.app import ExplorerApp
from fa_tui.samples import default_paths
from fa_tui.session import Session
from fa_tui.views.epochs import traces_in_scope
from fa_tui.views.filters import ViewState, filter_of, understood
from fa_tui.views.grid import homes_of
from fa_tui.views.words import FIRST_VIEW, SAMPLES
from fa_tui.widgets.line import OPEN_TAB, TabBar
from tests.fa_core.rows import row_of
from tests.fa_tui.conftest import COLOURFUL, PLAIN
from tests.fa_tui.looks import running, screen_text
from tests.fa_tui.scenes import epochs
from tests.fa_tui.waiting import until


@pytest.mark.parametrize(("key", "name"), [("C", "Compare"), ("A", "Analysis"), ("J", "Jobs")])
async def test_the_tab_bar_marks_the_open_screen_and_its_keys_work_on_each(app, key, name):
    async with running(app, (80, 24)) as pilot:
        assert marked_tab(app) == "Matrix"
        await pilot.press("t")
        assert marked_tab(app) == "Table"
        await pilot.press(key)
        await until(pilot, lambda: marked_tab(app) == name)
        await pilot.press("A" if key != "A" else "C")
        await until(pilot, lambda: marked_tab(app) == ("Analysis" if key != "A" else "Compare"))
        assert len(app.screen_stack) == 1, "a page is no screen"
        await pilot.press("escape")
        await until(pilot, lambda: marked_tab(app) == "Matrix")


async def test_a_click_on_a_tab_opens_it(app):
    async with running(app, (80, 24)) as pilot:
        for name in ("Compare", "Jobs", "Table", "Matrix"):
            bar = app.screen.query_one(TabBar)
            await pilot.click(bar, offset=(bar.render_line(0).text.index(name), 0))
            await until(pilot, lambda name=name: marked_tab(app) == name)


def marked_tab(app):
    """The tab that is marked on the screen."""
    bar = app.explorer.tabs
    (text,) = (piece for option in bar.options(80) for piece, tone in option if tone == OPEN_TAB)
    return text


async def test_what_is_open_says_how_to_open_ones_own(session):
    look = understood(ViewState(filter=FIRST_VIEW), session)
    app = ExplorerApp(session, title=SAMPLES, look=look, terminal=COLOURFUL)
    async with running(app, (80, 24)):
        said = screen_text(app).splitlines()[1]
        assert said == " sample runs: published table and main, 15 of 15 runs · o opens yours"


def test_the_first_view_has_traces_checkpoints_and_two_places():
    found = scan(default_paths())
    session = Session(found.rows, traces=found.traces)
    session = session.but(filter=filter_of(ViewState(filter=FIRST_VIEW), session))
    assert len(traces_in_scope(session)) == len(session.measurable(session.in_scope)) == 18
    assert len({*homes_of([row.source for row in session.scoped])}) == 2
    assert len(session.in_scope) == 33


async def test_the_third_seed_of_many_runs_is_on_a_screen_of_eighty_columns():
    rows = []
    for method in ("credit_bridge", "state_bridge", "dfa"):
        for depth in range(40):
            for seed in (42, 123, 456):
                axes = {"arch": "vit_mini", "depth": depth, "lam": 0.001}
                report = DiagnosticReport(residual_norms=[1.0, 2.0])
                rows.append(row_of(f"{method}_s{seed}", "runs", report=report, axes=axes))
    app = ExplorerApp(Session(rows), title="runs", terminal=COLOURFUL)
    async with running(app, (80, 24)):
        assert "s456" in screen_text(app).splitlines()[2]
        assert not app.explorer.matrix.show_horizontal_scrollbar


@pytest.mark.parametrize("key", "tCTAJD?")
async def test_every_page_is_ascii_where_the_terminal_shows_no_more(key):
    app = ExplorerApp(epochs(), terminal=PLAIN)
    async with running(app, (80, 24)) as pilot:
        assert screen_text(app).isascii()
        before = (app.screen, app.explorer.page)
        await pilot.press(key)
        await until(pilot, lambda: (app.screen, app.explorer.page) != before)
        await pilot.pause()
        assert screen_text(app).isascii()
