"""Four sliders as one."""

from __future__ import annotations

from pathlib import Path

from textual.app import App, ComposeResult

from fa_core.report.thresholds import DiagnosticThresholds
from fa_tui import screens
from fa_tui.widgets.sliders_panel import SlidersPanel, ThresholdsChanged
from tests.fa_tui.waiting import until


class Stage(App[None]):
    """A panel, its messages kept."""

    CSS_PATH = Path(screens.__file__).with_name("screens.tcss")

    def __init__(self) -> None:
        super().__init__()
        self.panel = SlidersPanel()
        self.changes: list[DiagnosticThresholds] = []

    def compose(self) -> ComposeResult:
        yield self.panel

    def on_thresholds_changed(self, message: ThresholdsChanged) -> None:
        self.changes.append(message.thresholds)


async def test_a_moved_slider_changes_its_own_threshold_only() -> None:
    app = Stage()
    async with app.run_test() as pilot:
        app.panel.slider("c").focus()
        await pilot.press("right")
        await until(pilot, lambda: bool(app.changes))
    assert app.changes == [DiagnosticThresholds(stability_drift_ceiling=0.31)]


async def test_undo_and_redo_move_slider_and_thresholds() -> None:
    app = Stage()
    async with app.run_test() as pilot:
        app.panel.slider("d").focus()
        await pilot.press("right", "right")
        await until(pilot, lambda: app.panel.thresholds.frozen_acc_margin_pp == 2.2)
        await pilot.press("u")
        await until(pilot, lambda: app.panel.slider("d").value == 2.0)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: app.panel.slider("d").value == 2.2)
        await until(pilot, lambda: app.changes[-1].frozen_acc_margin_pp == 2.2)
    assert app.changes[-2:] == [
        DiagnosticThresholds(),
        DiagnosticThresholds(frozen_acc_margin_pp=2.2),
    ]


async def test_thresholds_set_from_outside_are_shown_and_not_posted() -> None:
    app = Stage()
    async with app.run_test() as pilot:
        app.panel.set_thresholds(DiagnosticThresholds(h_norm_explosion_ratio=12.0))
        assert app.panel.slider("a").value == 12.0
        app.panel.action_undo()
        await until(pilot, lambda: bool(app.changes))
    assert app.changes == [DiagnosticThresholds()]


async def test_up_and_down_walk_the_sliders() -> None:
    app = Stage()
    async with app.run_test() as pilot:
        app.panel.slider("a").focus()
        await pilot.press("down", "j", "k")
        assert app.focused is app.panel.slider("b")


async def test_a_burst_of_downs_walks_as_far_as_single_ones() -> None:
    app = Stage()
    async with app.run_test() as pilot:
        app.panel.slider("a").focus()
        await pilot.pause()
        for _ in range(9):
            app.panel.action_walk(1)
        assert app.focused is app.panel.slider("d")


async def test_a_small_screen_expands_only_the_focused_slider() -> None:
    app = Stage()
    async with app.run_test(size=(80, 24)) as pilot:
        app.panel.slider("c").focus()
        await pilot.pause()
        assert [app.panel.slider(letter).size.height for letter in "abcd"] == [1, 1, 2, 1]


async def test_a_tall_screen_gives_every_slider_two_rows_and_a_resize_is_followed() -> None:
    app = Stage()
    async with app.run_test(size=(120, 40)) as pilot:
        assert [app.panel.slider(letter).size.height for letter in "abcd"] == [2, 2, 2, 2]
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert sum(app.panel.slider(letter).size.height for letter in "abcd") == 5


async def test_tracks_grow_to_hold_every_run() -> None:
    app = Stage()
    async with app.run_test() as pilot:
        app.panel.set_runs("a", [1.0, 3e7])
        app.panel.slider("a").focus()
        await pilot.press("]")
        await until(pilot, lambda: app.panel.thresholds.h_norm_explosion_ratio > 3e7)
        assert "›" not in app.panel.slider("a").render_line(0).text


async def test_the_summary_appears_once_there_is_one() -> None:
    app = Stage()
    async with app.run_test(size=(100, 24)) as pilot:
        line = app.panel.query_one("#sliders-summary")
        assert not line.display
        app.panel.set_summary("9 of 15 need walk-back", "dfa s42")
        await pilot.pause()
        assert line.display
        shown = line.render_line(0).text
        assert shown.startswith(" 9 of 15 need walk-back  dfa s42   ")
        app.screen.set_focus(None)
        await until(pilot, lambda: "   walk-back: the claim must" in line.render_line(0).text)
        app.panel.slider("a").focus()
        await until(pilot, lambda: "dfa s42   track: ─ passes" in line.render_line(0).text)


async def test_the_count_of_walk_backs_is_never_cut() -> None:
    app = Stage()
    async with app.run_test(size=(60, 24)) as pilot:
        count = "9 of 15 need walk-back, 3 undecided, 2 not measured"
        app.panel.set_summary(count, "flipped at a > 6.1: " + "dfa s42 +a, " * 9)
        await pilot.pause()
        shown = app.panel.query_one("#sliders-summary").render_line(0).text
        assert shown.startswith(" 9 of 15 need walk-back  flipped at a > 6.1") and "…" in shown
