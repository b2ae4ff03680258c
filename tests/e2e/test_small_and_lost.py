"""Small screens, dragged windows and dropped connections."""

import json
import signal
from pathlib import Path

import pytest

from tests.e2e.synthetic import PUBLISHED, unmeasured_runs


def test_a_storm_of_sixty_resizes_ends_on_the_right_screen_for_the_bytes_of_a_few(
    open_explorer,
):
    terminal, fresh = open_explorer(PUBLISHED), open_explorer(PUBLISHED, columns=90, lines=26)
    terminal.resize(100, 30)
    one = len(terminal.read(quiet=0.5))
    before = len(terminal.sent)
    for step in range(60):
        terminal.resize(100 + step % 40, 30 + step % 20)
        terminal.read(quiet=0.008, limit=0.008)
    terminal.resize(90, 26)
    terminal.read(quiet=0.7)
    assert terminal.text() == fresh.text()
    assert len(terminal.sent) - before <= 20 * one


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
