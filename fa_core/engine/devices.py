"""What processes use of the machine, read from /proc where there is one.

The devices of this machine and how busy they are, without importing torch.

CUDA devices are asked of NVML; whether torch could use them is read from its version file. MPS is a matter of which
machine and system this is.

Where runs are measured and how many at a time, as one value.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from fa_core.errors import UsageError, missing_package
from fa_core.naming import unknown_name

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


RUNS_PER_WORKER = 8
"""Runs that repay starting another worker on a CPU."""

MOST_CPU_WORKERS = 8
"""Each holds torch and the data set: some hundred MB."""

MPS_SINCE = (12, 3)
"""macOS from which torch can use the GPU of an Apple machine."""


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A device and its state now.

    Attributes:
        name: as torch calls it, e.g. ``"cuda:0"``.
        label: what it is, e.g. ``"NVIDIA H200"``.
        memory_used: bytes in use by anybody; None where nobody tells.
        memory_total: bytes there are; None where nobody tells.
        load: share of time it was busy lately, in [0, 1]; None where nobody tells.
    """

    name: str
    label: str
    memory_used: int | None = None
    memory_total: int | None = None
    load: float | None = None


def list_devices() -> list[Device]:
    """Every device torch could measure on, the CPU last."""
    mps = [Device(name="mps", label="Apple GPU")] if _has_mps() else []
    return [*_cuda_devices(), *mps, _cpu()]


def why_no_cuda() -> str:
    """Why there is no CUDA device here, in words; ``""`` if there is one."""
    if not _torch_has_cuda():
        return "no GPU: this torch is built without CUDA"
    with _nvml() as nvml:
        if nvml is None:
            return "no GPU: no NVIDIA driver answers"
        return "" if _visible(nvml) else "no GPU: the driver shows none (CUDA_VISIBLE_DEVICES may hide it)"


def resolve_devices(spec: str = "auto", jobs: int | None = None) -> list[str]:
    """Which workers to start: one device name per worker.

    Args:
        spec: ``auto`` (every CUDA device, else the CPU), ``cuda`` or ``cuda:all`` (every CUDA device),
            ``cuda:1``, ``cpu``, ``mps``, or several of these with commas.
        jobs: how many workers; None = one per device. More workers than devices share them in turn.

    Raises:
        UsageError: an unknown device, one that is not there, or fewer than one job.
    """
    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs {jobs}", hint="give at least 1")
    names: list[str] = []
    for part in (part.strip().lower() for part in spec.split(",") if part.strip()):
        names.extend(name for name in _named(part) if name not in names)
    if not names:
        raise UsageError(f"--device {spec!r} names no device", hint=_known())
    count = len(names) if jobs is None else jobs
    return [names[worker % len(names)] for worker in range(count)]


