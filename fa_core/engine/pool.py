"""What every pool is: a board of jobs, a thread that tells what happens to them, and a folder for logs."""

from __future__ import annotations

import queue
import shutil
import tempfile
import threading
from abc import ABC, abstractmethod
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from fa_core.engine.board import JobBoard, OnEvent
from fa_core.engine.jobs import Job, JobState, JobView
from fa_core.report import DiagnosticReport

Self = TypeVar("Self", bound="Pool")


class Pool(ABC):
    """Jobs in, reports out. Measuring is a subclass's business.

    Args:
        on_event: called with a job's view whenever it changes, in order, from one thread of the pool's own.
        log_dir: where those who measure log; None = a temporary folder, kept at `close` only if a job failed.
    """

    def __init__(self, on_event: OnEvent | None, log_dir: Path | None) -> None:
        self._keep_logs = log_dir is not None
        self.log_dir = Path(tempfile.mkdtemp(prefix="fa-tui-")) if log_dir is None else log_dir
        self._events: queue.SimpleQueue[JobView | None] = queue.SimpleQueue()
        self._teller = threading.Thread(target=self._tell, args=(on_event,), name="events", daemon=True)
        self._teller.start()
        self._board = JobBoard(self._events.put)

    @abstractmethod
    def connect(self) -> None:
        """Reach now whatever the first job would have to reach.

        Raises:
            FaError: nobody there can measure.
        """

    def submit(self, job: Job) -> Future[DiagnosticReport]:
        """Put a job at the end of the queue.

        Returns:
            A future of the report. It raises `JobFailed`, or `JobCancelled` if cancelled while it ran.

        Raises:
            ValueError: a job of that id is queued or runs.
        """
        return self._board.add(job)

    def retry(self, job_id: str) -> Future[DiagnosticReport]:
        """Submit a job again that is over."""
        return self.submit(self._board.view(job_id).job)

    @abstractmethod
    def cancel(self, job_id: str) -> bool:
        """Cancel a job; False if it is over."""

    def move(self, job_id: str, position: int) -> bool:
        """Put a queued job at this place of the queue (0 = next); False if it is not queued."""
        return self._board.move(job_id, position)

    def jobs(self) -> list[JobView]:
        """Every job: those that were given to somebody who measures, as submitted, then the queue in its order."""
        return self._board.views()

    @abstractmethod
    def pids(self) -> list[int]:
        """The processes of this machine that work for it."""

    def close(self) -> None:
        """Cancel everything that is not over, end those who measure, tell the last events."""
        self._end()
        self._events.put(None)
        if threading.current_thread() is not self._teller:
            self._teller.join()
        if not self._keep_logs and not any(view.state is JobState.FAILED for view in self.jobs()):
            shutil.rmtree(self.log_dir, ignore_errors=True)

    @abstractmethod
    def _end(self) -> None:
        """Close the board, and end those who measure."""

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tell(self, on_event: OnEvent | None) -> None:
        while (view := self._events.get()) is not None:
            if on_event is not None:
                on_event(view)
