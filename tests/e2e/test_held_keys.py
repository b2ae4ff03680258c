"""Keys held down, on fast and on slow lines: frames are merged, never queued."""

import re
import statistics

import pytest

from tests.e2e.synthetic import PUBLISHED, SAMPLE_RUNS

STEP_BUDGET = 800
SCREEN_BUDGET = 15_000
SLOW_LINE = 3000
MODEM_QUEUE = 2 * SLOW_LINE
"""What may still come after the last key on a slow line: the frame under way and one of the many steps since."""
THERE_AND_BACK = ["left"] * 20 + ["right"] * 40 + ["left"] * 20


def growth_threshold(terminal):
    """The threshold that slider (a) shows."""
    shown = re.search(r"a growth per block.* > (\S+)×", terminal.text())
    return shown[1] if shown else ""


def test_a_slider_held_for_five_seconds_stops_with_the_key(open_explorer, ten_thousand):
    terminal = open_explorer(ten_thousand)
    terminal.press("a")
    sizes = [len(terminal.press(key)) for key in ["left"] * 10 + ["right"] * 10]
    assert 0 < statistics.median(sizes) <= STEP_BUDGET
    keys = THERE_AND_BACK * 4
    held = terminal.hold(keys[:-2], per_second=60, until=lambda: growth_threshold(terminal) == "63")
    assert growth_threshold(terminal) == "63"
    # a busy machine is late by some frames; a queue of all the others would be longer than what came in time
    assert len(held.after) <= held.during
    assert held.during + len(held.after) <= len(keys) * STEP_BUDGET


@pytest.mark.parametrize(
    ("sync", "answers"), [(True, True), (False, False)], ids=["synchronized, answers", "neither"]
)
def test_on_a_slow_line_a_held_slider_leaves_no_queue_of_stale_frames(
    open_explorer, ten_thousand, sync, answers
):
    terminal = open_explorer(ten_thousand, sync=sync, answers=answers)
    terminal.press("a", quiet=1.2)
    terminal.slow_down(SLOW_LINE)
    keys = THERE_AND_BACK[:-2]
    held = terminal.hold(
        keys, per_second=60, quiet=1.6, until=lambda: growth_threshold(terminal) == "63"
    )
    assert growth_threshold(terminal) == "63"
    assert 0 < len(held.after) <= MODEM_QUEUE


def test_a_burst_of_keys_arrives_whole_and_is_painted_a_few_times_only(open_explorer):
    terminal = open_explorer(PUBLISHED)
    terminal.press("a")
    burst = terminal.press(*["right"] * 40, quiet=0.5)
    assert growth_threshold(terminal) == "5000"
    assert len(burst) <= 10 * STEP_BUDGET


def test_what_opens_and_closes_is_painted_once_and_in_fifteen_kilobytes(
    open_explorer,
):
    terminal = open_explorer(SAMPLE_RUNS)
    for key in ("?", "C", "A", "T", "J", "P", "t"):
        for pressed in (key, "escape"):
            assert len(terminal.press(pressed, quiet=0.5)) <= SCREEN_BUDGET, key


def test_quitting_over_a_slow_line_leaves_no_answer_to_the_shell(open_explorer):
    terminal = open_explorer(PUBLISHED)
    terminal.press("a")
    terminal.slow_down(SLOW_LINE)
    terminal.hold(["right"] * 20)
    farewell = terminal.press("left", "q", quiet=1.5)
    assert terminal.process.wait(10) == 0
    assert farewell.data.rfind(b"\x1b[6n") < farewell.data.rfind(b"\x1b[?1049l")
