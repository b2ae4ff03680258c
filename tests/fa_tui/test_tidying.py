"""What was done with many runs leaves nothing behind."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from fa_core.formats import scan
from fa_tui.screens import explorer_panes
from fa_tui.screens.analysis import AnalysisScreen
from fa_tui.session import Session
from tests.fa_tui.looks import app_on, opened
from tests.fa_tui.waiting import until


@pytest.fixture
def no_collection_by_itself() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection_by_itself")
@pytest.mark.parametrize("many", [1, 10_000])
async def test_an_analysis_that_was_left_is_freed_where_there_are_many_runs(
    published_table: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr(explorer_panes, "_MANY", many)
    session = Session(scan([published_table]).rows)
    app = app_on(session)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, "A")
        assert isinstance(screen, AnalysisScreen)
        gc.disable()  # the explorer's late panes turn it on
        left = weakref.ref(screen.runs)
        del screen
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.explorer)
        if many == 1:
            await until(pilot, lambda: left() is None)
        else:
            assert left() is not None, "few runs are not worth a collection"


@pytest.mark.parametrize(("many", "seldom"), [(1, True), (10_000, False)])
async def test_cycles_are_looked_for_less_often_where_there_are_many_runs(
    published_table: Path, monkeypatch: pytest.MonkeyPatch, many: int, seldom: bool
) -> None:
    before, usual = gc.get_threshold(), (700, 10, 10)
    gc.set_threshold(*usual)
    monkeypatch.setattr(explorer_panes, "_MANY", many)
    app = app_on(Session(scan([published_table]).rows))
    try:
        async with app.run_test(size=(120, 40)) as pilot:
            await until(pilot, lambda: app.explorer.takes_keys)
            assert (gc.get_threshold() != usual) == seldom
            assert gc.get_threshold()[1:] == usual[1:]
    finally:
        gc.set_threshold(*before)
