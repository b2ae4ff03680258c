"""What the jobs screen shows: runs that are measured, commands that run, and how busy the machine is.

No terminal code: a source lists its jobs, and a thread looks at the machine.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

from fa_tui.jobs.pace import time_words
from fa_tui.views.text import Glyphs

if TYPE_CHECKING:
    from fa_core.engine.devices import Device, Usage

OVER = ("done", "failed", "cancelled")
"""States that do not change by themselves any more."""


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it is now.

    Attributes:
        id: unique in its explorer.
        name: the run, or the command.
        state: ``queued``, ``running``, ``done``, ``failed`` or ``cancelled``.
        device: where it runs or ran (``""`` = nowhere yet).
        done: steps done so far.
        total: steps there are (0 = not known yet).
        part: share [0, 1] of the next step that is done, where that is known.
        unit: what a step is: ``batch`` or ``epoch`` or ``run``.
        left: seconds until it is done, where there is a rate.
        took: seconds it ran, once it is over.
        words: the last thing it reported.
        error: why it failed, in one line.
        log: its log file.
        line: the command line that runs, where it is a command.
    """

    id: str
    name: str
    state: str
    device: str = ""
    done: int = 0
    total: int = 0
    part: float = 0.0
    unit: str = "batch"
    left: float | None = None
    took: float | None = None
    words: str = ""
    error: str = ""
    log: str = ""
    line: str = ""

    @property
    def over(self) -> bool:
        """Whether it is final until it is retried."""
        return self.state in OVER

    @property
    def can_retry(self) -> bool:
        """Whether it failed or was cancelled."""
        return self.state in ("failed", "cancelled")


def progress_line(jobs: Sequence[Listed]) -> list[tuple[str, str]]:
    """How far the jobs are, as pieces of one line; nothing once all are done and none failed."""
    states = Counter(job.state for job in jobs)
    pieces: list[tuple[str, str]] = []
    running = [job for job in jobs if job.state == "running"]
    if not running:
        # between two jobs: the next one is about to start, and the line keeps its shape
        running = [job for job in jobs if job.state == "queued"][:1]
    queued = states["queued"] - sum(job.state == "queued" for job in running)
    if running:
        first = running[0]
        doing = "measuring " if first.unit == "batch" else ""
        done = f"{first.done}/{first.total}" if first.total else "starting"
        pieces.append((f"{doing}{first.name} {done}", "accent"))
        if first.left is not None:
            pieces.append((f" {time_words(first.left)} left", "dim"))
        if len(running) > 1:
            pieces.append((f" and {len(running) - 1} more", "accent"))
    if queued:
        pieces.append((f", {queued} queued", "dim"))
    if pieces and states["done"]:
        pieces.append((f", {states['done']} done", "dim"))
    if states["failed"]:
        pieces.append((f"{', ' if pieces else ''}{states['failed']} failed (J)", "bad"))
    return pieces


_SECONDS = 1.0
_BAR = 10
_SIZES = ("B", "KiB", "MiB", "GiB")


class Machine(msgspec.Struct, frozen=True):
    """The machine as it is now.

    Attributes:
        devices: what can be measured on, the CPU last.
        no_gpu: why there is no CUDA device (``""`` if there is one).
        workers: what the workers use; None if none lives, or the system does not report it.
        gone: devices that were there before.
    """

    devices: list[Device]
    no_gpu: str = ""
    workers: Usage | None = None
    gone: tuple[str, ...] = ()


class MachineWatch(threading.Thread):
    """Looks at the machine until it is stopped.

    Args:
        report: called in this thread with what it saw.
        pids: the workers' processes.
    """

    def __init__(self, report: Callable[[Machine], object], pids: Callable[[], Collection[int]]) -> None:
        super().__init__(name="machine", daemon=True)
        self._report, self._pids = report, pids
        self._stopped = threading.Event()

    def run(self) -> None:
        from fa_core.engine.devices import UsageMeter, list_devices, why_no_cuda

        meter = UsageMeter()
        seen: dict[str, None] = {}
        while not self._stopped.is_set():
            devices = list_devices()
            here = [device.name for device in devices]
            seen.update(dict.fromkeys(here))
            gone = tuple(name for name in seen if name not in here)
            no_gpu = "" if len(here) > 1 else why_no_cuda()
            self._report(Machine(devices, no_gpu, meter.read(self._pids()), gone))
            self._stopped.wait(_SECONDS)

    def stop(self) -> None:
        """End it; it looks at most once more."""
        self._stopped.set()


def machine_lines(machine: Machine, glyphs: Glyphs) -> list[str]:
    """The machine in one line per device."""
    lines = [_device_line(device, glyphs) for device in machine.devices]
    if machine.no_gpu:
        lines[-1] += f"   {machine.no_gpu}"
    lines += [f"{name:<8} gone: it was there before; what ran on it has to be tried again" for name in machine.gone]
    used = machine.workers
    if used is not None:
        word = "process" if used.processes == 1 else "processes"
        load = "" if used.load is None else f"   {used.load:.1f} cores busy"
        lines.append(f"workers  {used.processes} {word}   {size_words(used.memory)}{load}")
    return lines


def _device_line(device: Device, glyphs: Glyphs) -> str:
    parts = [f"{device.name:<8} {device.label}"]
    if device.memory_used is not None and device.memory_total:
        bar = share_bar(device.memory_used / device.memory_total, _BAR, glyphs)
        parts.append(f"{bar} {size_words(device.memory_used)} of {size_words(device.memory_total)}")
    if device.load is not None:
        parts.append(f"{device.load:.0%} busy")
    return "   ".join(parts)


def share_bar(share: float, width: int, glyphs: Glyphs) -> str:
    """A bar filled to a share.

    >>> from fa_tui.views.text import ASCII
    >>> share_bar(0.5, 6, ASCII)
    '===---'
    """
    filled = round(width * min(1.0, max(0.0, share)))
    on, off = ("━", "─") if glyphs.braille else ("=", "-")
    return on * filled + off * (width - filled)


def size_words(size: float) -> str:
    """Bytes in the unit that reads best.

    >>> [size_words(size) for size in (512, 900 << 20, 139 << 30)]
    ['512 B', '900 MiB', '139 GiB']
    """
    unit = 0
    while size >= 1024 and unit < len(_SIZES) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.1f} {_SIZES[unit]}" if unit == 3 and size < 100 else f"{size:.0f} {_SIZES[unit]}"
