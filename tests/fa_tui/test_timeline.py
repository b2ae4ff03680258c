"""The seeds of a method over their epochs, and the table of first fires."""

import math

import pytest
from msgspec.structs import replace

from fa_core.formats import Trace, TraceEpoch, scan
from fa_core.report.baseline import FrozenBaseline
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.report_facts import DiagnosticThresholds
from fa_tui.session import Session
from fa_tui.views.glyphs import UNICODE
from fa_tui.views.looks import look_at
from fa_tui.views.scale import Scale
from fa_tui.widgets.epoch_chart import LOSS, SHOWN, epoch_chart, fire_point, points_of, scale_of
from tests.fa_core.analysis.runs import timeline
from tests.fa_core.rows import row_of
from tests.fa_tui.looks import (
    app_on,
    filter_by,
    opened,
    page_line,
    running,
    set_a_to,
    settled,
    shows,
)
from tests.fa_tui.looks import below_tabs as screen_text
from tests.fa_tui.scenes import epochs as epochs_of
from tests.fa_tui.scenes import four_traces, trace
from tests.fa_tui.waiting import until


@pytest.fixture
def app():
    return app_on(epochs_of())


async def _open(pilot, *keys):
    return await opened(pilot, "T", *keys)


def test_the_chart_has_every_recorded_value_the_first_fires_and_the_thresholds():
    runs = [
        timeline(trace("dfa", seed, rate), frozen_baseline=0.5)
        for seed, rate in ((1, 2.0), (2, 1.6))
    ]
    looks = [look_at(place, UNICODE) for place in range(2)]
    charts = {
        shown.name: epoch_chart(shown, runs, looks, DiagnosticThresholds(), UNICODE)
        for shown in SHOWN
    }
    for shown in SHOWN:
        curves = charts[shown.name].curves
        assert [curve.points for curve in curves[:2]] == [points_of(run, shown) for run in runs]
        assert [curve.mark for curve in curves[:2]] == ["○", "□"]
    # 2^6 and 1.6^9 exceed 50; each fire is on its curve, in the chart of what it marks
    fires = {name: [curve.points for curve in chart.curves[2:]] for name, chart in charts.items()}
    assert fires["growth"] == [[(6.0, 2.0**6)], [(9.0, pytest.approx(1.6**9))]]
    assert [points[0][0] for points in fires["h_L"]] == [6.0, 9.0]
    assert fires["loss"] == []
    assert [limit for limit, _ in charts["growth"].limits] == [50.0]
    # every seed has its own frozen baseline
    assert charts["acc"].limits == [
        (pytest.approx(0.52), "curve-1"),
        (pytest.approx(0.52), "curve-2"),
    ]
    assert points_of(runs[0], LOSS)[1] == (2.0, 0.5)


@pytest.mark.parametrize(
    ("value", "place", "mark"),
    [(math.nan, 100.0, UNICODE.nonfinite), (0.0, 1.0, UNICODE.fires), (7.0, 7.0, UNICODE.fires)],
)
def test_a_value_that_is_not_finite_fires_at_the_top_of_the_chart_and_0_at_its_foot(
    value, place, mark
):
    curve = fire_point([(1.0, 2.0), (2.0, value)], 2, Scale(1.0, 100.0, log=True), UNICODE)
    assert (curve.points, curve.mark) == ([(2.0, place)], mark)


def test_noise_of_an_accuracy_does_not_fill_its_axis_and_no_axis_goes_beyond_one():
    accuracy = SHOWN[3]
    calm = scale_of([0.6101, 0.6107], accuracy)
    assert calm.hi - calm.lo > 0.0199
    assert scale_of([0.2, 1.0], accuracy).hi == 1.0


async def test_a_larger_terminal_never_has_a_smaller_chart_and_it_has_half_of_the_height(app):
    async with running(app, (40, 10)) as pilot:
        screen = await _open(pilot)
        before = (0, 0)
        for size in (
            (40, 11),
            (60, 15),
            (80, 24),
            (80, 33),
            (80, 34),
            (120, 40),
            (199, 47),
            (200, 60),
        ):
            await pilot.resize_terminal(*size)
            await until(pilot, lambda size=size: app.screen.size == size)
            await pilot.pause()
            canvas = screen.canvas.size
            assert canvas.height * 2 >= size[1]
            assert screen.charts.size.width == size[0] and canvas.height >= before[1]
            assert screen.beside.display == (size[0] >= 120)
            before = canvas


