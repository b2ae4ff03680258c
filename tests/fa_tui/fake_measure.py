"""Measuring without torch, run in worker processes: what happens is in the checkpoint's name."""

from __future__ import annotations

import functools
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fa_core.engine.jobs import Job, Watch
from fa_core.errors import MeasureError


def measured(job: Job, device: str, watch: Watch) -> dict[str, Any]:
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


class measure:  # noqa: N801
    """Measures the jobs of a worker with `measured`, one by one."""

    def __init__(self, device: str) -> None:
        self.device = device

    def measure(self, jobs: Sequence[Job], outlet: Any, group: int | None = None) -> None:
        for job in jobs:
            report = functools.partial(self.report, job, outlet)
            outlet.finish(job, report, lambda job, error: error)

    def report(self, job: Job, outlet: Any) -> dict[str, Any]:
        return measured(job, self.device, outlet.begin([job]))
