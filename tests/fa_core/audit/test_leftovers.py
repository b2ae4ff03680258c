"""What is left of a client that was killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fa_core.audit.worker import MEASURE

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")

ROOT = Path(__file__).parents[3]
ENGINE = Path(__file__).parent

CLIENT = """
import sys, time
from pathlib import Path
from fa_core.audit.jobs import Job
from fa_core.audit.pool import Pool
say = lambda view: print(view.state.value, view.pid, flush=True)
from fa_core.formats.run_folder import ProgressFiles
ProgressFiles().begin(Path(sys.argv[1]), "measuring")
pool = Pool(["cpu"], say)
pool.submit(Job(id="0", checkpoint=sys.argv[1]))
time.sleep(600)
"""


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("fault", ["stuck", "endless"])
def test_a_killed_client_leaves_no_worker_no_folder_and_no_progress(tmp_path, fault):
    temporary, checkpoint = tmp_path / "temporary", tmp_path / fault
    temporary.mkdir()
    checkpoint.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(checkpoint)],
        stdout=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "TMPDIR": str(temporary),
            MEASURE: "faults:measure",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ENGINE)]),
        },
    ) as client:
        line = next(line for line in client.stdout if line.startswith("running "))
        assert len(list(temporary.glob("fa-tui-*"))) == 1
        worker = int(line.split()[1])
        client.send_signal(signal.SIGKILL)
    for _ in range(600):
        if gone(worker) and not list(temporary.iterdir()):
            break
        time.sleep(0.05)
    assert gone(worker)
    assert list(temporary.iterdir()) == []
    assert list(checkpoint.iterdir()) == []
