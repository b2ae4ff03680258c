"""Sweep, utility and seeds on screen: the commands' tables, following the sliders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fa_core.analysis.threshold_sweep import sensitivities, verdict_curve
from fa_core.analysis.utility import decision_utility
from fa_core.formats import scan
from fa_core.formats.rows import AuditRow
from fa_core.formats.table import AuditTable
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.thresholds import DiagnosticThresholds
from fa_core.reporting.sections.analyses import sensitivity_blocks, utility_blocks
from fa_tui.app import ExplorerApp
from fa_tui.cli import main
from fa_tui.reading import Reading
from fa_tui.screens.analysis import AnalysisScreen
from fa_tui.session import Session
from fa_tui.views.analysed import parts
from fa_tui.widgets.chart import SLICES, curve_chart
from tests.fa_tui.looks import app_on, opened, settled
from tests.fa_tui.looks import below_tabs as screen_text
from tests.fa_tui.waiting import until


@pytest.fixture
def session(published_table: Path) -> Session:
    return Session(scan([published_table]).rows)


@pytest.fixture
def app(session: Session) -> ExplorerApp:
    return app_on(session)


async def _open(pilot: Any, *keys: str) -> AnalysisScreen:
    screen = await opened(pilot, "A", *keys)
    assert isinstance(screen, AnalysisScreen)
    return screen


async def test_the_sweep_holds_every_cell_of_the_commands_table(
    app: ExplorerApp, session: Session
) -> None:
    printed, _ = parts(sensitivity_blocks(sensitivities(session.table)))
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open(pilot)
        shown = screen.table.text
        for row, said in zip(shown[1:], printed.rows, strict=True):
            assert sorted(row) == sorted(said)
        assert "63.357×" in screen_text(app) and "(10.961, 694.458)" in screen_text(app)
        assert screen.table.virtual_size.width <= screen.table.view.width
        await pilot.resize_terminal(80, 24)
        await until(
            pilot,
            lambda: any(
                "no letter cha" in line and "›" in line for line in screen_text(app).splitlines()
            ),
        )


async def test_number_keys_tab_and_clicks_open_the_analyses(app: ExplorerApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open(pilot, "2")
        assert "S_full" in screen_text(app)
        await pilot.press("tab")
        await settled(pilot, screen)
        assert "disagree" in screen_text(app)
        await pilot.click("TabLine", offset=(4, 0))
        await settled(pilot, screen)
        assert "63.357×" in screen_text(app)
        await pilot.press("A")
        assert app.screen is app.explorer


async def test_a_threshold_moves_the_tables_and_the_chart(app: ExplorerApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open(pilot, "2")
        s2 = next(row for row in screen.table.text if row[0] == "S2")
        assert s2[2:4] == ["9/15", "100%"]
        await pilot.press("a", "5", "enter")
        await settled(pilot, screen)
        s2 = next(row for row in screen.table.text if row[0] == "S2")
        assert s2[2:4] == ["11/15", "100%"]
        await pilot.press("escape", "1")
        await settled(pilot, screen)
        assert "fires on 11" in screen_text(app)


async def test_thresholds_set_elsewhere_and_new_runs_are_taken_over(app: ExplorerApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open(pilot, "2")
        app.session.merge([Reading("new.json", [replace(app.session.rows[0], source="new.json")])])
        screen.sliders.set_thresholds(DiagnosticThresholds(h_norm_explosion_ratio=5.0))
        app.session.set_thresholds(screen.sliders.thresholds)
        screen.runs_changed()
        await settled(pilot, screen)
        assert "16 runs" in screen_text(app)
        assert "11 of 16 need walk-back" in screen_text(app)
        assert screen.sliders.thresholds.h_norm_explosion_ratio == 5.0
        assert next(row for row in screen.table.text if row[0] == "S2")[2] == "11/16"


async def test_the_line_under_the_cursor_is_told_more_about(app: ExplorerApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open(pilot, "2", *["down"] * 4)
        assert "misses: dfa_s42, credit_bridge_s123, dfa_s456" in screen.about.text
        await pilot.press("3", "down")
        await settled(pilot, screen)
        assert "seeds disagree on (c)" in screen.about.text
        await pilot.press("2")
        await settled(pilot, screen)
        assert "# S4" in screen.about.text, "each analysis keeps its cursor"


async def test_methods_have_columns_of_their_own_where_all_of_them_fit(app: ExplorerApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open(pilot, "2")
        await settled(pilot, screen)
        headings, *lines = screen.table.text
        assert headings[4:] == ["bp", "dfa", "state_bridge", "credit_bridge", "ep"]
        s4 = next(line for line in lines if line[0] == "S4")
        assert s4[4:] == ["0/3", "1/3", "2/3", "2/3", "0/3"]
        assert "›" not in screen_text(app).splitlines()[2]
        await pilot.resize_terminal(80, 40)
        await until(pilot, lambda: screen.table.text[0] == headings[:4])
        await pilot.resize_terminal(120, 40)
        await until(pilot, lambda: screen.table.text[0] == headings)


async def test_the_right_key_brings_hidden_columns_in(app: ExplorerApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await _open(pilot, "3")
        assert "growth" not in screen_text(app).splitlines()[2]
        assert " acc " in screen_text(app).splitlines()[2]
        await pilot.press(*["right"] * 3)
        await settled(pilot, screen)
        assert "growth" in screen_text(app).splitlines()[2]
        assert "state_bridge" in screen_text(app), "the name column stays"


def test_the_chart_shows_the_counts_of_the_verdict_curve(session: Session) -> None:
    curve = verdict_curve(session.table, "a", DiagnosticThresholds())
    fired, walked = curve_chart(curve, 50.0, len(session)).curves
    for threshold in (1e-3 + value for value in curve.points):
        expected = curve.at(threshold)
        for drawn, count in zip((fired, walked), expected, strict=True):
            last = [y for x, y in drawn.points if x <= threshold][-1]
            assert last == count


def test_ten_thousand_steps_are_thinned_and_still_pass_through_their_counts() -> None:
    rows = [
        AuditRow(
            source="x",
            key=f"m_s{n}",
            method="m",
            seed=n,
            report=DiagnosticReport(residual_norms=[1.0, 1.0 + n]),
        )
        for n in range(10_000)
    ]
    curve = verdict_curve(AuditTable.from_rows(rows), "a", DiagnosticThresholds())
    fired, _ = curve_chart(curve, 50.0, len(rows)).curves
    assert len(fired.points) <= 2 * SLICES + 4
    assert (fired.points[0][1], fired.points[-1][1]) == (10_000, 0)
    assert all(count == curve.at(x)[0] for x, count in fired.points[2:-1:2])


@pytest.mark.parametrize("keys", ["1", "2", "3"])
async def test_no_runs_at_all_are_said_not_crashed_on(keys: str) -> None:
    app = app_on(Session([]))
    async with app.run_test(size=(80, 24)) as pilot:
        await _open(pilot, keys, "down", "right")
        assert "0 runs" in screen_text(app)


def test_the_utility_table_is_the_commands(session: Session) -> None:
    grid, said = parts(utility_blocks(decision_utility(session.table)))
    assert [row[0] for row in grid.rows] == ["S0", "S1", "S2", "S3", "S4", "S5", "S_full"]
    assert any("Smallest set" in line for line in said)


async def _open_filtered(pilot: Any, app: ExplorerApp, text: str, *keys: str) -> AnalysisScreen:
    await until(pilot, lambda: app.explorer.sliders is not None)
    await pilot.press("slash", *text, "enter")
    await until(pilot, lambda: f"filter {text}, " in screen_text(app))
    return await _open(pilot, *keys)


@pytest.mark.parametrize("key", "123")
async def test_the_analyses_are_of_the_runs_that_pass_the_filter(
    app: ExplorerApp, session: Session, key: str
) -> None:
    rows = [row for row in session.rows if row.method in ("bp", "dfa")]
    alone = app_on(Session(rows))
    async with alone.run_test(size=(120, 40)) as pilot:
        expected = (await _open(pilot, key)).table.text
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open_filtered(pilot, app, "method:bp,dfa", key)
        assert "6 of 15 runs, filter method:bp,dfa" in screen_text(app).splitlines()[0]
        assert screen.table.text == expected
        assert screen.shared().rows == rows


@pytest.mark.parametrize(("key", "name"), [("1", "sweep"), ("2", "utility"), ("3", "seeds")])
async def test_the_copied_command_prints_the_filtered_analysis(
    published_table: Path, session: Session, capsys: pytest.CaptureFixture[str], key: str, name: str
) -> None:
    app = ExplorerApp(session, paths=[published_table])
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open_filtered(pilot, app, "flag:a method:dfa,ep,state_bridge", key)
        shared = screen.shared()
        assert shared.table is not None
        record = json.loads(json.dumps(shared.table.record()))
    capsys.readouterr()
    assert shared.command[0] == name
    assert main([*shared.command, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == record


async def test_f_turns_from_the_runs_that_pass_to_all_and_back(app: ExplorerApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open_filtered(pilot, app, "method:dfa", "3")
        assert [row[0] for row in screen.table.text[1:]] == ["dfa"]
        assert "3 of 3 need walk-back" in screen_text(app)
        await pilot.press("f")
        await settled(pilot, screen)
        assert "all 15 runs, filter method:dfa is off" in screen_text(app).splitlines()[0]
        assert [row[0] for row in screen.table.text[1:]] == [
            "bp",
            "dfa",
            "state_bridge",
            "credit_bridge",
            "ep",
        ]
        await pilot.press("f")
        await settled(pilot, screen)
        assert [row[0] for row in screen.table.text[1:]] == ["dfa"]
        await pilot.press("escape")
        await until(pilot, lambda: "filter method:dfa, 3 of 15 runs" in screen_text(app))


async def test_without_a_filter_there_is_nothing_to_turn_to(app: ExplorerApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open(pilot, "f")
        assert screen.runs.rows is None
        await until(pilot, lambda: "every run is in scope" in app.explorer.status.text)


async def test_healthy_methods_that_the_filter_leaves_out_are_named(app: ExplorerApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open_filtered(pilot, app, "method:dfa")
        assert "The filter leaves out every healthy run (f: all runs)." in screen.about.text
        await pilot.press("f")
        await settled(pilot, screen)
        assert "The filter leaves out" not in screen.about.text


async def test_a_healthy_method_behind_the_filter_is_kept_when_others_are_chosen(
    app: ExplorerApp,
) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open_filtered(pilot, app, "method:dfa", "M")
        await until(pilot, lambda: "Methods: healthy" in screen_text(app))
        assert "0 of 3 runs" in screen_text(app)
        await pilot.press("2", "2", "escape")
        await until(pilot, lambda: app.screen is screen)
        await settled(pilot, screen)
        assert app.session.groups is not None and app.session.groups["dfa"] == "healthy"
        assert "Healthy: dfa. Degenerate: none." in screen.about.text
        assert "The filter leaves out every degenerate run" in screen.about.text


async def test_a_filter_on_verdicts_follows_the_thresholds(app: ExplorerApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open_filtered(pilot, app, "flag:a", "2")
        assert "9 of 15 runs, filter flag:a" in screen_text(app).splitlines()[0]
        await pilot.press("a", "5", "enter")
        await settled(pilot, screen)
        assert "11 of 15 runs, filter flag:a" in screen_text(app).splitlines()[0]
        assert next(row for row in screen.table.text if row[0] == "S2")[2] == "11/11"
        assert "flipped at a > 5" in screen_text(app)


async def test_methods_of_which_only_some_runs_pass_are_named(app: ExplorerApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open_filtered(pilot, app, "seed<100 method:dfa,ep", "3")
        assert (
            "Only some runs of a method pass the filter: dfa 1 of 3, ep 1 of 3."
            in screen.about.text
        )


async def test_a_filter_that_no_run_passes_is_said(app: ExplorerApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await _open_filtered(pilot, app, "growth>1e30")
        for key in "123":
            await pilot.press(key)
            await settled(pilot, screen)
            assert "No run passes the filter" in screen.about.text
        await pilot.press("f")
        await settled(pilot, screen)
        assert "walk-back" in screen_text(app)


async def test_where_there_is_no_run_it_says_so_instead_of_a_table_of_nothing() -> None:
    app = app_on(Session([]))
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await _open(pilot, "2")
        for key in "123":
            await pilot.press(key)
            await settled(pilot, screen)
            assert "there is nothing to analyse" in screen_text(app)
            assert "S_full" not in screen_text(app)


async def test_one_method_is_told_how_to_choose_the_groups(session: Session) -> None:
    app = app_on(Session([row for row in session.rows if row.method == "dfa"]))
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open(pilot)
        assert (
            "the healthy group is empty: no separation (choose the groups with the key M)"
            in screen.about.text
        )
        await pilot.press("M", "1", "1", "escape")
        await until(pilot, lambda: app.screen is screen)
        await settled(pilot, screen)
        assert "the degenerate group is empty" in screen.about.text
