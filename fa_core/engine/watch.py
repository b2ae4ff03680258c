"""What a measuring function is given and gives back: the contract between a worker and what it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from fa_core.engine.jobs import Job
from fa_core.errors import MeasureError

DEFAULT_MEASURE = "fa_core.engine.measuring:measure"
"""What workers run unless they are told otherwise; they measure several at once with it (`fa_core.engine.together`)."""


class Cancelled(Exception):
    """The job that is being measured was cancelled."""


class DeviceFull(MeasureError):
    """The memory of a device is taken by other processes."""


class Watch(Protocol):
    """What a measuring function tells while it works."""

    def progress(self, done: int, total: int) -> None:
        """Batches measured so far.

        Raises:
            Cancelled: the job was cancelled; let it through.
        """

    def note(self, text: str) -> None:
        """Something the person should know about this run."""


Measure = Callable[[Job, str, Watch], dict[str, Any]]
"""(job, device, watch) → the report's dict. Raises FaError for what a person can understand."""


class Outlet(Protocol):
    """Where measuring of several jobs tells what happens to each."""

    def begin(self, jobs: Sequence[Job]) -> Watch:
        """Work on these begins; tells of all of them, and its `progress` raises `Cancelled` once all are cancelled."""

    def note(self, job: Job, text: str) -> None:
        """Something the person should know about one run."""

    def is_cancelled(self, job: Job) -> bool:
        """Whether nobody wants this one any more."""

    def done(self, job: Job, report: dict[str, Any]) -> None:
        """Its report."""

    def failed(self, job: Job, error: Exception) -> None:
        """Why there is none."""

    def stopped(self, job: Job) -> None:
        """It was cancelled."""


class Measurer(Protocol):
    """Measures several jobs; one per worker, so that it can keep what the next ones need."""

    def measure(self, jobs: Sequence[Job], ahead: Sequence[Job], outlet: Outlet, group: int | None = None) -> None:
        """Measure jobs and tell the outlet one outcome of each.

        Args:
            jobs: what to measure, in this order.
            ahead: what will probably come next.
            outlet: where to tell.
            group: how many networks at once; None = as many as is fastest.
        """
