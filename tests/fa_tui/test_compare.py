"""The comparison on screen: pages of runs, flipping through methods, bars and charts, what fits."""

import math
import re

import pytest

from fa_core.analysis.seeds import over_seeds
from fa_core.report.numbers import short
from fa_tui.session import Session
from fa_tui.views.glyphs import UNICODE
from fa_tui.views.scale import Scale
from fa_tui.widgets.chart import Canvas, Curve, draw_chart, layer_chart
from fa_tui.widgets.run_cells import mark_of
from tests.fa_core.rows import row_of as named
from tests.fa_tui.compared_runs import row_of, ten_seeds
from tests.fa_tui.looks import app_on, opened, page_line, running, settled
from tests.fa_tui.looks import below_tabs as screen_text
from tests.fa_tui.waiting import until


async def test_every_seed_of_a_method_is_scrolled_to_and_then_ratio_and_mean():
    app = app_on(ten_seeds())
    async with running(app, (80, 24)) as pilot:
        screen = await opened(pilot, "C")
        title, names, *_ = screen_text(app).splitlines()
        assert "10 runs" in title and "○ s1" in names and "s10" not in names
        await pilot.press(*["right"] * 11)
        await settled(pilot)
        names = page_line(app, 1)
        assert "J s10" in names and "max/min" in names and "mean, spread" in names
        await pilot.press("tab")
        assert "○ s1" in page_line(app, 1) or screen.view.column == 11


async def test_ratio_spread_and_parting_are_of_all_seeds_on_screen_or_not():
    app = app_on(ten_seeds())
    async with running(app) as pilot:
        screen = await opened(pilot, "C")
        text = screen_text(app)
        assert "diverge at layer 2" in text and "a 1 of 10" in text
        spread = next(
            line.spread for line in screen.view.lines if line.kind == "h" and line.label == "2"
        )
        assert len(spread.values) == 10 and spread.stat(False).mean == pytest.approx(402.745)
        await pilot.press("down", "down", "down", *["right"] * 10)
        await settled(pilot)
        assert "max/min and mean are over all 10" in screen_text(app)
        assert "×1329" in screen_text(app)


async def test_a_run_that_changed_since_or_is_gone_counts_nowhere_and_that_is_said():
    changed, *others = ten_seeds().read
    session = Session([changed.marked("its weights changed since"), *others], gone=frozenset({9}))
    app = app_on(session)
    async with running(app, (140, 40)) as pilot:
        await opened(pilot, "C")
        assert "8 runs, 2 of all changed or gone" in page_line(app, 0)
        assert "a 0 of 8" in screen_text(app)
    assert (session.counts().measured, session.counts().walked) == (8, 0)
    notes = over_seeds(session.runs.table).notes
    assert notes[-1] == "runs (its record is gone) are left out: bp_s10"
    assert [mark_of(session, row, UNICODE) for row in (0, 1, 9)] == ["≠", "", "†"]


async def test_c_opens_on_the_method_under_the_cursor_and_tab_flips(app):
    async with running(app) as pilot:
        await pilot.press("down")
        await opened(pilot, "C")
        assert " dfa " in page_line(app, 0)
        assert "c 1 of 3" in screen_text(app)
        await pilot.press("tab")
        assert "state_bridge" in page_line(app, 0)
        await pilot.press(*["shift+tab"] * 3)
        await settled(pilot)
        assert " ep " in page_line(app, 0)
        assert "fires on  a 0 of 3  b 0 of 3  c 0 of 3  d not measured" in screen_text(app)
        await pilot.press("escape")
        assert app.explorer.page.id == "Matrix"


async def test_a_single_run_says_how_to_compare_it():
    app = app_on(Session([row_of("bp", 1, 1.0, 2.0)]))
    async with running(app, (80, 24)) as pilot:
        await opened(pilot, "C")
        assert "nothing to compare it with" in screen_text(app)
        assert "max/min" not in page_line(app, 1)


async def test_no_runs_and_unmeasured_runs_are_said_not_drawn():
    for rows, words in (
        ([], "nothing to compare"),
        (
            [named(f"x_s{n}") for n in range(2)],
            "a not measured  b not measured",
        ),
    ):
        app = app_on(Session(rows))
        async with running(app, (80, 24)) as pilot:
            await opened(pilot, "C")
            assert words in screen_text(app)
            await pilot.press("tab", "v", "down", "right")


async def test_a_click_on_a_cell_says_its_value_and_source(app):
    async with running(app) as pilot:
        await opened(pilot, "C")
        await pilot.click("CompareView", offset=(40, 3))
        await settled(pilot)
        h_0 = next(row for row in app.session.rows if row.key == "bp_s123").report.residual_norms[0]
        assert f"bp s123: ‖h_0‖ = {short(h_0, 6)}" in screen_text(app)