def workers_for(runs: int, spec: str = "auto", jobs: int | None = None) -> list[str]:
    """`resolve_devices`, no more workers than runs; on a CPU alone, one worker per `RUNS_PER_WORKER` runs.

    Networks of this field are small: two workers of one thread measure many of them in half the time of one
    worker of two threads, but each takes seconds to start and holds the data.
    """
    devices = resolve_devices(spec, jobs)
    if jobs is None and devices == ["cpu"]:
        devices *= max(1, min(usable_cores(), MOST_CPU_WORKERS, runs // RUNS_PER_WORKER))
    return devices[:runs]


def threads_per_worker(devices: Sequence[str]) -> int | None:
    """CPU threads for each worker: the cores shared out; None = all of them for the only one."""
    return None if len(devices) < 2 else max(1, usable_cores() // len(devices))


def usable_cores() -> int:
    """CPU cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _named(part: str) -> list[str]:
    cuda = [device.name for device in _cuda_devices()]
    if part == "auto":
        return cuda or ["cpu"]
    if part in ("cuda", "cuda:all"):
        if not cuda:
            raise UsageError(f"--device {part}: no CUDA device is usable here", hint=_known())
        return cuda
    if part == "cpu" or part in cuda or (part == "mps" and _has_mps()):
        return [part]
    raise UsageError(f"--device {part!r} is not there", hint=_known())


def _known() -> str:
    return "devices here: " + ", ".join(device.name for device in list_devices()) + " (`fa-tui doctor` says more)"


def _cpu() -> Device:
    cores = usable_cores()
    try:
        load = min(1.0, os.getloadavg()[0] / cores)
    except (AttributeError, OSError):
        load = None
    return Device(name="cpu", label=f"{cores} cores", load=load)


def _cuda_devices() -> list[Device]:
    if not _torch_has_cuda():
        return []
    with _nvml() as nvml:
        if nvml is None:
            return []
        return [_cuda_device(nvml, handle, index) for index, handle in enumerate(_visible(nvml))]


def _cuda_device(nvml: Any, handle: Any, index: int) -> Device:
    used = total = load = None
    try:
        label = _text(nvml.nvmlDeviceGetName(handle))
    except nvml.NVMLError as error:
        # a card that fell off the bus while somebody looks
        return Device(name=f"cuda:{index}", label=f"does not answer any more ({error})")
    try:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        used, total = int(memory.used), int(memory.total)
        load = nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
    except nvml.NVMLError:
        pass
    return Device(name=f"cuda:{index}", label=label, memory_used=used, memory_total=total, load=load)


def _visible(nvml: Any) -> list[Any]:
    """NVML's handles in torch's order: CUDA_VISIBLE_DEVICES picks, orders, and ends at the first unknown name.

    A card without a handle, because it was lost, keeps its place as None.
    """
    try:
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError:
        return []
    every = [_asked(nvml, nvml.nvmlDeviceGetHandleByIndex, index) for index in range(count)]
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return every
    uuids = [_text(_asked(nvml, nvml.nvmlDeviceGetUUID, handle) or "") for handle in every]
    handles: list[Any] = []
    for name in (name.strip() for name in chosen.split(",")):
        if name.isdigit() and int(name) < len(every):
            handles.append(every[int(name)])
            continue
        matches = [handle for handle, uuid in zip(every, uuids, strict=True) if name and uuid.startswith(name)]
        if len(matches) != 1:
            break
        handles.append(matches[0])
    return handles


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _asked(nvml: Any, question: Callable[[Any], Any], about: Any) -> Any:
    """NVML's answer, None where it has none."""
    try:
        return question(about)
    except nvml.NVMLError:
        return None


@contextmanager
def _nvml() -> Iterator[Any]:
    """The NVML binding, started; None where there is no NVIDIA driver, or no binding."""
    try:
        import pynvml
    except ImportError:
        yield None
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _has_mps() -> bool:
    """Whether this is a Mac whose GPU torch can use (its wheels for Apple's own processors all can)."""
    if sys.platform != "darwin":
        return False
    import platform

    if platform.machine() != "arm64":
        return False
    return tuple(int(part) for part in re.findall(r"\d+", platform.mac_ver()[0])[:2]) >= MPS_SINCE


def _torch_has_cuda() -> bool:
    """Whether the installed torch was built for CUDA (or ROCm, which it calls cuda too)."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return False
    try:
        version = Path(spec.origin).with_name("version.py").read_text()
    except OSError:
        return False
    return re.search(r"^(cuda|hip)\b.*=\s*['\"]", version, re.MULTILINE) is not None


LOCAL, RAY = "local", "ray"
ENGINES = (LOCAL, RAY)

PATIENCE = 60.0
"""Seconds that a cluster's job may send no message: it sends one per batch, the first after torch and the data."""

CLUSTER_DEVICES = ("auto", "cpu", "cuda", "cuda:all")
"""What may be asked of a cluster; which of its devices a job gets is Ray's business."""


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Where runs are measured, and how many at a time. What is None is found out where it is needed.

    Attributes:
        engine: ``"local"`` (worker processes of this machine) or ``"ray"`` (a cluster).
        device: ``"auto"`` (every CUDA device, else the CPU) and what else `resolve_devices` knows; of a cluster
            ``"auto"`` (a GPU per job where it has any, else a core), ``"cpu"`` or ``"cuda"``.
        jobs: workers; None = one per device, on a CPU more for many runs (see `workers_for`). On a cluster, batches
            of jobs that Ray gets at a time; None = twice as many as it has places.
        group: networks that a worker measures at once; None = as its memory allows on CUDA, else 1.
        address: ``host:port`` of the cluster's head; ``"auto"`` = the running one (RAY_ADDRESS, or this machine's);
            None = the running one, or else one that is started on this machine for as long as it is needed.
        patience: seconds without a message after which a cluster's job is tried on another node too; None =
            `PATIENCE`.
    """

    engine: str = LOCAL
    device: str = "auto"
    jobs: int | None = None
    group: int | None = None
    address: str | None = None
    patience: float | None = None

    def check(self) -> None:
        """Refuse what cannot be meant. No cluster is asked anything.

        Raises:
            UsageError: an engine or a device that is not there, numbers below 1, no patience at all, an address without
                a cluster to go to, or one that is none.
        """
        if self.engine not in ENGINES:
            raise unknown_name("engine", self.engine, ENGINES)
        for name in ("jobs", "group"):
            count = getattr(self, name)
            if count is not None and count < 1:
                raise UsageError(f"--{name} {count}", hint="give at least 1")
        # NaN is above nothing
        if self.patience is not None and not self.patience > 0:
            raise UsageError(f"--patience {self.patience:g}", hint="give seconds above 0")
        if self.engine == LOCAL:
            self._check_local()
        else:
            self._check_cluster()

    def _check_local(self) -> None:
        for name in ("address", "patience"):
            if getattr(self, name) is not None:
                raise UsageError(f"--{name} is of a Ray cluster", hint="add --engine ray")
        if self.device != "auto":
            resolve_devices(self.device)

    def _check_cluster(self) -> None:
        if self.device not in CLUSTER_DEVICES:
            raise UsageError(
                f"--device {self.device} with --engine ray", hint=f"Ray picks it: {', '.join(CLUSTER_DEVICES)}"
            )
        named_address(self.address)


def named_address(address: str | None) -> str | None:
    """The ``host:port`` that was given; None = the cluster that Ray finds here. No cluster is asked anything.

    Args:
        address: ``host:port``, ``auto``, or None; the last two look at RAY_ADDRESS first, as Ray does.

    Raises:
        UsageError: ray is not installed, or an address that is none.
    """
    if importlib.util.find_spec("ray") is None:
        raise missing_package("ray", "--engine ray")
    named = address if address not in (None, "auto") else os.environ.get("RAY_ADDRESS") or None
    if named is None or named in ("auto", "local"):
        return None
    if named.startswith("ray://"):
        raise UsageError(
            f"--address {named}: Ray's client protocol cannot stream results",
            hint="run on a node of the cluster, with --address auto or --address HEAD:6379",
        )
    host, _, port = named.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--address {named!r} is not HOST:PORT", hint="write e.g. --address 10.0.0.1:6379, or auto")
    return named
