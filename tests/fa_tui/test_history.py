"""Undo and redo: a list of snapshots."""

from fa_core.report.report_facts import DiagnosticThresholds
from fa_tui.session import History, Session


class Steps(History):
    """A history of thresholds of (a)."""

    def __init__(self):
        super().__init__(Session())

    def step(self, ratio, series, at, *, is_drag=False):
        thresholds = DiagnosticThresholds(h_norm_explosion_ratio=ratio)
        self.record(self.now.but(thresholds=thresholds), series, at, is_drag=is_drag)

    def back(self):
        return self.travel("undo").thresholds.h_norm_explosion_ratio

    def on(self):
        return self.travel("redo").thresholds.h_norm_explosion_ratio


def test_a_held_key_is_one_change_and_a_pause_ends_it():
    history = Steps()
    for tick in range(10):
        history.step(51 + tick, "a", at=0.03 * tick)
    history.step(100, "a", at=5.0)
    assert [history.back(), history.back()] == [60, 50]


def test_a_drag_is_one_change_with_its_pauses_and_counts_flips_from_its_beginning():
    history = Steps()
    history.step(51, "a drag 1", at=0.0, is_drag=True)
    history.step(52, "a drag 1", at=5.0, is_drag=True)
    assert history.now.since.thresholds == DiagnosticThresholds()
    assert history.back() == 50


def test_another_slider_and_what_is_no_series_are_changes_of_their_own():
    history = Steps()
    history.step(60, None, at=0.0)
    history.step(70, None, at=0.1)
    history.step(71, "a step", at=0.2)
    history.step(72, "a step", at=0.3)
    history.step(73, "b step", at=0.3)
    assert [history.back() for _ in range(4)] == [72, 70, 60, 50]


def test_a_new_change_drops_what_was_undone_and_at_the_ends_nothing_happens():
    history = Steps()
    assert (history.back(), history.on()) == (50, 50)
    history.step(60, "a", at=0.0)
    history.back()
    history.step(70, "a", at=0.1)
    assert (history.on(), history.back()) == (70, 50)


def test_undo_leaves_what_was_read_and_marked_since_and_no_flips():
    history = Steps()
    history.step(60, "a", at=0.0)
    history.now = history.now.but(marked=frozenset([1]))
    history.back()
    assert history.now.marked == {1} and not history.now.flips
