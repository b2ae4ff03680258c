"""The comparison follows thresholds, filter and new measurements; what is copied from it."""

from msgspec.structs import replace

from fa_core.formats import scan
from fa_core.report.diagnostics import mask_of
from fa_tui.app import ExplorerApp
from fa_tui.session import Session, with_rows
from tests.fa_tui.compared_runs import row_of
from tests.fa_tui.looks import below_tabs as screen_text
from tests.fa_tui.looks import filter_by, opened, page_line, running, set_a_to, settled, shows
from tests.fa_tui.printing import printed_json


async def test_marked_runs_come_first_and_a_slider_rejudges_every_column(app):
    async with running(app) as pilot:
        await pilot.press("space", *["down"] * 4, "right", "space")
        await opened(pilot, "C")
        assert "bp s42" in screen_text(app) and "ep s123" in screen_text(app)
        assert "a 0 of 2  b 0 of 2" in screen_text(app)
        await set_a_to(pilot, "5")
        await settled(pilot)
        assert "a 1 of 2  b 0 of 2" in screen_text(app)
        await pilot.press("escape", "escape")
        await pilot.pause()
        assert app.explorer.page.id == "Matrix"
        assert app.session.thresholds.h_norm_explosion_ratio == 5.0
        assert "11 of 15 need walk-back" in screen_text(app)


async def test_a_filter_on_verdicts_follows_the_thresholds(app):
    async with running(app) as pilot:
        await filter_by(pilot, "flag:b")
        await shows(pilot, "filter flag:b, 9 of 15 runs")
        screen = await opened(pilot, "C")
        assert " dfa " in page_line(app, 0)
        for key, typed, words in (
            ("b", "1e-12", "nothing to compare: no run passes the filter"),
            ("b", "1e-7", " dfa  3 runs"),
        ):
            await pilot.press(key, *typed, "enter")
            await settled(pilot)
            assert words in page_line(app, 0)
            passing = [row for row, flags in enumerate(app.session.flags) if flags & mask_of("b")]
            assert bool(screen.view.line_count()) == bool(passing)
            assert set(screen.group.rows if screen.group else ()) <= set(passing)


async def test_a_measured_run_appears_and_the_method_stays(app):
    async with running(app) as pilot:
        await opened(pilot, "C", "tab")
        index = next(n for n, row in enumerate(app.session.rows) if row.key == "dfa_s42")
        row = app.session.rows[index]
        app.show(
            with_rows(app.session, {index: replace(row, report=row_of("dfa", 42, 1.0, 2.0).report)})
        )
        await settled(pilot)
        assert " dfa " in page_line(app, 0)
        assert "diverge at layer 0" in screen_text(app)


async def test_the_copied_command_prints_just_the_runs_compared(published_table, capsys):
    app = ExplorerApp(Session(scan([published_table]).rows), paths=[published_table])
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("down")
        screen = await opened(pilot, "C")
        shared = screen.shared()
        assert shared.value.startswith("dfa s42: ") and len(shared.rows) == 3
    capsys.readouterr()
    (group,) = printed_json(capsys, *shared.command)["groups"]
    assert (group["method"], group["seeds"]) == ("dfa", [42, 123, 456])


async def test_a_name_of_two_lines_is_copied_as_one(published_table):
    rows = [replace(row, source="a\nb") for row in scan([published_table]).rows]
    app = ExplorerApp(Session(rows))
    async with running(app) as pilot:
        screen = await opened(pilot, "C")
        assert screen.shared().value.endswith(r"   a\nb")
