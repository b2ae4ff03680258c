"""Small screens, dragged windows and dropped connections."""

import json
import signal
from pathlib import Path

import pytest

from tests.e2e.synthetic import unmeasured_runs


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
