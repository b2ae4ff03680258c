"""Commands that were started from the explorer: processes of their own, which may outlive it. No terminal code."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from fa_tui.jobs.form import Planned, shell_line
from fa_tui.jobs.listing import PROGRESS_FILE, Listed, Pace, read_progress

_LOOK_SECONDS = 0.25

OnChange = Callable[[Listed], None]


class Launch(threading.Thread):
    """One command in a process of its own, looked at until it ends.

    It runs in its own session, so that Ctrl-C and a closed terminal reach only the explorer, and writes to
    a log, so that it never paints over the screen.

    Args:
        job_id: unique in its explorer.
        planned: what to run.
        log: the file for its stdout and stderr.
        on_change: called in this thread on every change.
    """

    def __init__(self, job_id: str, planned: Planned, log: Path, on_change: OnChange) -> None:
        super().__init__(name=f"launch-{job_id}", daemon=True)
        self.planned, self._on_change = planned, on_change
        self._pace, self._cancelled, self.left_alone = Pace(), False, threading.Event()
        self._progress = log.with_suffix(".progress")
        self._progress.unlink(missing_ok=True)
        words = [sys.executable, "-m", "fa_tui", *planned.words]
        env, nothing = {**_environment(), PROGRESS_FILE: str(self._progress)}, subprocess.DEVNULL
        with log.open("wb") as sink:
            self._popen = subprocess.Popen(
                words, stdin=nothing, stdout=sink, stderr=sink, env=env, start_new_session=True
            )
        self._pace.turn(running=True)
        self._listed = Listed(
            id=job_id,
            name=_name(planned),
            state="running",
            device=planned.device,
            unit="epoch" if planned.runs else "run",
            pid=self._popen.pid,
            words="starting",
            log=str(log),
            line=shell_line(planned.words),
        )

    @property
    def listed(self) -> Listed:
        """How far it is, with the time left as of now."""
        return self._pace.timed(self._listed)

    def run(self) -> None:
        while self._popen.poll() is None:
            self._look()
            if self.left_alone.wait(_LOOK_SECONDS):
                return
        self._look()
        self._progress.unlink(missing_ok=True)
        self._report(self._ended(self._popen.returncode))

    def cancel(self) -> None:
        """Interrupt it, so that it leaves what is whole; at the second time, end it at once."""
        with contextlib.suppress(ProcessLookupError):
            if self._cancelled:
                os.killpg(self._popen.pid, signal.SIGKILL)
            else:
                self._popen.send_signal(signal.SIGINT)
        self._cancelled = True
        self._report(replace(self._listed, words="stopping; x again ends it at once"))

    def _look(self) -> None:
        reached = read_progress(self._progress)
        if reached is not None:
            self._pace.note(reached.done)
            words = self._listed.words if self._cancelled else reached.words
            done, part = int(reached.done), reached.done % 1
            self._report(replace(self._listed, done=done, part=part, total=reached.total, words=words))

    def _ended(self, code: int) -> Listed:
        self._pace.turn(running=False)
        seen = replace(self._listed, pid=0)
        if code == 0:
            return replace(seen, state="done", done=seen.total, part=0.0)
        if self._cancelled:
            return replace(seen, state="cancelled", words="stopped; r goes on from the last complete epoch or run")
        error = _cause(Path(seen.log), code)
        return replace(seen, state="failed", error=error, words=error)

    def _report(self, listed: Listed) -> None:
        if listed != self._listed:
            self._listed = listed
            self._on_change(self.listed)


class Launches:
    """The commands of one explorer.

    Args:
        on_change: called with a command's line on every change, from threads of theirs.
    """

    def __init__(self, on_change: OnChange) -> None:
        self._on_change = on_change
        self._numbers = itertools.count(1)
        self._launches: dict[str, Launch] = {}
        self._folder: Path | None = None

    def start(self, planned: Planned) -> str:
        """Start a command; its id."""
        if planned.runs:
            planned.out.mkdir(parents=True, exist_ok=True)
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="fa-tui-"))
        number = next(self._numbers)
        return self._begin(f"command {number}", planned, self._folder / f"{planned.words[0]}-{number}.log")

    def listed(self) -> list[Listed]:
        """Every command as the jobs screen lists it."""
        return [launch.listed for launch in self._launches.values()]

    def cancel(self, job_id: str) -> bool:
        """Interrupt a command; False if it is over or not one of these."""
        launch = self._launches.get(job_id)
        if launch is None or launch.listed.over:
            return False
        launch.cancel()
        return True

    def retry(self, job_id: str) -> None:
        """Go on with a command that failed or was stopped: finished runs and epochs stay."""
        launch = self._launches[job_id]
        words = [word for word in launch.planned.words if word not in ("--overwrite", "--resume")]
        self._begin(job_id, replace(launch.planned, words=[*words, "--resume"]), Path(launch.listed.log))

    def pids(self) -> list[int]:
        """The processes that run."""
        return [job.pid for job in self.listed() if not job.over]

    def close(self, *, stop: bool = False) -> list[str]:
        """Look at them no more.

        Args:
            stop: interrupt those that run, rather than leave them running.

        Returns:
            The line, the process and the log of each that goes on.
        """
        going_on = [launch for launch in self._launches.values() if not launch.listed.over]
        for launch in going_on:
            launch.left_alone.set()
            if stop:
                launch.cancel()
        if self._folder is not None and all(job.state in ("done", "cancelled") for job in self.listed()):
            shutil.rmtree(self._folder, ignore_errors=True)
        jobs = [] if stop else [launch.listed for launch in going_on]
        return [f"{job.line} goes on: process {job.pid}, log {job.log}" for job in jobs]

    def _begin(self, job_id: str, planned: Planned, log: Path) -> str:
        launch = Launch(job_id, planned, log, self._on_change)
        self._launches[job_id] = launch
        self._on_change(launch.listed)
        launch.start()
        return job_id


def _name(planned: Planned) -> str:
    if not planned.runs:
        return f"audit {planned.out.name}"
    more = f" +{len(planned.runs) - 1}" if len(planned.runs) > 1 else ""
    return f"train {planned.runs[0].name}{more}"


def _environment() -> dict[str, str]:
    """The user's environment; no colours in the log, and no file of the current folder taken for a library."""
    environment = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "TTY_COMPATIBLE")}
    return {**environment, "NO_COLOR": "1", "PYTHONSAFEPATH": "1"}


def _cause(log: Path, code: int) -> str:
    """Why a command failed: what it said last, else how it ended."""
    from fa_core.engine.messages import log_tail

    lines = log_tail(log)
    said = next((line.removeprefix("fa-tui: ") for line in reversed(lines) if line.startswith("fa-tui: ")), "")
    if said:
        return said
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return lines[-1] if lines else f"exited with status {code}"
