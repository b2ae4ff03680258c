"""Measuring without torch, run in worker processes: what happens is in the checkpoint's name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from fa_core.engine.jobs import Job, Watch
from fa_core.errors import MeasureError


def measure(job: Job, device: str, watch: Watch) -> dict[str, Any]:
    """A report that fires (a); ``wait`` waits for a file ``go``, ``broken`` fails
    until there is one, ``killed`` dies of SIGKILL."""
    checkpoint = Path(job.checkpoint)
    watch.progress(1, 3)
    if "broken" in checkpoint.name and not (checkpoint.parent / "go").exists():
        raise MeasureError("the weights are empty", where=checkpoint)
    if "killed" in checkpoint.name:
        os.kill(os.getpid(), signal.SIGKILL)
    while "wait" in checkpoint.name and not (checkpoint.parent / "go").exists():
        watch.progress(1, 3)
        time.sleep(0.01)
    watch.progress(3, 3)
    return {
        "method_name": job.method,
        "residual_norms": [1.0, 100.0],
        "bp_grad_norms": [1e-3, 1e-3],
        "cross_batch_stability": 0.1,
    }
