"""Progress and remaining time of jobs, and the load of the machine. No terminal code."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from fa_tui.views.glyphs import Glyphs

if TYPE_CHECKING:
    from fa_core.audit.devices import Device
    from fa_core.audit.jobs import JobView


class Pace:
    """Timing of a job: rate, remaining time, and duration.

    Args:
        clock: monotonic seconds; replaced in tests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first: tuple[float, float] | None = None
        self._last = (0.0, 0.0)
        self._began: float | None = None
        self.took: float | None = None

    def turn(self, *, running: bool) -> None:
        """Note whether it runs now; `took` is None while it runs, and before its first run."""
        if running and (self._began is None or self.took is not None):
            self._began, self.took = self._clock(), None
        elif not running and self._began is not None and self.took is None:
            self.took = self._clock() - self._began

    def note(self, done: float) -> None:
        """Note the steps done, with a fraction of the next one; fewer than before means a
        restart."""
        if self._first is None or done < self._last[0]:
            self._first = self._last = (done, self._clock())
        elif done > self._last[0]:
            self._last = (done, self._clock())

    def seconds_left(self, total: int) -> float | None:
        """Remaining seconds; None before two different counts, and once they are over though
        nothing more was done.

        The rate excludes the time before the first count (loading data, starting torch).
        """
        if self.rate is None:
            return None
        last, at = self._last
        left = (total - last) / self.rate - (self._clock() - at)
        if left < 0:
            return None
        return left

    @property
    def rate(self) -> float | None:
        """Steps per second; None before two different counts."""
        if self._first is None or self._last[0] <= self._first[0]:
            return None
        (first, began), (last, at) = self._first, self._last
        return (last - first) / max(at - began, 1e-9)

    def timed(self, job: Listed) -> Listed:
        """The job with its duration so far; while it runs also with remaining time and rate."""
        if job.state != "running":
            return msgspec.structs.replace(job, took=self.took if job.over else None)
        if self._began is None or self.took is not None:
            lasts = None
        else:
            lasts = self._clock() - self._began
        if job.total:
            left = self.seconds_left(job.total)
        else:
            left = None
        return msgspec.structs.replace(job, took=lasts, left=left, rate=self.rate)


def time_words(seconds: float) -> str:
    """A time as short text.

    >>> [time_words(seconds) for seconds in (0.2, 42, 200, 7500, 200_000)]
    ['<1 s', '42 s', '3 min', '2 h 05', '2 d 7 h']
    """
    if seconds < 1:
        return "<1 s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02}"
    return f"{hours // 24} d {hours % 24} h"


def times_of(job: Listed) -> str:
    """How long a job still takes, took, or has run so far; ``""`` before it starts.

    >>> times_of(Listed(id="1", name="x", state="running", took=0.2))
    ''
    >>> times_of(Listed(id="1", name="x", state="running", took=42.0))
    'for 42 s'
    >>> times_of(Listed(id="1", name="x", state="running", took=42.0, left=200.0))
    '3 min left'
    """
    if job.left is not None:
        return f"{time_words(job.left)} left"
    if job.took is None or (job.took < 1 and not job.over):
        return ""
    if job.over:
        return f"in {time_words(job.took)}"
    return f"for {time_words(job.took)}"


def rate_words(rate: float | None) -> str:
    """A rate in steps per second, or per minute if slow.

    >>> rate_words(12.34), rate_words(0.05), rate_words(None)
    ('12.3/s', '3/min', '')
    """
    if rate is None:
        return ""
    if rate >= 1:
        return f"{rate:.3g}/s"
    return f"{60 * rate:.3g}/min"


OVER = ("done", "failed", "cancelled")
"""Final states."""


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A job's current state.

    Attributes:
        id: unique in its explorer.
        name: name of the run.
        doing: what is done: ``measuring`` or ``writing``.
        state: ``queued``, ``running``, ``done``, ``failed`` or ``cancelled``.
        device: its device (``""`` = none yet).
        done: steps done so far.
        total: all steps (0 = not known yet).
        left: remaining seconds, if known.
        took: its duration in seconds; so far, if the remaining time is unknown.
        rate: steps per second, if known.
        pid: process of its worker on this machine.
        silent: seconds since that process's last message, once it counts as hung.
        words: its last note.
        error: its one-line error.
        log: its log file.
        elsewhere: whether another process works on the run, which this explorer did not start.
    """

    id: str
    name: str
    state: str
    doing: str = "measuring"
    device: str = ""
    done: int = 0
    total: int = 0
    left: float | None = None
    took: float | None = None
    rate: float | None = None
    pid: int = 0
    silent: int = 0
    words: str = ""
    error: str = ""
    log: str = ""
    elsewhere: bool = False

    @property
    def over(self) -> bool:
        """Whether it is final."""
        return self.state in OVER

    @property
    def says(self) -> str:
        """A note on its silent process, else its last note."""
        if self.silent:
            return silence_words(self)
        return self.words

    @property
    def can_retry(self) -> bool:
        """Whether it is a measurement of this explorer that failed or was cancelled."""
        mine = self.doing == "measuring" and not self.elsewhere
        return mine and self.state in ("failed", "cancelled")


def silence_words(job: JobView | Listed) -> str:
    """The note on a silent worker.

    >>> silence_words(Listed(id="1", name="x", state="running", device="cpu", pid=71, silent=40))
    'worker 71 on cpu: no word for 40 s'
    """
    return f"worker {job.pid} on {job.device}: no word for {time_words(job.silent)}"


def progress_line(jobs: Sequence[Listed]) -> list[tuple[str, str]]:
    """How far the jobs are, as pieces of one line; nothing once all are done and none failed."""
    jobs = [job for job in jobs if not job.elsewhere]
    states = Counter(job.state for job in jobs)
    pieces: list[tuple[str, str]] = []
    running = [job for job in jobs if job.state == "running"]
    queued = [job for job in jobs if job.state == "queued"]
    if not running:
        # between two jobs the line keeps its shape
        running, queued = queued[:1], queued[1:]
    if running:
        first = running[0]
        done = f"{first.done}/{first.total}" if first.total else "starting"
        pieces.append((f"{first.doing} {first.name} {done}", "accent"))
        if first.left is not None:
            pieces.append((f" {time_words(first.left)} left", "dim"))
        if len(running) > 1:
            pieces.append((f" and {len(running) - 1} more", "accent"))
    silent = {job.pid: job for job in jobs if job.silent}
    pieces.extend((f", {silence_words(job)}", "warn") for job in silent.values())
    if queued:
        pieces.append((f", {len(queued)} queued", "dim"))
    if pieces and states["done"]:
        pieces.append((f", {states['done']} done", "dim"))
    if states["failed"]:
        pieces.append((f"{', ' if pieces else ''}{states['failed']} failed (J)", "bad"))
    return pieces


_SECONDS = 1.0
_BAR = 10
_HISTORY_SECONDS = 180
_HISTORY_CELLS = 18
"""Of the sparkline of a device's load: a cell for ten seconds."""


