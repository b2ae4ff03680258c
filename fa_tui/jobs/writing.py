"""Reports and figures: each is written by `fa-tui report` in a process of its own.

The command writes every file whole or not at all, and prints their names.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from fa_core.files.children import start_python
from fa_tui.jobs.listing import Listed

WRITING = "writing"
"""What the ids of these jobs begin with, and what they do."""

_PATIENCE_SECONDS = 2.0


class Writing(threading.Thread):
    """A command that writes a report.

    Args:
        number: of the job.
        path: of the report.
        arguments: of the command.
        moved: called in this thread when the job is over.
        saved: called in this thread with the saved files.

    Attributes:
        id: unique in its explorer.
        state: ``running``, ``done``, ``failed`` or ``cancelled``.
        error: why it failed.
    """

    def __init__(
        self,
        number: int,
        path: Path,
        arguments: Sequence[str],
        *,
        moved: Callable[[], None],
        saved: Callable[[str], None],
    ) -> None:
        super().__init__(name=f"{WRITING} {path.name}", daemon=True)
        self.id = f"{WRITING} {number}"
        self.state, self.error = "running", ""
        self._path = path
        self._moved, self._saved = moved, saved
        self._process = start_python(
            "fa_tui",
            *arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            own_session=True,
        )

    def cancel(self) -> bool:
        """Stop it; False if it is over."""
        if self.state != "running":
            return False
        self.state = "cancelled"
        # as Ctrl+C, at which a command removes what it has half written
        self._process.send_signal(signal.SIGINT)
        return True

    def close(self) -> None:
        """Stop it, and wait for that."""
        if self.cancel():
            self.join(_PATIENCE_SECONDS)
            self._process.kill()

    def listed(self) -> Listed:
        """The job as the jobs screen shows it."""
        running = self.state == "running"
        words = ""
        if self.state == "done":
            words = f"saved in {self._path.parent}"
        elif not running:
            words = self.error or self.state
        return Listed(
            id=self.id,
            name=self._path.name,
            state=self.state,
            doing=WRITING,
            pid=self._process.pid if running else 0,
            words=words,
            error=self.error,
        )

    def run(self) -> None:
        printed, said = self._process.communicate()
        files = printed.decode(errors="replace").splitlines()
        wrong = said.decode(errors="replace").strip().splitlines()
        if self.state == "running" and files:
            self.state = "done"
            more = f" and {len(files) - 1} more" if len(files) > 1 else ""
            self._saved(f"saved {files[0]}{more}")
        elif self.state == "running":
            last = (wrong or [f"ended with code {self._process.returncode}"])[-1]
            self.state, self.error = "failed", last.removeprefix("fa-tui: ")
        self._moved()


class Writings:
    """All reports that one explorer writes.

    Args:
        moved: called whenever a job changed, also from another thread.
        saved: called from another thread with what is said of a saved report.
    """

    def __init__(self, moved: Callable[[], None], saved: Callable[[str], None]) -> None:
        self._moved, self._saved = moved, saved
        self._all: list[Writing] = []

    def start(self, path: Path, arguments: Sequence[str]) -> None:
        """Begin to write a report."""
        one = Writing(len(self._all) + 1, path, arguments, moved=self._moved, saved=self._saved)
        self._all.append(one)
        one.start()
        self._moved()

    def listed(self) -> list[Listed]:
        """All of them as jobs."""
        return [one.listed() for one in self._all]

    def cancel(self, job_id: str) -> bool:
        """Cancel one; False if it is over."""
        return any(one.cancel() for one in self._all if one.id == job_id)

    def close(self) -> None:
        """Stop all that run."""
        for one in self._all:
            one.close()
