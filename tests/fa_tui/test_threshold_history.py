"""Undo and redo."""

from __future__ import annotations

from fa_core.report.thresholds import DiagnosticThresholds
from fa_tui.threshold_history import ThresholdHistory


def at(ratio: float) -> DiagnosticThresholds:
    return DiagnosticThresholds(h_norm_explosion_ratio=ratio)


def test_a_held_key_is_one_change_and_a_pause_ends_it() -> None:
    history = ThresholdHistory(at(50))
    for tick in range(10):
        history.record(at(51 + tick), "a", at=0.03 * tick)
    history.record(at(100), "a", at=5.0)
    assert history.undo() == at(60)
    assert history.undo() == at(50)


def test_two_presses_half_a_second_apart_are_two_changes() -> None:
    history = ThresholdHistory(at(50))
    history.record(at(51), "a", at=0.0)
    history.record(at(52), "a", at=0.5)
    history.record(at(53), "a", at=0.7)
    assert [history.undo(), history.undo(), history.undo()] == [at(52), at(51), at(50)]


def test_a_drag_is_one_change_with_its_pauses() -> None:
    history = ThresholdHistory(at(50))
    history.record(at(51), "a drag 1", at=0.0, is_drag=True)
    history.record(at(52), "a drag 1", at=5.0, is_drag=True)
    assert history.undo() == at(50)


def test_another_slider_is_another_change() -> None:
    history = ThresholdHistory(at(50))
    history.record(at(60), "a", at=0.0)
    history.record(at(70), "b", at=0.1)
    assert history.undo() == at(60)


def test_what_is_no_series_is_a_change_of_its_own() -> None:
    history = ThresholdHistory(at(50))
    history.record(at(60), None, at=0.0)
    history.record(at(70), None, at=0.1)
    history.record(at(71), "a step", at=0.2)
    history.record(at(72), "a step", at=0.3)
    assert [history.undo(), history.undo(), history.undo()] == [at(70), at(60), at(50)]


def test_a_new_change_drops_what_was_undone() -> None:
    history = ThresholdHistory(at(50))
    history.record(at(60), "a", at=0.0)
    history.undo()
    history.record(at(70), "a", at=0.1)
    assert history.redo() == at(70)
    assert history.undo() == at(50)


def test_at_the_ends_nothing_happens() -> None:
    history = ThresholdHistory(at(50))
    assert history.undo() == at(50)
    assert history.redo() == at(50)
