"""What tells a file from what it was: size, times and inode."""

from __future__ import annotations

import os
from typing import TypeAlias

Stamp: TypeAlias = tuple[int, int, int, int]
"""Size, time of the last change of content and of anything, inode (times in ns)."""

SETTLED_NS = 2_000_000_000
"""A file changed twice within this time may bear one stamp: the coarsest file systems count in 2 s."""


def stamp_of(status: os.stat_result) -> Stamp:
    """A file's stamp."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def stamp_at(path: str) -> Stamp | None:
    """The stamp of the file at a path; None if there is none, or none to be seen."""
    try:
        return stamp_of(os.stat(path))  # noqa: PTH116 (twenty thousand times)
    except (OSError, ValueError):
        return None


def is_settled(stamp: Stamp, seen_ns: int) -> bool:
    """Whether every change since then gives the file another stamp.

    Args:
        stamp: the file's.
        seen_ns: when it was looked at (`time.time_ns`).
    """
    return max(stamp[1], stamp[2]) + SETTLED_NS < seen_ns
