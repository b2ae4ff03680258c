"""Where measuring happens: jobs, worker processes, and the audit that hands out and collects.

A client (the command line, the explorer) imports no torch: it starts ``python -m fa_core.engine.worker``
once per device and speaks JSON lines with it. Names load on first use: the command line looks up a `Placement` or
`MeasureOptions` long before it starts a worker, if ever.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fa_core.engine.board import JobCancelled, JobFailed
    from fa_core.engine.jobs import Job, JobState, JobView, MeasureOptions
    from fa_core.engine.placement import Placement
    from fa_core.engine.worker_pool import WorkerPool

__all__ = [
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobState",
    "JobView",
    "MeasureOptions",
    "Placement",
    "WorkerPool",
]

_HOMES = {
    "Job": "jobs",
    "JobCancelled": "board",
    "JobFailed": "board",
    "JobState": "jobs",
    "JobView": "jobs",
    "MeasureOptions": "jobs",
    "Placement": "placement",
    "WorkerPool": "worker_pool",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
