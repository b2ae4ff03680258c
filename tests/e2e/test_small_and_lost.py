"""Small screens, dragged windows and dropped connections."""

import json
import re
import signal
from pathlib import Path

import pytest

from tests.e2e.synthetic import PUBLISHED, unmeasured_runs

ASCII_ONLY = {"LC_ALL": "C", "TERM": "vt100", "COLORTERM": None, "NO_COLOR": "1"}


def test_eighty_by_twenty_four_keeps_matrix_verdict_and_the_slider_in_use_on_screen(
    open_explorer,
):
    terminal = open_explorer(PUBLISHED, columns=80, lines=24, env=ASCII_ONLY)
    names = ("growth per block", "fires < 1e-7", "drift", "margin")
    for letter, name in zip("abcd", names, strict=True):
        terminal.press(letter)
        text = terminal.text()
        assert re.search(r"dfa +3/3 +\S?[✗!]ab-d", text), "the matrix"
        assert "trustworthy on a, b, c" in text, "the verdict"
        assert "9 of 15 need walk-back" in text
        assert name in text, "the slider"
    assert terminal.text().isascii()


@pytest.mark.parametrize("lost", ["the connection", "the explorer"])
def test_what_is_lost_leaves_finished_runs_on_disk_and_no_process_behind(
    open_explorer, tmp_path, lost
):
    terminal = open_explorer(unmeasured_runs(tmp_path / "runs", 64), ready="64 not measured")
    terminal.press("*", "m")
    terminal.wait_until(lambda: any(tmp_path.rglob("audit.json")))
    workers = _workers(terminal.process.pid)
    assert workers
    if lost == "the connection":
        terminal.hang_up()
    else:
        terminal.process.send_signal(signal.SIGKILL)
    assert terminal.process.wait(timeout=30) != 0
    terminal.wait_until(lambda: not any(map(_is_worker, workers)))
    audits = list(tmp_path.rglob("audit.json"))
    assert audits
    assert all("cross_batch_stability" in json.loads(audit.read_bytes()) for audit in audits)


def _workers(explorer):
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if _is_worker(pid) and _parent(pid) == explorer]


def _is_worker(pid):
    try:
        return b"fa_core.audit" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
