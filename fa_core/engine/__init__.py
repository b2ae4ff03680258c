"""Where measuring happens: jobs, worker processes, and the audit that hands out and collects.

A client (the command line, the explorer) imports no torch: it starts ``python -m fa_core.engine.worker``
once per device and speaks JSON lines with it.
"""

from fa_core.engine.jobs import Job, JobState, JobView, MeasureOptions
from fa_core.engine.pool import JobCancelled, JobFailed, WorkerPool

__all__ = [
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobState",
    "JobView",
    "MeasureOptions",
    "WorkerPool",
]