class Machine(msgspec.Struct, frozen=True):
    """The current load of the machine.

    Attributes:
        devices: usable devices, the CPU last.
        no_gpu: why there is no CUDA device (``""`` if there is one).
        loads: device → its load at every look of the last minutes, the latest last.
    """

    devices: list[Device]
    no_gpu: str = ""
    loads: Mapping[str, Sequence[float]] = {}


class MachineWatch(threading.Thread):
    """Looks at the machine every second until it is stopped.

    Attributes:
        report: called in this thread with what it saw, if anything is.
    """

    def __init__(self) -> None:
        super().__init__(name="machine", daemon=True)
        self.report: Callable[[Machine], object] | None = None
        self._stopped = threading.Event()
        self._loads: defaultdict[str, deque[float]] = defaultdict(
            lambda: deque(maxlen=round(_HISTORY_SECONDS / _SECONDS))
        )

    def run(self) -> None:
        from fa_core.audit.devices import list_devices, why_no_cuda

        while not self._stopped.is_set():
            devices = list_devices()
            if len(devices) > 1:
                no_gpu = ""
            else:
                no_gpu = why_no_cuda()
            for device in devices:
                if device.load is not None:
                    self._loads[device.name].append(device.load)
            loads = {name: tuple(history) for name, history in self._loads.items()}
            report = self.report
            if report is not None:
                report(Machine(devices, no_gpu, loads))
            self._stopped.wait(_SECONDS)

    def stop(self) -> None:
        """Stop it; at most one more sample follows."""
        self._stopped.set()


def machine_lines(machine: Machine, glyphs: Glyphs, jobs: Sequence[Listed] = ()) -> list[str]:
    """The machine in one line per device: memory, load, and the jobs that run on it.

    Args:
        machine: as it was seen last.
        glyphs: characters to draw with.
        jobs: all jobs.
    """
    lines = []
    for device in machine.devices:
        parts = [f"{device.name:<8} {device.label}"]
        if device.memory_used is not None and device.memory_total:
            bar = "".join(share_bar(device.memory_used / device.memory_total, _BAR, glyphs))
            parts.append(
                f"{bar} {size_words(device.memory_used)} of {size_words(device.memory_total)}"
            )
        if device.load is not None:
            history = load_line(machine.loads.get(device.name, ()), glyphs)
            parts.append(f"{device.load:.0%} busy {history}".rstrip())
        on_it = [job.name for job in jobs if job.state == "running" and job.device == device.name]
        if on_it:
            parts.append(f"{glyphs.running} {on_it[0]}")
        if len(on_it) > 1:
            parts.append(f"and {len(on_it) - 1} more")
        lines.append("   ".join(parts))
    lines[-1] += f"   {machine.no_gpu}" if machine.no_gpu else ""
    return lines


def load_line(loads: Sequence[float], glyphs: Glyphs) -> str:
    """The load of the last minutes as a sparkline, the latest at its end.

    >>> from fa_tui.views.glyphs import UNICODE
    >>> load_line([0.0] * 10 + [1.0] * 10, UNICODE)
    '▁█'
    """
    each = round(_HISTORY_SECONDS / _SECONDS / _HISTORY_CELLS)
    groups = [loads[start : start + each] for start in range(len(loads) % each, len(loads), each)]
    return "".join(glyphs.bar(min(1.0, sum(group) / len(group))) for group in groups)


def share_bar(share: float, width: int, glyphs: Glyphs) -> tuple[str, str]:
    """A bar filled to a share: filled part and rest.

    >>> from fa_tui.views.glyphs import ASCII
    >>> share_bar(0.5, 6, ASCII)
    ('===', '---')
    """
    filled = round(width * min(1.0, max(0.0, share)))
    on, off = ("━", "─") if glyphs.braille else ("=", "-")
    return on * filled, off * (width - filled)


def size_words(size: float) -> str:
    """Bytes in a readable unit.

    >>> [size_words(size) for size in (512, 900 << 20, 139 << 30)]
    ['512 B', '900 MiB', '139 GiB']
    """
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    if size < 100:
        return f"{size:.1f} GiB"
    return f"{size:.0f} GiB"
