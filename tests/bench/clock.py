"""Seconds of a call: the wall's on a GPU, processor time of one thread on a CPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Clock:
    """Seconds of one call.

    Attributes:
        device: waited for before and after.
        processor: this process's processor time instead of the wall's: steady on a busy machine, with one thread.
    """

    device: str
    processor: bool = False

    def seconds(self, run: Callable[[], object]) -> float:
        read = time.process_time if self.processor else time.perf_counter
        self._wait()
        start = read()
        run()
        self._wait()
        return read() - start

    def _wait(self) -> None:
        if self.device.startswith("cuda"):
            torch.cuda.synchronize()


def clock_for(device: str) -> Clock:
    """On a CPU processor time, and one thread from now on; both are steady on a machine that others use, too."""
    cuda = device.startswith("cuda")
    if not cuda:
        torch.set_num_threads(1)
    return Clock(device, processor=not cuda)
