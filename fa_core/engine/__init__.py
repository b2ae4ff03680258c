"""Where measuring happens: jobs, worker processes, and the audit that hands out and collects.

A client (the command line, the explorer) imports no torch: it starts ``python -m fa_core.engine.worker``
once per device and exchanges JSON lines with it. Names load on first use: the command line looks up a `Placement` or
`MeasureOptions` long before it starts a worker, if ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fa_core import on_first_use

if TYPE_CHECKING:
    from fa_core.engine.devices import Placement
    from fa_core.engine.job_table import JobCancelled, JobFailed
    from fa_core.engine.jobs import Job, JobState, JobView, MeasureOptions
    from fa_core.engine.pool import WorkerPool

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

__getattr__ = on_first_use(
    __name__,
    {
        "Job": "jobs",
        "JobCancelled": "job_table",
        "JobFailed": "job_table",
        "JobState": "jobs",
        "JobView": "jobs",
        "MeasureOptions": "jobs",
        "Placement": "devices",
        "WorkerPool": "pool",
    },
)
