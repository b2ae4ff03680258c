"""The explorer as a person has it: a real pseudo-terminal, keys and mouse in, a screen out."""

import os
import re
import signal
from pathlib import Path

import pytest

LEAVE_ALTERNATE_SCREEN = b"\x1b[?1049l"
MOUSE_OFF = b"\x1b[?1000l"


def line_with(terminal, text):
    """The first line of the screen that holds a text, and its number."""
    return next(
        (number, line) for number, line in enumerate(terminal.screen.display) if text in line
    )


def cells(terminal, method):
    """The verdict cells of a method's first line."""
    pattern = re.compile(rf"^ {method} +\S+(?: MIXED)? ")
    line = next(line for line in terminal.screen.display if pattern.match(line))
    return re.findall(r"[✓✗?][a-d~·-]{4}", line)


@pytest.fixture(scope="module")
def shared(open_shared_explorer, published_table):
    """One explorer on the published runs for tests that only walk and slide."""
    return open_shared_explorer(published_table)


@pytest.fixture
def terminal(shared):
    """The shared explorer, put back afterwards: slider (a) at its default, the cursor on the first run."""
    yield shared
    shared.press("a", "home", "escape", "home", "left", "left")


on_one_explorer = pytest.mark.xdist_group("one explorer")


@on_one_explorer
def test_the_matrix_shows_the_published_verdicts(terminal):
    assert "9 of 15 need walk-back" in terminal.text()
    assert cells(terminal, "dfa") == ["✗ab-d", "✗abcd", "✗ab-d"]
    assert cells(terminal, "ep") == ["✓---·"] * 3


@on_one_explorer
def test_walking_the_matrix_shows_each_run_and_loads_neither_torch_nor_numpy(terminal):
    terminal.press("down")
    assert "DFA  seed 42" in terminal.text()
    terminal.press("l", "j")
    assert "seed 123" in terminal.text()
    assert "STATE_BRIDGE" in terminal.text()
    terminal.press("a", "left")
    maps = Path(f"/proc/{terminal.process.pid}/maps").read_text()
    assert "/torch/" not in maps
    assert "/numpy/" not in maps


def test_dragging_slider_a_to_five_flips_ep_and_home_restores(open_explorer, published_table):
    terminal = open_explorer(published_table)
    terminal.press("a")
    row, track = line_with(terminal, "default 50×")
    knob, start = track.index("◆"), track.index("─")
    column = knob
    terminal.send(f"\x1b[<0;{knob + 1};{row + 1}M".encode())
    while "> 5×" not in terminal.text() and column > start:
        column -= 1
        terminal.send(f"\x1b[<32;{column + 1};{row + 1}M".encode())
    terminal.send(f"\x1b[<0;{column + 1};{row + 1}m".encode())
    assert "11 of 15 need walk-back" in terminal.text()
    assert cells(terminal, "ep") == ["✓---·", "✗a--·", "✗a--·"]
    assert "2/3 MIXED" in terminal.text()
    terminal.press("home")
    assert "9 of 15 need walk-back" in terminal.text()
    assert cells(terminal, "ep") == ["✓---·"] * 3


@pytest.mark.parametrize(
    "sizes", [[(60, 20), (20, 5), (40, 10), (160, 50)], [(20, 5), (40, 10), (40, 12)]]
)
def test_after_resizes_the_screen_is_that_of_the_last_size_and_keys_act(
    open_explorer, published_table, sizes
):
    columns, lines = sizes[-1]
    fresh = open_explorer(published_table, columns=columns, lines=lines)
    resized = open_explorer(published_table)
    for size in sizes:
        resized.resize(*size)
        resized.read(quiet=0.02, limit=0.04)
    for key in ("", "down", "t"):
        for each in (fresh, resized):
            _ = each.press(key, quiet=0.3) if key else each.read(quiet=0.3)
        assert resized.text() == fresh.text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_give_the_terminal_back(open_explorer, published_table, number):
    terminal = open_explorer(published_table)
    terminal.process.send_signal(number)
    burst = terminal.read(quiet=1.0, limit=10)
    assert LEAVE_ALTERNATE_SCREEN in burst.data
    assert MOUSE_OFF in burst.data
    assert terminal.process.wait(timeout=10) == 128 + number


def test_a_terminal_without_unicode_or_colour_stays_readable(open_explorer, published_table):
    terminal = open_explorer(
        published_table, env={"LC_ALL": "C", "TERM": "vt100", "COLORTERM": None, "NO_COLOR": "1"}
    )
    text = terminal.text()
    assert text.isascii()
    assert re.search(r"dfa +3/3 +!ab-d +!abcd", text)


@pytest.mark.slow
def test_measuring_real_checkpoints_while_the_slider_moves(open_explorer, three_runs):
    terminal = open_explorer(three_runs)
    assert "3 not measured" in terminal.text()
    terminal.press("*", "m")
    terminal.wait_for("measuring")
    terminal.press("a")
    for _ in range(5):
        assert len(terminal.press("left")) > 0
    terminal.wait_for("of 3 need walk-back", limit=120)
    assert all((run / "audit.json").is_file() for run in three_runs.iterdir())


@pytest.mark.slow
def test_killing_the_worker_fails_at_most_its_run_and_leaves_the_explorer_alive(
    open_explorer, three_runs
):
    terminal = open_explorer(three_runs)
    terminal.press("*", "m")
    terminal.wait_for("measuring")
    os.kill(_worker_of(terminal.process.pid), signal.SIGKILL)
    # runs that were only queued behind it are measured by the worker that takes its place
    terminal.wait_until(
        lambda: re.search(r"[23] of [23] need walk-back", terminal.text()), limit=120
    )
    assert len(list(three_runs.rglob("audit.json"))) >= 2
    terminal.press("J")
    terminal.wait_for("done")


def _worker_of(parent):
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    for task in Path(f"/proc/{parent}/task").iterdir():
        children += (task / "children").read_text().split()
    return next(
        int(child)
        for child in children
        if b"fa_core.audit.worker" in Path(f"/proc/{child}/cmdline").read_bytes()
    )


@pytest.fixture
def three_runs(tmp_path, sample_runs):
    """Three trained sample runs without their reports."""
    import shutil

    from fa_core.report.manifest import MANIFEST

    folder = tmp_path / "runs"
    runs = sorted(path.parent for path in (sample_runs / "controls").rglob(MANIFEST))[:3]
    for run in runs:
        shutil.copytree(run, folder / run.name, ignore=shutil.ignore_patterns("audit.json"))
    return folder