def test_the_charts_hold_every_layer_of_every_run_on_one_scale():
    short_run = Curve([(0, 1.0), (1, 10.0)], "curve-1", "○")
    long_run = Curve([(0, 2.0), (1, math.nan), (2, 4.0)], "curve-2", "□")
    chart = layer_chart([short_run, long_run])
    assert (chart.x, chart.y) == (Scale(0.0, 2.0), Scale(1.0, 10.0, log=True))
    nothing = layer_chart([Curve([], "curve-1", "○")])
    assert nothing.y == Scale(0.1, 1.0, log=True)
    assert not any("○" in text for row in draw_chart(nothing, 40, 8, UNICODE) for text, _ in row)


async def test_a_seed_has_its_mark_in_the_heading_and_at_its_curve(app):
    async with running(app, (200, 60)) as pilot:
        screen = await opened(pilot, "C", "tab")
        text = screen_text(app)
        assert "○ s42" in text and "△ s456" in text
        assert {*re.findall("[\u2801-\u28ff]([○□△])", text)} == {"○", "□", "△"}
        curves = [curve.style for curve in screen.query(Canvas).first().chart.curves]
        assert curves == ["curve-1", "curve-2", "curve-3"]


async def test_runs_of_one_seed_have_its_mark_and_are_told_apart_by_name(app):
    app.history.now = app.session.but(
        marked=frozenset({row for row, each in enumerate(app.session.rows) if each.seed == 123})
    )
    async with running(app, (200, 60)) as pilot:
        screen = await opened(pilot, "C")
        chart = screen.query(Canvas).last().chart
        assert {curve.style for curve in chart.curves} == {"curve-2"}
        assert [curve.mark for curve in chart.curves][:2] == ["bp □", "dfa □"]
        text = screen_text(app)
        assert "bp □" in text and "dfa □" in text


async def test_v_shows_the_chart_instead_of_the_table_and_a_larger_screen_has_a_larger_one(app):
    async with running(app, (80, 24)) as pilot:
        screen = await opened(pilot, "C", "v")
        before = screen.curves.size
        assert before.height * 2 >= 24 and not screen.view.size.height
        for size in ((120, 40), (200, 60)):
            await pilot.resize_terminal(*size)
            await until(pilot, lambda size=size: screen.curves.size.width == size[0])
            assert screen.curves.size.height > before.height
            before = screen.curves.size
        await pilot.press("v")
        await until(pilot, lambda: screen.view.size.height)


def _deep():
    """A shallow run and one of 200 layers that jumps at block 77."""
    norms = [10.0 * 1.01**layer * (300 if layer > 77 else 1) for layer in range(201)]
    session = Session(
        [row_of("a", 1, 10.0, 10.1, 10.2, 10.3), row_of("b", 1, *norms), row_of("c", 1)]
    )
    return session.but(marked=frozenset({0, 1, 2}))


async def test_a_layer_that_a_run_does_not_have_is_said_to_be_missing():
    app = app_on(_deep())
    async with running(app) as pilot:
        await opened(pilot, "C")
        await pilot.press(*["down"] * 5)
        await pilot.pause()
        assert "a s1: no ‖h_4‖ in this run" in screen_text(app)


@pytest.mark.parametrize("marked", range(2, 7))
@pytest.mark.parametrize("width", [80, 100, 120])
async def test_up_to_six_runs_fit_without_a_scrollbar(app, width, marked):
    app.history.now = app.session.but(marked=frozenset(range(marked)))
    async with running(app, (width, 40)) as pilot:
        screen = await opened(pilot, "C")
        assert not screen.view.show_horizontal_scrollbar


async def test_whole_names_go_before_the_mean(app):
    bridges = {row for row, each in enumerate(app.session.rows) if each.method == "state_bridge"}
    async with running(app, (80, 24)) as pilot:
        await opened(pilot, "C", "tab", "tab")
        _, names, *lines = screen_text(app).splitlines()
        assert "mean, spread" in names and "1.16e7" in "".join(lines)
        app.show(app.session.but(marked=frozenset(bridges)))
        await settled(pilot)
        while "marked" not in page_line(app, 0):
            await pilot.press("tab")
            await settled(pilot)
        _, names, *lines = screen_text(app).splitlines()
        assert "○state_bridge s42" in names and "dge s123" in names and "dge s456" in names
        assert "mean" not in names


async def test_a_growth_of_many_digits_stays_in_its_column():
    app = app_on(Session([row_of("bp", seed, 1e-10, 1.2345e10, 1.0) for seed in range(6)]))
    async with running(app, (80, 24)) as pilot:
        await opened(pilot, "C")
        growing = next(line for line in screen_text(app).splitlines() if "0→1" in line)
        assert growing.split()[1:-1] == ["1.2e20"] * 6
        assert len(growing) < 80


async def test_the_heading_names_no_place_that_all_share_and_a_mean_only_of_one_network(app):
    app.history.now = app.session.but(marked=frozenset({0, 3}))
    async with running(app) as pilot:
        await opened(pilot, "C")
        _, names, first, *_ = screen_text(app).splitlines()
        assert "bp s42" in names and "mean" not in names and "verdict" in first
