"""The explorer as a person has it: a real pseudo-terminal, keys and mouse in, a screen out."""

import os
import re
import signal
from pathlib import Path

import pytest

LEAVE_ALTERNATE_SCREEN = b"\x1b[?1049l"
MOUSE_OFF = b"\x1b[?1000l"


def test_walking_the_matrix_shows_each_run_and_loads_neither_torch_nor_numpy(
    open_explorer, published_table
):
    terminal = open_explorer(published_table)
    terminal.press("down")
    assert "DFA  seed 42" in terminal.text()
    terminal.press("l", "j")
    assert "seed 123" in terminal.text()
    assert "STATE_BRIDGE" in terminal.text()
    terminal.press("a", "left")
    maps = Path(f"/proc/{terminal.process.pid}/maps").read_text()
    assert "site-packages/torch/" not in maps
    assert "/numpy/" not in maps


def test_after_resizes_the_screen_is_that_of_the_last_size_and_keys_act(
    open_explorer, published_table
):
    sizes = [(60, 20), (160, 50), (20, 5), (40, 10)]
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


@pytest.mark.parametrize("name", ["TERM", "USR1", "XCPU", "ALRM"])
def test_a_signal_gives_the_terminal_back(open_explorer, published_table, name):
    number = signal.Signals[f"SIG{name}"]
    terminal = open_explorer(published_table)
    terminal.process.send_signal(number)
    burst = terminal.read(quiet=1.0, limit=10)
    assert LEAVE_ALTERNATE_SCREEN in burst.data
    assert MOUSE_OFF in burst.data
    assert terminal.process.wait(timeout=10) == 128 + number


@pytest.mark.slow
def test_killing_the_worker_fails_at_most_its_run_and_leaves_the_explorer_alive(
    open_explorer, three_runs
):
    terminal = open_explorer(three_runs)
    terminal.press("*", "m")
    terminal.wait_for("measuring")
    os.kill(_worker_of(terminal.process.pid), signal.SIGKILL)
    # runs that were only queued behind it are measured by the worker that takes its place
    terminal.wait_until(lambda: re.search(r"of [23] need walk-back", terminal.text()), limit=120)
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
