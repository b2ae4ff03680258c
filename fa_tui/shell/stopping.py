"""A program told to end ends as by Ctrl-C: what it has finished is kept first."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_NUMBERS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Stopped(KeyboardInterrupt):
    """SIGTERM (a batch system's time limit) or SIGHUP (a lost connection) came.

    Attributes:
        exit_code: 128 + the signal's number, as a shell would say it.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number


class Stop:
    """How a command was stopped, if it was: by Ctrl-C unless a signal says otherwise."""

    exit_code = 130
    words = "interrupted"

    def take(self, number: int, frame: FrameType | None) -> None:
        """Stop once; both signals often come together, and the second must not stop the keeping.

        Raises:
            Stopped: always.
        """
        for each in _NUMBERS:
            signal.signal(each, signal.SIG_IGN)
        stopped = Stopped(number)
        self.exit_code, self.words = stopped.exit_code, str(stopped)
        raise stopped


@contextlib.contextmanager
def stoppable() -> Iterator[Stop]:
    """Within it, SIGTERM and SIGHUP come as a `Stopped`, unless they are ignored (nohup) or handled already."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    ours = [number for number in _NUMBERS if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, stop.take)
    try:
        yield stop
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
