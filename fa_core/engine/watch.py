"""What a measuring function is given and gives back: the contract between a worker and what it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from fa_core.engine.jobs import Job

DEFAULT_MEASURE = "fa_core.engine.measuring:measure"
"""What workers run unless they are told otherwise."""


class Cancelled(Exception):
    """The job that is being measured was cancelled."""


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