async def test_a_line_is_a_method_whose_seeds_are_drawn_and_a_threshold_moves_both(app):
    async with running(app) as pilot:
        screen = await _open(pilot, "3")
        assert "bp  ○ s1  □ s2" in page_line(app, 0)
        assert "✗ first" not in page_line(app, 1)
        await pilot.press("down")
        await settled(pilot)
        assert "dfa  ○ s1  □ s2" in page_line(app, 0)
        assert "a > 50  ✗ first" in page_line(app, 1)
        assert screen.table.text[2][:3] == ["dfa", "1/2", "6/9"]
        await set_a_to(pilot, "2")
        await settled(pilot)
        assert screen.table.text[2][:3] == ["dfa", "1/2", "2/2"]
        await pilot.press("escape", "5")
        await settled(pilot)
        assert screen.canvas.chart.curves[0].points[0] == (1.0, 1.0)


async def test_the_run_under_the_cursor_of_the_matrix_is_on_the_chosen_line(app):
    async with running(app, (80, 24)) as pilot:
        await pilot.press("down")
        await _open(pilot)
        assert "dfa  ○ s1" in page_line(app, 0)


async def test_the_runs_are_those_in_scope_and_a_scope_without_a_trace_says_so(app):
    lone = row_of("dfa_s1", "audits.json")
    app = app_on(Session([*epochs_of().rows, lone], traces=four_traces()))
    async with running(app, (80, 24)) as pilot:
        await filter_by(pilot, "source:audits")
        await until(pilot, lambda: app.session.in_scope == [4] and app.explorer.takes_keys)
        screen = await _open(pilot)
        assert "no traces of the runs that pass the filter" in screen_text(app)
        assert "f takes all runs; runs have some" in screen_text(app)
        await pilot.press("f")
        await settled(pilot)
        assert [row[0] for row in screen.table.text[1:]] == ["bp", "dfa"]


async def test_a_growing_trace_and_a_new_run_are_followed_on_the_same_line(app):
    async with running(app, (80, 24)) as pilot:
        screen = await _open(pilot, "down")
        longer = replace(trace("bp", 3, 1.1, epochs=25), unfinished=True)
        traces = [*four_traces(), longer, trace("credit_bridge", 1, 1.3)]
        app.show(app.session.but(traces=traces))
        await settled(pilot)
        assert [row[0] for row in screen.table.text[1:]] == ["bp", "credit_bridge", "dfa"]
        assert "dfa" in page_line(app, 0)
        await pilot.press("home")
        await settled(pilot)
        assert "△ s3   last line incomplete" in page_line(app, 0)
        assert screen.canvas.chart.x.hi == 25.0


async def test_what_is_not_recorded_not_judged_or_skipped_is_said(tmp_path):
    path = tmp_path / "dfa_s1.jsonl"
    path.write_text(
        '{"epoch": 1, "test_acc": 0.4}\n{"epoch": 2, "test_acc": 61}\n{"epoch": 3, "test_acc": 0.5}\n'
    )
    found = scan([path])
    app = app_on(Session([], problems=found.problems, traces=found.traces))
    async with running(app) as pilot:
        await _open(pilot)
        text = screen_text(app)
        assert "1 problem (P)" in text and "not recorded" in text
        assert "(a) not judged: the trace lacks residual norms" in text
        await pilot.press("4")
        await settled(pilot)
        assert "not recorded" not in page_line(app, 1)
        await pilot.press("P")
        await shows(pilot, "61.0")


async def test_one_epoch_has_one_number_on_its_axis():
    alone = Trace(
        source="a.jsonl",
        key="bp_s1",
        method="bp",
        seed=1,
        epochs=[TraceEpoch(epoch=7, test_acc=0.5)],
    )
    app = app_on(Session((), traces=[alone]))
    async with running(app) as pilot:
        await _open(pilot, "4")
        [axis] = [line for line in screen_text(app).splitlines() if line.strip().endswith("epoch")]
        assert axis.split() == ["7", "accuracy", "by", "epoch"]


async def test_a_methods_baseline_replaces_the_one_of_its_audit():
    runs = [trace("dfa", 42, 1.0, epochs=3), trace("bp", 42, 1.0, epochs=3)]
    report = DiagnosticReport(bp_grad_norms=[0.1], headline_acc=0.467, frozen_baseline_acc=0.3)
    rows = [row_of(one.key, one.source, report=report) for one in runs]
    session = Session(rows, traces=runs, baseline=FrozenBaseline(0.2, {"dfa": 0.1}))
    async with running(app_on(session)) as pilot:
        screen = await _open(pilot, "home", "4")
        baselines = []
        for _ in range(2):
            baselines += [round(limit - 0.02, 6) for limit, _ in screen.canvas.chart.limits]
            await pilot.press("down")
            await settled(pilot)
        assert baselines == [0.3, 0.1]
        assert (
            "(d) is assumed, not measured: against a frozen baseline of 0.1"
            in pilot.app.explorer.status.text
        )
