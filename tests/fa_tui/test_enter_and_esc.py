"""Enter opens what the cursor is on, and Esc goes back, on every screen."""

from __future__ import annotations

import pytest

from fa_tui.app import ExplorerApp
from fa_tui.jobs.listing import Listed
from fa_tui.screens.compare import CompareScreen
from fa_tui.screens.jobs import JobsScreen, JobsTable
from tests.fa_tui.looks import screen_text
from tests.fa_tui.scenes import StagedJobs
from tests.fa_tui.waiting import until


@pytest.mark.parametrize("size", [(80, 24), (50, 24)])
@pytest.mark.parametrize("long", [False, True], ids=["matrix", "table"])
async def test_a_run_opens_on_all_of_the_width(
    app: ExplorerApp, size: tuple[int, int], long: bool
) -> None:
    async with app.run_test(size=size) as pilot:
        explorer = app.explorer
        await until(pilot, lambda: explorer.takes_keys)
        await pilot.press(*["t"] * long, "down", "enter")
        await until(pilot, lambda: explorer.focused is explorer.detail)
        assert explorer.detail is not None
        await until(pilot, lambda: explorer.detail.size.width > size[0] - 8)
        await until(pilot, lambda: "trustworthy" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: explorer.focused is explorer.runs)
        assert not explorer.shows_run_alone
        assert explorer.shown_runs.in_table is long, "one step back"
        await until(pilot, lambda: explorer.runs.size.width > size[0] // 3)


async def test_enter_and_esc_typed_ahead_leave_the_runs(app: ExplorerApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        explorer = app.explorer
        await until(pilot, lambda: explorer.takes_keys)
        await pilot.press("t", "enter", "escape", "down")
        await pilot.pause(0.05)
        assert explorer.focused is explorer.runs and explorer.runs.line == 1


async def test_enter_in_compare_goes_to_the_run_in_the_matrix(app: ExplorerApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.explorer.takes_keys)
        await pilot.press("C", "n", "right")
        await until(pilot, lambda: isinstance(app.screen, CompareScreen))
        group = app.screen.group
        assert group is not None
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.explorer)
        assert app.explorer.row == group.rows[1]


async def test_enter_on_a_job_goes_to_its_run(app: ExplorerApp) -> None:
    class Jobs(StagedJobs):
        def listed(self) -> list[Listed]:
            return [Listed(id="7", name="a run", state="running")]

    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.explorer.takes_keys)
        await app.push_screen(JobsScreen(Jobs()))
        await until(pilot, lambda: app.screen.query_one(JobsTable).job is not None)
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.explorer)
        assert app.explorer.row == 7
