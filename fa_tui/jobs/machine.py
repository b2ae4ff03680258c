"""How busy the devices and the workers are, looked at again and again in a thread of its own. No terminal code."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import msgspec

from fa_tui.terminal.glyphs import Glyphs

if TYPE_CHECKING:
    from fa_core.engine.devices import Device, Usage

_SECONDS = 1.0
_BAR = 10
_SIZES = ("B", "KiB", "MiB", "GiB")


class Machine(msgspec.Struct, frozen=True):
    """The machine as it is now.

    Attributes:
        devices: what can be measured on, the CPU last.
        no_gpu: why there is no CUDA device (``""`` if there is one).
        workers: what the workers use; None if none lives, or nobody tells.
        gone: devices that were there before.
    """

    devices: list[Device]
    no_gpu: str = ""
    workers: Usage | None = None
    gone: tuple[str, ...] = ()


class MachineWatch(threading.Thread):
    """Looks until it is stopped.

    Args:
        tell: called in this thread with what it saw.
        pids: the workers' processes.
    """

    def __init__(self, tell: Callable[[Machine], object], pids: Callable[[], Collection[int]]) -> None:
        super().__init__(name="machine", daemon=True)
        self._tell, self._pids = tell, pids
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
            self._tell(Machine(devices, no_gpu, meter.read(self._pids()), gone))
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

    >>> from fa_tui.terminal.glyphs import ASCII
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
