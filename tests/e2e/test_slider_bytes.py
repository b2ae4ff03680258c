"""What a slider sends down the line, seen from a real pseudo-terminal."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator

import pytest

from tests.e2e.terminal import PseudoTerminal

EXPLORER = [sys.executable, "-m", "tests.bench.mock_explorer"]
STEP_BUDGET = 800
FOCUS_BUDGET = 2500


@pytest.fixture
def terminal() -> Iterator[PseudoTerminal]:
    with PseudoTerminal(EXPLORER) as terminal:
        terminal.wait_for("need walk-back")
        terminal.read(quiet=0.3)
        yield terminal


def test_a_slider_step_stays_within_its_bytes_also_where_verdicts_flip(terminal: PseudoTerminal) -> None:
    sent = [len(terminal.press(key)) for key in ("[", "[", "left", "left", "right", "]", "]", "]", "]", "home")]
    assert 0 < statistics.median(sent) <= STEP_BUDGET


def test_moving_the_focus_does_not_repaint_the_screen(terminal: PseudoTerminal) -> None:
    assert 0 < len(terminal.press("down")) <= FOCUS_BUDGET


def test_a_burst_of_keys_arrives_whole_and_is_painted_a_few_times_only(terminal: PseudoTerminal) -> None:
    burst = terminal.press(*["right"] * 60, quiet=0.5)
    assert "> 50000×" in terminal.text()
    assert len(burst) <= 10 * STEP_BUDGET


def test_after_many_partial_paints_the_screen_equals_a_fresh_one(terminal: PseudoTerminal) -> None:
    terminal.press(*["]", "down", "left", "down", "shift+right", "up", "[", "tab"], quiet=0.4)
    partial = terminal.text()
    terminal.resize(121, 40)
    terminal.read(quiet=0.4)
    terminal.resize(120, 40)
    terminal.screen.reset()
    terminal.read(quiet=0.6)
    assert terminal.text() == partial


def test_a_typed_threshold_is_on_screen(terminal: PseudoTerminal) -> None:
    terminal.press("1", "2", "enter")
    assert "> 12×" in terminal.text()
    assert "9 of 15 need walk-back" in terminal.text()


def test_on_a_slow_line_a_held_key_leaves_little_behind_and_quitting_leaves_no_answer_to_the_shell() -> None:
    with PseudoTerminal(EXPLORER, answers=True) as terminal:
        terminal.wait_for("need walk-back")
        terminal.press("]", "down", "up", "home")
        terminal.slow_down(3000)
        for _ in range(40):
            terminal.press("right", quiet=0.02, limit=0.03)
        late = terminal.read(quiet=0.6)
        assert "> 5000×" in terminal.text()
        assert len(late) <= 3 * STEP_BUDGET
        farewell = terminal.press("left", "q", quiet=1.5)
        assert terminal.process.wait(10) == 0
        asked, alternate_screen_left = farewell.data.rfind(b"\x1b[6n"), farewell.data.rfind(b"\x1b[?1049l")
        assert asked < alternate_screen_left
