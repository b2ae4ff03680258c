"""Runs over their epochs: scrubbing, thresholds, early stops, which curves are drawn."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fa_core.analysis.timeline import Replay
from fa_core.errors import UsageError
from fa_core.formats import Trace, TraceEpoch, scan
from fa_core.formats.rows import AuditRow
from fa_core.report.baseline import FrozenBaseline
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.thresholds import DiagnosticThresholds
from fa_tui.app import ExplorerApp
from fa_tui.opening import traces_of_paths
from fa_tui.screens.timeline import TimelineScreen
from fa_tui.session import Session
from fa_tui.views.epochs import EpochSession, replay_of, title_words
from fa_tui.views.glyphs import UNICODE
from fa_tui.views.scale import Scale
from fa_tui.widgets.epoch_chart import DRAWN_AT_MOST, EpochChart
from fa_tui.widgets.epoch_curves import SHOWN, fire_point, scale_of
from fa_tui.widgets.scrubber import Scrubbed, Scrubber
from tests.fa_tui.looks import app_on, opened, settled
from tests.fa_tui.looks import below_tabs as screen_text
from tests.fa_tui.scenes import EPOCHS, four_traces, trace
from tests.fa_tui.scenes import epochs as epochs_of
from tests.fa_tui.waiting import until


@pytest.fixture
def app() -> ExplorerApp:
    return app_on(epochs_of())


async def _open(pilot: Any, *keys: str) -> TimelineScreen:
    screen = await opened(pilot, "T", *keys)
    assert isinstance(screen, TimelineScreen)
    return screen


def test_the_session_of_an_epoch_judges_the_runs_as_they_were() -> None:
    epochs = EpochSession(Replay(four_traces()), DiagnosticThresholds())
    assert [bool(mask) for mask in epochs.flags] == [False, False, True, True]
    flips = epochs.go_to(5)
    assert [flip.row for flip in flips] == [2, 3]
    assert list(epochs.flags) == [0, 0, 0, 0]
    # 2^6 = 64 > 50, while 1.6^6 = 16.8 is not
    epochs.go_to(6)
    assert list(epochs.flags) == [0, 0, 1, 0]
    assert [
        flip.row
        for flip in epochs.set_thresholds(DiagnosticThresholds(h_norm_explosion_ratio=10.0))
    ] == [3]
    assert sorted(epochs.values("a")) == pytest.approx([1.01**6, 1.02**6, 1.6**6, 2.0**6])


def test_a_longer_trace_is_followed_by_who_stood_at_the_end_and_only_by_him() -> None:
    epochs = EpochSession(Replay([trace("dfa", 1, 1.1, epochs=4)]), DiagnosticThresholds())
    epochs.follow(Replay([trace("dfa", 1, 1.1, epochs=6)]))
    assert epochs.epoch == 6
    epochs.go_to(2)
    epochs.follow(Replay([trace("dfa", 1, 1.1, epochs=8)]))
    assert epochs.epoch == 2


def test_runs_that_never_stop_count_in_what_stopping_saves() -> None:
    epochs = EpochSession(Replay(four_traces()), DiagnosticThresholds())
    stops = epochs.stops("ab")
    assert [None if stop is None else stop.epoch for stop in stops] == [None, None, 6, 9]
    assert epochs.saved_by(stops) == pytest.approx((14 + 11) / 80)


def test_a_value_that_is_not_finite_fires_at_the_top_of_the_chart() -> None:
    curve = fire_point([(1.0, 2.0), (2.0, math.nan)], 2, Scale(1.0, 100.0, log=True), UNICODE)
    assert curve is not None
    assert (curve.points, curve.mark) == ([(2.0, 100.0)], UNICODE.nonfinite)


async def test_t_shows_the_end_and_arrows_home_and_brackets_scrub(app: ExplorerApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open(pilot)
        assert "2/2" in screen_text(app) and "epoch 20" in screen_text(app)
        await pilot.press("left", "left")
        await settled(pilot, screen)
        assert "epoch 18" in screen_text(app)
        await pilot.press("home")
        await settled(pilot, screen)
        assert "epoch 1 " in screen_text(app)
        assert "✗---d" in screen_text(app) and "✗a" not in screen_text(app)
        await pilot.press("right_square_bracket", "right_square_bracket")
        await settled(pilot, screen)
        # the first change is the accuracy's, the second where 2^epoch exceeds 50
        assert screen.judged.flags[2] and not screen.judged.flags[3]
        assert "epoch 6 " in screen_text(app)
        await pilot.press("end", "comma", "full_stop", "full_stop")
        await settled(pilot, screen)
        assert "epoch 20" in screen_text(app)


async def test_the_runs_are_those_in_scope_and_one_key_takes_all(app: ExplorerApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.explorer.takes_keys)
        await pilot.press("slash", *"method:dfa", "enter")
        await until(
            pilot, lambda: app.session.scope_text == "method:dfa" and app.explorer.takes_keys
        )
        screen = await _open(pilot)
        assert {row.method for row in screen.judged.rows} == {"dfa"}
        assert "method:dfa" in screen_text(app).splitlines()[0]
        await pilot.press("f")
        await until(pilot, lambda: len(screen.judged) == 4)
        await until(pilot, lambda: "method:dfa" not in screen_text(app).splitlines()[0])


async def test_a_scope_without_a_trace_says_so_and_shows_no_other_run_also_after_f(
    app: ExplorerApp,
) -> None:
    lone = AuditRow(source="audits.json", key="dfa_s1", method="dfa", seed=1)
    app = app_on(Session([*epochs_of().rows, lone], traces=four_traces()))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.explorer.takes_keys)
        await pilot.press("slash", *"source:audits", "enter")
        await until(pilot, lambda: app.session.scope == [4] and app.explorer.takes_keys)
        await pilot.press("T")
        said = "no traces in source:audits"
        await until(pilot, lambda: said in screen_text(app))
        assert "f takes all runs; runs have some" in screen_text(app)
        assert "fa-tui train writes trace.jsonl" in screen_text(app)
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, TimelineScreen))
        screen = app.screen
        await settled(pilot, screen)
        assert screen.run_chosen is not None
        await pilot.press("f")
        await until(pilot, lambda: app.screen is app.explorer and said in screen_text(app))


async def test_a_run_without_a_trace_gives_way_to_one_of_its_method_and_says_so() -> None:
    lone = AuditRow(source="audits.json", key="dfa_s9", method="dfa", seed=9)
    app = app_on(Session([lone, *epochs_of().rows], traces=four_traces()))
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open(pilot)
        await settled(pilot, screen)
        assert "no trace of dfa s9" in screen_text(app)
        assert _bright(screen) == {2, 3}
        await pilot.press("n")
        await settled(pilot, screen)
        assert "no trace of" not in screen_text(app)


async def test_a_burst_of_scrubs_is_drawn_once_not_once_per_step(
    app: ExplorerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open(pilot)
        drawn: list[int] = []
        judge = screen.judge
        monkeypatch.setattr(screen, "judge", lambda: drawn.append(1) or judge())
        for epoch in range(EPOCHS, 5, -1):
            screen.post_message(Scrubbed(epoch))
        await settled(pilot, screen)
        assert "epoch 6 " in screen_text(app)
        assert len(drawn) == 1


async def test_what_stopping_would_have_saved_follows_run_letters_and_threshold(
    app: ExplorerApp,
) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open(pilot, "down")
        text = screen_text(app)
        assert "dfa s1 would have stopped at epoch 6 (a): saves 70%" in text
        assert "2 of 4 runs, saves 31% of the training" in text
        await pilot.press("s", "s")
        await settled(pilot, screen)
        assert "dfa s1 would have stopped at epoch 9 (b): saves 55%" in screen_text(app)
        await pilot.press("s", "s", "s", "a", "5", "0", "0", "enter")
        await settled(pilot, screen)
        assert "dfa s1 would have stopped at epoch 9 (a, b)" in screen_text(app)
        await pilot.press("escape", "home", *["right"] * 8)
        await settled(pilot, screen)
        assert "would have stopped here" in screen_text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert app.session.thresholds.h_norm_explosion_ratio == 500.0


async def test_digits_typed_into_a_slider_do_not_switch_charts(app: ExplorerApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open(pilot, "a", "2", "enter")
        assert screen.session.thresholds.h_norm_explosion_ratio == 2.0
        assert len([chart for chart in screen.query(EpochChart) if chart.display]) == 4
        await pilot.press("escape", "2")
        await pilot.pause()
        assert [chart.shown.marks for chart in screen.query(EpochChart) if chart.region.height] == [
            "b"
        ]


async def test_a_narrow_screen_shows_one_chart_and_a_number_key_another(app: ExplorerApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await _open(pilot)
        assert "growth log" in screen_text(app) and "accuracy" not in screen_text(app)
        await pilot.press("4")
        await settled(pilot, screen)
        assert "accuracy  (20, 0.58)  d < frozen +2 pp" in screen_text(app)
        assert "✗a" in screen_text(app), "the matrix is on screen"


def _bright(screen: TimelineScreen) -> set[int]:
    """The runs whose curves are bright."""
    return {*screen.charts[0]._canvas.curves}


async def test_the_method_under_the_cursor_is_bright_and_what_is_pinned_stays_so(
    app: ExplorerApp,
) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open(pilot)
        assert _bright(screen) == {0, 1} and " drawn" not in screen_text(app), (
            "the others are in the background"
        )
        await pilot.press("n")
        await settled(pilot, screen)
        assert _bright(screen) == {2, 3}
        await pilot.press("tab", "space", "p")
        await settled(pilot, screen)
        assert _bright(screen) == {0, 1, 2}
        await pilot.press("asterisk", "o")
        await settled(pilot, screen)
        assert _bright(screen) == {0, 1} and "2 drawn" in screen_text(app)
        await pilot.press("o")
        await settled(pilot, screen)
        assert _bright(screen) == {0, 1, 2, 3}


async def test_the_seeds_of_a_method_have_the_marks_and_colours_of_their_columns(
    app: ExplorerApp,
) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open(pilot)
        chart = screen.charts[0].chart
        assert chart is not None
        drawn = {curve.name: (curve.mark, curve.style) for curve in chart.curves if curve.name}
        assert drawn == {"bp s1": ("○", "curve-1"), "bp s2": ("□", "curve-2")}
        behind = {curve.style for curve in chart.curves if not curve.name}
        assert behind == {"faint"}
        assert "○ s1" in screen_text(app) and "□ s2" in screen_text(app)


async def test_plus_and_the_wheel_zoom_in_around_the_epoch(app: ExplorerApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open(pilot)
        await pilot.press("plus", "plus")
        await settled(pilot, screen)
        assert screen.scrubber.epochs_shown == Scale(16.0, 20.0)
        screen.charts[0]._canvas.on_mouse_scroll_down()
        await pilot.press("minus")
        await settled(pilot, screen)
        assert screen.scrubber.epochs_shown == Scale(1.0, 20.0)


async def test_the_axis_ends_at_the_last_epoch_drawn_and_a_press_on_a_curve_picks_its_run(
    app: ExplorerApp,
) -> None:
    app = app_on(
        epochs_of(
            [trace("bp", 1, 1.0, epochs=5), trace("bp", 2, 3.0, epochs=5), trace("fa", 1, 1.0)]
        )
    )
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open(pilot)
        assert screen.scrubber.epochs_shown == Scale(1.0, 5.0) and " epoch 5 " in screen_text(app)
        canvas = screen.charts[0]._canvas
        assert canvas.chart is not None
        lines = canvas.size.height - 1
        await pilot.click(
            canvas, offset=(59, lines - 1 - canvas.chart.y.cell(dict(canvas.curves[1])[5.0], lines))
        )
        await settled(pilot, screen)
        assert screen.run_chosen == 1


async def test_a_click_on_a_chart_or_on_the_track_scrubs(app: ExplorerApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open(pilot)
        scrubber = screen.query_one(Scrubber)
        await pilot.click(scrubber, offset=(10, 0))
        await settled(pilot, screen)
        assert screen._epochs.epoch == 1
        await pilot.click("#chart-b EpochCanvas", offset=(59, 3))
        await settled(pilot, screen)
        assert screen._epochs.epoch == EPOCHS


async def test_the_run_under_the_explorers_cursor_is_the_chosen_one(app: ExplorerApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("down", "right")
        screen = await _open(pilot)
        assert screen.judged.label(screen.run_chosen) == "dfa s2"


async def test_a_growing_trace_is_followed(app: ExplorerApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open(pilot)
        app.session.traces = [*four_traces(), trace("fa", 1, 1.3, epochs=25)]
        screen.runs_changed()
        await settled(pilot, screen)
        assert "5 runs, epochs 1…25" in screen_text(app)
        assert screen.judged.epoch == 25


async def test_a_run_that_appears_before_the_chosen_one_does_not_take_its_place(
    app: ExplorerApp,
) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open(pilot, "tab", "down", "space")
        assert (screen.judged.label(screen.run_chosen), screen.judged.marked) == ("dfa s1", {2})
        app.session.traces = [*four_traces(), trace("credit_bridge", 1, 1.1)]
        screen.runs_changed()
        await settled(pilot, screen)
        assert (screen.judged.label(screen.run_chosen), screen.judged.marked) == ("dfa s1", {3})
        app.session.traces = [trace("credit_bridge", 1, 1.1)]
        screen.runs_changed()
        await settled(pilot, screen)
        assert screen.judged.label(screen.run_chosen) == "credit_bridge s1"
        app.session.traces = []
        screen.runs_changed()
        assert screen.judged.label(screen.run_chosen) == "credit_bridge s1", (
            "a folder that is gone leaves what was read"
        )


async def test_without_traces_it_says_what_to_open() -> None:
    app = app_on(epochs_of([]))
    with pytest.raises(UsageError, match="no traces here"):
        TimelineScreen(app.session)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("T")
        await until(pilot, lambda: "no traces here" in screen_text(app))
        assert "open run folders or logs" in screen_text(app)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.explorer)


async def test_one_epoch_many_runs_and_broken_numbers_are_drawn(app: ExplorerApp) -> None:
    lone = Trace(
        source="x.jsonl",
        key="x",
        method="x",
        epochs=[TraceEpoch(epoch=0, residual_norms=[1.0, math.nan])],
    )
    crowd = [trace("fa", seed, 1.0 + seed / 100, epochs=3) for seed in range(DRAWN_AT_MOST + 10)]
    for traces, words in (([lone], "1 run, epoch 0"), (crowd, f"{DRAWN_AT_MOST} drawn")):
        app = app_on(epochs_of(traces))
        async with app.run_test(size=(80, 24)) as pilot:
            screen = await _open(pilot, "left", "right", "1", "2", "3", "4", "0")
            assert words in screen_text(app)
            assert len(_bright(screen)) <= DRAWN_AT_MOST


def test_a_baseline_assumed_for_all_runs_judges_traces_that_have_none() -> None:
    session = Session([], traces=four_traces(), baseline=FrozenBaseline(default=0.58))
    screen = TimelineScreen(session)
    fires = screen.judged.rows[0].report.with_thresholds(DiagnosticThresholds()).flags
    assert "d" in fires
    assert ("  (d) by an assumed baseline", "warn") in title_words(screen.judged, 4, None, "", 0)
    assert [shown.marks for shown in SHOWN] == ["a", "b", "c", "d", "", ""]


def test_a_methods_baseline_replaces_the_one_of_its_audit() -> None:
    runs = [trace("dfa", 42, 1.0, epochs=3), trace("bp", 42, 1.0, epochs=3)]
    report = DiagnosticReport(bp_grad_norms=[0.1], headline_acc=0.5, frozen_baseline_acc=0.3)
    rows = [
        AuditRow(source=one.source, key=one.key, method=one.method, seed=42, report=report)
        for one in runs
    ]
    session = Session(rows, traces=runs, baseline=FrozenBaseline(0.2, {"dfa": 0.1}))
    replay = replay_of(session)
    found = {replay.table.method[i]: replay.table.report(i) for i in range(len(replay.table))}
    assert (found["dfa"].baseline_acc, found["dfa"].assumed_baseline_acc) == (0.1, 0.1)
    assert (found["bp"].baseline_acc, found["bp"].assumed_baseline_acc) == (0.3, None)


def test_lines_of_traces_that_were_skipped_are_told_and_listed(tmp_path: Path) -> None:
    (tmp_path / "dfa_s1.jsonl").write_text(
        '{"epoch": 1, "test_acc": 0.4}\n{"epoch": 2, "test_acc": 61}\n{"epoch": 3, "test_acc": 0.5}\n'
    )
    (tmp_path / "other.json").write_text("{")
    session = Session([])
    session.traces = traces_of_paths([tmp_path], session)
    screen = TimelineScreen(session)
    assert "  1 line of traces skipped" in "".join(
        text
        for text, _ in title_words(
            screen.judged, 1, None, "", session.problems_within([session.traces[0].source])
        )
    )
    told = [problem.message for problem in session.problems]
    traces_of_paths([tmp_path], session)
    assert [problem.message for problem in session.problems] == told and len(told) == 2


async def test_the_timeline_says_that_lines_were_skipped(tmp_path: Path) -> None:
    path = tmp_path / "dfa_s1.jsonl"
    path.write_text(
        '{"epoch": 1, "test_acc": 0.4}\n{"epoch": 2, "test_acc": 61}\n{"epoch": 3, "test_acc": 0.5}\n'
    )
    session = Session([])
    session.traces = traces_of_paths([path], session)
    app = app_on(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, "T")
        assert "1 line of traces skipped" in screen_text(app)
        await pilot.press("P")
        await until(pilot, lambda: "61.0; accuracies" in " ".join(screen_text(app).split()))


async def test_a_run_that_would_have_been_stopped_has_a_line_there_on_every_chart(
    sample_runs: Path,
) -> None:
    app = app_on(Session((), traces=scan([sample_runs / "main"]).traces))
    async with app.run_test(size=(160, 48)) as pilot:
        screen = await opened(pilot, "T")
        assert "┊" not in screen_text(app), "bp is never stopped"
        screen.matrix.go_to(
            next(run for run, row in enumerate(screen.judged.rows) if row.method == "dfa")
        )
        await settled(pilot, screen)
        for chart in (each for each in screen.charts if each.display):
            x, y, width, height = chart.region
            lines = [line[x : x + width] for line in screen_text(app).splitlines()[y : y + height]]
            columns = {line.index("┊") for line in lines if "┊" in line}
            assert len(columns) == 1
        assert "stop" in screen_text(app)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_gamma_is_shown_per_layer_and_deep_on_its_null(
    sample_runs: Path, size: tuple[int, int]
) -> None:
    found = scan([sample_runs / "main" / f"{name}_s42" for name in ("bp", "dfa", "ep")])
    app = app_on(Session(found.rows, traces=found.traces))
    async with app.run_test(size=size) as pilot:
        screen = await _open(pilot, "down", "5")
        text = screen_text(app)
        assert "deep Γ  (12, 0.294)  null -0.041..0.043  ○ dfa s42" in text and "░ ░ ░" in text
        await pilot.press("6")
        await settled(pilot, screen)
        text = screen_text(app)
        # four layers are averaged: the null of one is twice as wide
        assert "Γ per layer  l=0..4  null -0.083..0.085  ○ dfa s42" in text and "░ ░ ░" in text
        chart = screen.charts[5].chart
        assert chart is not None and [curve.mark for curve in chart.curves] == [
            f"l={layer}" for layer in range(5)
        ]
        assert len({curve.style for curve in chart.curves}) == 5
        assert [curve.points[-1][1] for curve in chart.curves] == found.traces[1].epochs[-1].gamma
        assert all(f"l={layer}\n" in text for layer in (1, 3, 4))


async def test_a_null_that_is_not_known_and_a_gamma_without_layers_are_said(
    app: ExplorerApp,
) -> None:
    logged = replace(
        four_traces()[0], epochs=[TraceEpoch(epoch=epoch, gamma=[0.25]) for epoch in (1, 2)]
    )
    app = app_on(Session((), traces=[logged]))
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await _open(pilot, "5")
        assert "deep Γ  (2, 0.25)  null not known" in screen_text(app) and "░" not in screen_text(
            app
        )
        await pilot.press("6")
        await settled(pilot, screen)
        assert "Γ per layer  not recorded" in screen_text(app)


async def test_one_epoch_has_one_number_on_its_axis_and_what_is_not_recorded_is_said() -> None:
    alone = Trace(
        source="a.jsonl",
        key="bp_s1",
        method="bp",
        seed=1,
        epochs=[TraceEpoch(epoch=7, test_acc=0.5)],
    )
    app = app_on(Session((), traces=[alone]))
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, "T")
        text = screen_text(app)
        assert text.startswith(" timeline  1 run, epoch 7\n")
        (axis, *_) = [
            line for line in text.splitlines() if line.count("epoch") == 2 and "stop" not in line
        ]
        assert axis.split() == ["7", "epoch", "7", "epoch"]
        assert text.count("not recorded") == 3


def test_noise_of_an_accuracy_does_not_fill_its_axis_and_no_axis_goes_beyond_one() -> None:
    accuracy = SHOWN[3]
    calm = scale_of([0.6101, 0.6107], math.nan, accuracy)
    assert calm.hi - calm.lo > 0.0199
    assert scale_of([0.2, 1.0], math.nan, accuracy).hi == 1.0
    of_bp = scale_of([1.0 + 2e-15, 1.0 - 2e-15], math.nan, SHOWN[4])
    assert of_bp.hi == 1.0 and of_bp.hi - of_bp.lo > 0.0099


async def test_runs_without_a_trace_are_counted(published_table: Path) -> None:
    traces = [
        Trace(
            source="a",
            key="bp_s1",
            method="bp",
            seed=1,
            epochs=[TraceEpoch(epoch=1), TraceEpoch(epoch=2)],
        )
    ]
    app = app_on(Session(scan([published_table]).rows, traces=traces))
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, "T")
        text = screen_text(app)
        said = (
            "no trace of bp s42 of audit_table_s42_s123_s456.json, another run is shown  14 without"
        )
        assert said in text
        assert "1 run, epochs 1…2" in text and "bp s1 at epoch 2" in text


def test_a_run_is_said_to_be_at_an_epoch_that_it_has() -> None:
    short = trace("bp", 1, 1.01, epochs=4)
    late = replace(trace("dfa", 1, 1.5), epochs=trace("dfa", 1, 1.5).epochs[5::3])
    epochs = EpochSession(Replay([short, late]), DiagnosticThresholds())
    said = []
    for epoch in (4, 6, 7):
        epochs.go_to(epoch)
        said.append((epochs.when(0), epochs.when(1)))
    assert said == [
        ("at epoch 4", "before its first epoch, 6"),
        ("at its last epoch, 4", "at epoch 6"),
        ("at its last epoch, 4", "at its epoch 6"),
    ]


def test_runs_of_one_name_are_told_apart_by_what_differs() -> None:
    wide, narrow = (
        replace(trace("bp", 1, 1.01), key=f"d{d}", axes={"d": d, "L": 4}) for d in (128, 64)
    )
    epochs = EpochSession(Replay([wide, narrow, trace("dfa", 1, 1.5)]), DiagnosticThresholds())
    assert [epochs.name(run) for run in range(3)] == ["bp s1 d=128", "bp s1 d=64", "dfa s1"]


async def test_the_screen_says_what_is_by_proxy() -> None:
    records = [
        TraceEpoch(
            epoch=epoch,
            test_acc=0.36,
            residual_norms=[1.0, 2.0],
            bp_grad_norms=[1e-9],
            evidence={"b": "proxy"},
        )
        for epoch in (1, 2, 3)
    ]
    runs = [Trace(source="log.json", key="dfa_s1", method="dfa", seed=1, epochs=records)]
    app = app_on(Session([], traces=[*runs, trace("dfa", 2, 1.1, epochs=3)]))
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await _open(pilot)
        await until(pilot, lambda: "(b) 1 [proxy]" in screen_text(app))
        text = screen_text(app)
        assert "(b [proxy])" in text and "‖g_L‖ 1e-9 [proxy]" in text
        screen.matrix.go_to(1)
        await until(pilot, lambda: "[proxy]" not in screen_text(app))


def test_an_epoch_whose_stream_is_0_passes_no_growth() -> None:
    epochs = [TraceEpoch(epoch=n, residual_norms=[1.0, norm]) for n, norm in ((1, 1.0), (2, 0.0))]
    session = EpochSession(
        Replay([Trace(source="x", key="dfa_s1", method="dfa", epochs=epochs)]),
        DiagnosticThresholds(),
    )
    assert session.cell(0) == "?~···"
