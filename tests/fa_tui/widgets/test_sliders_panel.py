"""Four sliders as one."""

from fa_core.report.report_facts import DiagnosticThresholds
from fa_tui.session import History, Session
from fa_tui.widgets.sliders_panel import SlidersPanel
from tests.fa_tui import looks
from tests.fa_tui.waiting import until


class Stage(looks.Stage):
    """A panel, and the snapshot that its steps make."""

    def __init__(self):
        self.session = Session()
        self.history = History(self.session)
        self.panel = SlidersPanel(self.session, lambda: [""])
        super().__init__(self.panel)

    def step(self, now, series, *, is_drag):
        self.session = now
        self.panel.show(now)


async def test_a_moved_slider_changes_its_own_threshold_only():
    app = Stage()
    async with app.run_test() as pilot:
        app.panel.sliders["c"].focus()
        await pilot.press("right")
        await until(pilot, lambda: app.session.thresholds != DiagnosticThresholds())
    assert app.session.thresholds == DiagnosticThresholds(stability_drift_ceiling=0.31)


async def test_up_and_down_walk_the_sliders():
    app = Stage()
    async with app.run_test() as pilot:
        app.panel.sliders["a"].focus()
        await pilot.press("down", "j", "k")
        assert app.focused is app.panel.sliders["b"]
        for _ in range(9):
            app.panel.action_walk(1)
        assert app.focused is app.panel.sliders["d"]


async def test_a_tall_screen_gives_every_slider_two_rows_a_small_one_the_focused_one():
    app = Stage()
    async with app.run_test(size=(120, 40)) as pilot:
        app.panel.sliders["c"].focus()
        await pilot.pause()
        assert [app.panel.sliders[letter].size.height for letter in "abcd"] == [2, 2, 2, 2]
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert [app.panel.sliders[letter].size.height for letter in "abcd"] == [1, 1, 2, 1]


async def test_tracks_grow_to_hold_every_run():
    app = Stage()
    async with app.run_test() as pilot:
        slider = app.panel.sliders["a"]
        slider.set_runs([1.0, 3e7], [1.0, 3e7])
        slider.focus()
        await pilot.press("]")
        await until(pilot, lambda: app.session.thresholds.h_norm_explosion_ratio > 3e7)
        assert "›" not in slider.render_line(0).text
