"""Limits of time and memory for what a library makes of a file."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import current_thread, main_thread

from fa_core.errors import UnreadableInput
from fa_core.files.opening import SLACK, TIMES

SECONDS = 5.0
"""Processor time for any file; a megabyte allows a second more."""


@contextmanager
def limited(path: Path, size: int, doing: str, hint: str) -> Iterator[None]:
    """Stop what takes far more time or memory than a file accounts for: lists and tables in Python
    are no tensors. Under Linux, in the main thread; elsewhere nothing is limited.

    Args:
        path: the file.
        size: its bytes.
        doing: what it takes, e.g. ``"to build its network"``.
        hint: what to do about it.

    Raises:
        UnreadableInput: says which.
    """
    if sys.platform != "linux" or current_thread() is not main_thread():
        yield
        return
    import resource  # not on Windows

    seconds = SECONDS + size / 1e6
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    room = pages * resource.getpagesize() + TIMES * size + SLACK
    of_user = resource.getrlimit(resource.RLIMIT_DATA)

    def stop(*_: object) -> None:
        what = f"takes more than {seconds:.1f} s of a processor {doing}"
        raise UnreadableInput(what, where=path, hint=hint)

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    resource.setrlimit(resource.RLIMIT_DATA, (room, of_user[1]))
    try:
        yield
    except MemoryError:
        what = f"takes far more memory {doing} than its bytes account for"
        raise UnreadableInput(what, where=path, hint=hint) from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, of_user)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
