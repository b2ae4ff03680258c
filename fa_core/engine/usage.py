"""What processes use of the machine, read from /proc where there is one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

_PROC = Path("/proc")


class Usage(msgspec.Struct, frozen=True):
    """What some processes and all that they started use together.

    Attributes:
        processes: how many there are.
        memory: resident bytes (shared pages count in each).
        load: CPU cores they kept busy since the last reading; None at the first.
    """

    processes: int
    memory: int
    load: float | None = None


class UsageMeter:
    """Reads what processes use; the load is that between two readings."""

    def __init__(self) -> None:
        self._before: dict[int, float] = {}
        self._at = 0.0

    def read(self, pids: Iterable[int]) -> Usage | None:
        """What these processes use now; None where the system does not tell, or none of them lives."""
        family = _family(set(pids))
        if not family:
            return None
        now = time.monotonic()
        ran = {pid: seconds for pid, (seconds, _) in family.items()}
        known = ran.keys() & self._before.keys()
        spent = sum(ran[pid] - self._before[pid] for pid in known)
        load = spent / (now - self._at) if known and now > self._at else None
        self._before, self._at = ran, now
        return Usage(len(family), sum(memory for _, memory in family.values()), load)


def _family(pids: set[int]) -> dict[int, tuple[float, int]]:
    """The processes and their descendants: CPU seconds and resident bytes of each."""
    found, parents = {}, {}
    for entry in _entries():
        stat = _stat(entry)
        if stat is not None:
            parent, seconds, memory = stat
            parents[int(entry.name)] = parent
            found[int(entry.name)] = (seconds, memory)
    return {pid: found[pid] for pid in found if _descends(pid, pids, parents)}


def _entries() -> list[Path]:
    try:
        return [entry for entry in _PROC.iterdir() if entry.name.isdigit()]
    except OSError:
        return []


def _stat(entry: Path) -> tuple[int, float, int] | None:
    """Parent, CPU seconds and resident bytes of a process; None if it is gone."""
    try:
        # the name, in brackets, may hold anything
        fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
        ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
        return int(fields[1]), (int(fields[11]) + int(fields[12])) / ticks, int(fields[21]) * page
    except (OSError, ValueError, IndexError):
        return None


def _descends(pid: int, ancestors: set[int], parents: dict[int, int]) -> bool:
    seen: set[int] = set()
    while pid in parents and pid not in seen:
        if pid in ancestors:
            return True
        seen.add(pid)
        pid = parents[pid]
    return False
