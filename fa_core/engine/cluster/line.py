"""The conversation with the driver process: started, connected within a limit, listened to until it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import msgspec

from fa_core.engine import messages
from fa_core.engine.cluster import wire
from fa_core.engine.cluster.address import check_address, no_answer, no_entry
from fa_core.engine.job_table import JobFailed
from fa_core.engine.process import ChildProcess, environment
from fa_core.errors import FaError, MeasureError

REACH = 8.5
"""Seconds within which the head of a cluster must have answered: a driver that waits longer waits for minutes."""

LEAST_REACH = 4.0
"""Seconds of them that are left to the driver, however long the address took to accept a connection."""

RAY_SETTINGS = {
    # `uv run` would have every node install the folder the person started in
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}

START = 60.0
"""Seconds that starting Ray on this machine may take."""

JOIN = 20.0
"""Seconds that joining a cluster that answers may take: 1 or 2, 7 on a machine that is very busy."""


class Line(threading.Thread):
    """A thread that serves one driver process.

    Args:
        address: see `Placement`.
        arguments: further arguments of the driver.
        log: the driver's log file.
        on_message: told what the driver says from the moment it is connected.
        on_end: told why the conversation ended, also when it never began.

    Attributes:
        connected: done once jobs can be sent; or the error.
    """

    def __init__(
        self,
        address: str | None,
        arguments: list[str],
        log: Path,
        on_message: Callable[[wire.FromDriver], None],
        on_end: Callable[[FaError], None],
    ) -> None:
        super().__init__(name="ray-driver", daemon=True)
        self._address, self._arguments, self._log = address, arguments, log
        self._on_message, self._on_end = on_message, on_end
        self._lock = threading.Lock()
        self._process: ChildProcess | None = None
        self._hung_up = self._too_late = False
        self._reached: wire.Reached | None = None
        self._limit: threading.Timer | None = None
        self.connected: Future[None] = Future()

    @property
    def pid(self) -> int | None:
        """The driver, if it lives."""
        with self._lock:
            return self._process.pid if self._process is not None and self._process.alive else None

    def run(self) -> None:
        begun = time.monotonic()
        try:
            check_address(self._address)
            error = self._converse(max(LEAST_REACH, begun + REACH - time.monotonic()))
        except FaError as refused:
            error = refused
        except OSError as cause:
            error = MeasureError(f"Ray's driver could not be started ({cause.strerror})")
        except (ValueError, msgspec.ValidationError) as cause:
            error = MeasureError(f"Ray's driver sent what is no message ({cause})", hint=f"log: {self._log}")
        self._allow(None)
        if self._process is not None:
            self._process.kill()
            self._process.close(0)
        if not self.connected.done():
            self.connected.set_exception(error)
        self._on_end(error)

    def send(self, message: messages.ToWorker) -> None:
        """Hand a message over; nobody hears it when the driver is gone, of which `on_end` tells."""
        with self._lock:
            process = self._process
        if process is not None:
            process.write(messages.encode(message))

    def close(self, grace: float) -> None:
        """Hang up, and see to it that the driver ends."""
        with self._lock:
            self._hung_up = True
            process = self._process
        if process is not None:
            process.hang_up()
            # nobody is waited for who only waits for an answer; Ray that was started here must be ended with care
            waits = self._address is not None and not self.connected.done()
            self._allow(0.0 if waits else grace)

    def _converse(self, reach: float) -> FaError:
        arguments = ["fa_core.engine.cluster.driver", "--cwd", str(Path.cwd()), *self._arguments]
        if self._address is not None:
            arguments += ["--address", self._address]
        with self._lock:
            if self._hung_up:
                return JobFailed("cancelled")
            self._process = process = ChildProcess(
                arguments, log=self._log, environment={**environment(None), **RAY_SETTINGS}
            )
        self._allow(reach)
        while (line := process.read()) is not None:
            match wire.from_driver(line):
                case messages.Ready():
                    pass
                case wire.Reached(address=address) as message:
                    self._reached = message
                    self._allow(JOIN if address else START)
                case wire.Connected() as message:
                    self._allow(None)
                    self._on_message(message)
                    self.connected.set_result(None)
                case wire.Refused(what=what, where=where, hint=hint):
                    return MeasureError(what, where=where, hint=hint)
                case message:
                    self._on_message(message)
        return self._obituary(process)

    def _obituary(self, process: ChildProcess) -> FaError:
        if self._too_late:
            if self._reached is None:
                return no_answer(self._address)
            return no_entry(self._reached.address, JOIN if self._reached.address else START)
        cause, words = process.cause_of_death(), process.last_words()
        said = f"its last words: {words}; " if words else ""
        return MeasureError(
            f"the connection to the Ray cluster is lost: its driver {cause}", hint=f"{said}log: {self._log}"
        )

    def _allow(self, seconds: float | None) -> None:
        """From now on the driver has this long; None = as long as it likes."""
        with self._lock:
            if self._limit is not None:
                self._limit.cancel()
            self._limit = None
            if seconds is not None:
                self._limit = threading.Timer(seconds, self._expire)
                self._limit.daemon = True
                self._limit.start()

    def _expire(self) -> None:
        with self._lock:
            self._too_late = True
            if self._process is not None:
                self._process.kill()
