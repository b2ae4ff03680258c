"""When memory runs out: smaller passes, the same numbers.

How much memory there is for a checkpoint, asked before it is read.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch

from fa_core.engine.jobs import DeviceFull
from fa_core.errors import FaError, MeasureError, UnreadableInput
from fa_core.measure.fused import is_out_of_memory

T = TypeVar("T")


def halving(run: Callable[[int], T], size: int, note: Callable[[str], None]) -> T:
    """Run with passes of ``size`` samples, then of half as many, until it fits into memory.

    Args:
        run: takes the most samples that a pass may hold.
        size: the first try.
        note: told each time it is halved.

    Raises:
        MeasureError: one sample is too much.
    """
    while True:
        try:
            return run(size)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            if size <= 1:
                raise MeasureError(
                    "out of memory, even with one sample at a time",
                    hint="free the device, or choose another one with --device",
                ) from error
        # outside the except clause, whose exception keeps the failed pass alive
        size = (size + 1) // 2
        release()
        note(f"out of memory: batch halved to passes of {size} samples (the numbers stay the same)")


def release() -> None:
    """Give back what nothing refers to any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


GROUP_SHARE = 0.7
"""Part of a device's free memory that a group may plan with; the rest is for what nobody can estimate."""

FULL_OF_OTHERS = 0.5
"""A device of which other processes hold this part and more counts as theirs."""


def free_memory(device: str) -> int | None:
    """Bytes that this process can still get on a device; None where nobody tells."""
    if device.startswith("cuda"):
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + cached
    return _free_ram()


def check_room(path: Path, device: str) -> None:
    """Refuse a checkpoint that is larger than the memory it has to go through and into, before it is read.

    Raises:
        MeasureError: says both sizes.
        UnreadableInput: no such file.
    """
    try:
        size = path.stat().st_size
    except OSError as error:
        raise UnreadableInput(f"cannot be read ({error.strerror})", where=path) from error
    for place in dict.fromkeys(("cpu", device)):
        free = free_memory(place)
        if free is not None and size > free:
            raise MeasureError(
                f"is larger than memory: {_gigabytes(size)}, and {_gigabytes(free)} are free on {place}",
                where=path,
                hint="free memory, or measure it on a larger machine",
            )


def group_size(bytes_per_member: int, device: str) -> int:
    """How many networks fit into a device's free memory at once, at least 1."""
    free = free_memory(device) or 0
    return max(1, int(free * GROUP_SHARE) // max(1, bytes_per_member))


def does_not_fit(where: str, device: str) -> FaError:
    """What to say when memory ran out before the first pass, while the network or the samples were put there."""
    what, hint = f"out of memory: the network or the samples do not fit on {device}", "free the device"
    if not device.startswith("cuda"):
        return MeasureError(what, where=where, hint=f"{hint}, or choose another one with --device")
    free, total = torch.cuda.mem_get_info(device)
    others = total - free - torch.cuda.memory_reserved(device)
    kind = DeviceFull if others >= FULL_OF_OTHERS * total else MeasureError
    held = f", other processes hold {_gigabytes(others)} of its {_gigabytes(total)}"
    return kind(what + held, where=where, hint=f"{hint}, or choose another one with --device")


def _free_ram() -> int | None:
    """Bytes of RAM for a new process' use: what the kernel estimates, within the limit of a container."""
    known = [_meminfo("MemAvailable"), _number(Path("/sys/fs/cgroup/memory.max"))]
    found = [size for size in known if size is not None]
    if found:
        return min(found)
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _meminfo(name: str) -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:")), None)


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.3g} GB"
