"""When memory runs out: smaller passes, the same numbers."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TypeVar

import torch

from fa_core.errors import MeasureError
from fa_core.measure.out_of_memory import is_out_of_memory as is_out_of_memory

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
