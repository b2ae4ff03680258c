"""Out-of-memory handling: halved passes, checks against free memory, and the error messages."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch

from fa_core.audit.jobs import DeviceFull, stamp
from fa_core.errors import FaError, MeasureError
from fa_core.files.opening import free_ram
from fa_core.measure.passes import is_out_of_memory

FULL_OF_OTHERS = 0.5
"""Share of a device's memory from which other processes are blamed for a lack of it."""

ANOTHER_DEVICE = "or choose another one with --device"

T = TypeVar("T")


def halve_until_fits(run: Callable[[int], T], size: int, note: Callable[[str], None]) -> T:
    """Run with passes of ``size`` samples, and halve them until they fit into memory.

    The numbers are the same for every size.

    Args:
        run: takes the largest number of samples per pass.
        size: the first try.
        note: called at each halving.

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
                what = "out of memory, even with one sample at a time"
                raise MeasureError(what, hint=f"free the device, {ANOTHER_DEVICE}") from error
        # outside the except clause, whose exception keeps the failed pass alive
        size = (size + 1) // 2
        release()
        note(f"out of memory: batch halved to passes of {size} samples (the numbers stay the same)")


def release() -> None:
    """Free unreferenced memory, of CUDA's allocator too."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def free_memory(device: str) -> int:
    """Bytes that this process can allocate on a device; for a CPU, the system's estimate."""
    if device.startswith("cuda"):
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + cached
    return free_ram()


def check_fits(path: Path, device: str) -> None:
    """Refuse a checkpoint that is larger than free memory, before it is read.

    Args:
        path: the checkpoint, read into RAM.
        device: where its network goes.

    Raises:
        MeasureError: it does not fit; the message has both sizes.
    """
    size = sum(size for size, _ in stamp(path))
    for place in dict.fromkeys(("cpu", device)):
        free = free_memory(place)
        if size > free:
            raise MeasureError(
                f"is larger than memory: {_gigabytes(size)}, and {_gigabytes(free)} are free "
                f"on {place}",
                where=path,
                hint="free memory, or measure it on a larger machine",
            )


def does_not_fit(where: str, device: str) -> FaError:
    """The error for a network or samples that do not fit on the device."""
    what = f"out of memory: the network or the samples do not fit on {device}"
    hint = f"free the device, {ANOTHER_DEVICE}"
    if not device.startswith("cuda"):
        return MeasureError(what, where=where, hint=hint)
    free, total = torch.cuda.mem_get_info(device)
    others = total - free - torch.cuda.memory_reserved(device)
    what += f", other processes hold {_gigabytes(others)} of its {_gigabytes(total)}"
    if others >= FULL_OF_OTHERS * total:
        return DeviceFull(what, where=where, hint=hint)
    return MeasureError(what, where=where, hint=hint)


@contextmanager
def memory_for(where: Path | str, device: str) -> Iterator[None]:
    """Within, a lack of memory is one line: `does_not_fit`, or the error itself if it is one line
    already and other processes are not at fault."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        release()
        full = does_not_fit(str(where), device)
        if isinstance(error, FaError) and not isinstance(full, DeviceFull):
            raise
        raise full from error


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.3g} GB"
