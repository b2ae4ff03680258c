"""Devices of this machine, their load, and the execution of measurements. No torch.

CUDA devices are listed by NVML; whether torch could use them is read from its version file. Where
NVML shows none and the system has the file of one (ROCm, a container without NVML), torch is asked
in a process of its own. MPS follows from machine and system.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

import msgspec

from fa_core.errors import MeasureError, UsageError, missing_package
from fa_core.option_values import unknown_name

if TYPE_CHECKING:
    import psutil

RUNS_PER_WORKER = 8
"""Runs from which another worker on a CPU pays off."""

MOST_CPU_WORKERS = 8
"""Workers on a CPU at most: each holds torch and the data set, some hundred MB."""


T = TypeVar("T")


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A device and its current state.

    Attributes:
        name: as torch calls it, e.g. ``"cuda:0"``.
        label: its model, e.g. ``"NVIDIA H200"``.
        memory_used: bytes in use by all processes; None where unknown.
        memory_total: its bytes; None where unknown.
        load: recent share of busy time, in [0, 1]; None where unknown.
    """

    name: str
    label: str
    memory_used: int | None = None
    memory_total: int | None = None
    load: float | None = None


def list_devices() -> list[Device]:
    """Every device torch can measure on, the CPU last."""
    if _has_mps():
        mps = [Device(name="mps", label="Apple GPU")]
    else:
        mps = []
    return [*_cuda_devices(), *mps, _cpu()]


def why_no_cuda() -> str:
    """Why there is no CUDA device here; ``""`` if there is one."""
    if not _torch_has_cuda():
        return "no GPU: this torch is built without CUDA"
    if _cuda_devices():
        return ""
    if _gpu_files():
        return f"no GPU: torch can use none, though there is {_gpu_files()[0]}"
    with _nvml() as nvml:
        if nvml is None:
            return "no GPU: no NVIDIA driver answers"
        return "no GPU: the driver shows none (CUDA_VISIBLE_DEVICES may hide it)"


def seen_by_nvml() -> list[str]:
    """Labels of the cards and MIG instances that NVML shows, usable by torch or not."""
    with _nvml() as nvml:
        if nvml is None:
            return []
        return [device.label for device in _listed(nvml)]


def idle_gpu(devices: Iterable[str]) -> str:
    """The note for runs measured on the CPU of a machine with a GPU; ``""`` without one.

    Args:
        devices: the devices that measure.
    """
    if set(devices) != {"cpu"}:
        return ""
    usable = [device.label for device in _cuda_devices()]
    labels = usable or seen_by_nvml() or _gpu_files()
    if usable:
        why = "--device or the settings say so"
    else:
        why = why_no_cuda().removeprefix("no GPU: ")
    if labels:
        return f"measured on the CPU beside a GPU ({labels[0]}): {why}"
    return ""


class TorchAnswer(msgspec.Struct, frozen=True, array_like=True):
    """torch's version and GPUs, asked in a process of its own.

    Attributes:
        version: ``""`` if it does not import.
        gpus: name and bytes of memory of each.
        error: why it does not import.
    """

    version: str = ""
    gpus: list[tuple[str, int]] = []
    error: str = ""


PROBE = """
import json, torch
found = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
print(json.dumps([torch.__version__, [[gpu.name, gpu.total_memory] for gpu in found]]))
"""


@lru_cache(maxsize=4)
def ask_torch(probe: str = PROBE) -> TorchAnswer:
    """torch's version and GPUs, cached: its import takes seconds."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", probe], capture_output=True, text=True, timeout=120, check=False
        )
        return msgspec.json.decode(done.stdout.strip().rpartition("\n")[2], type=TorchAnswer)
    except subprocess.TimeoutExpired:
        return TorchAnswer(error="does not import within 120 s")
    except ValueError:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return TorchAnswer(error=f"does not import: {last}")


def worker_device(device: str, environment: dict[str, str]) -> str:
    """A device's name inside its worker. CUDA shows a process only one MIG instance, so each worker
    is given its own.

    Args:
        device: its name in `list_devices`.
        environment: of the worker; CUDA_VISIBLE_DEVICES may be changed in place.

    >>> visible = {"CUDA_VISIBLE_DEVICES": "MIG-a,MIG-b"}
    >>> worker_device("cuda:1", visible), visible
    ('cuda:0', {'CUDA_VISIBLE_DEVICES': 'MIG-b'})
    """
    names = environment.get("CUDA_VISIBLE_DEVICES", "").split(",")
    if not names[0].strip().startswith(_MIG) or not device.startswith("cuda:"):
        return device
    environment["CUDA_VISIBLE_DEVICES"] = names[int(device[5:])].strip()
    return "cuda:0"


def check_counts(**counts: int | None) -> None:
    """Refuse counts below 1.

    Raises:
        UsageError: names the first one.
    """
    for name, count in counts.items():
        if count is not None and count < 1:
            raise UsageError(f"--{name.replace('_', '-')} {count}", hint="give at least 1")


def resolve_devices(spec: str = "auto", jobs: int | None = None) -> list[str]:
    """The device of each worker to start.

    Args:
        spec: ``auto`` (every CUDA device, else the CPU), ``cuda`` or ``cuda:all`` (every CUDA
            device), ``cuda:1``, ``cpu``, ``mps``, or several of these with commas.
        jobs: number of workers; None = one per device. More workers than devices share them in
            turn.

    Raises:
        UsageError: an unknown device, one that is not there, or fewer than one job.
    """
    check_counts(jobs=jobs)
    names: list[str] = []
    for part in (part.strip().lower() for part in spec.split(",") if part.strip()):
        names.extend(name for name in _named(part) if name not in names)
    if not names:
        raise UsageError(f"--device {spec!r} names no device", hint=_known())
    if jobs is None:
        count = len(names)
    else:
        count = jobs
    return [names[worker % len(names)] for worker in range(count)]


def workers_for(runs: int, spec: str = "auto", jobs: int | None = None) -> list[str]:
    """`resolve_devices` with at most one worker per run; on a CPU alone, one per `RUNS_PER_WORKER`
    runs.

    Networks of this field are small: two workers of one thread measure many of them twice as fast
        as one worker of two threads, but each takes seconds to start and holds the data.
    """
    devices = resolve_devices(spec, jobs)
    if jobs is None and devices == ["cpu"]:
        devices *= max(1, min(usable_cores(), MOST_CPU_WORKERS, runs // RUNS_PER_WORKER))
    return devices[:runs]


def threads_per_worker(devices: Sequence[str]) -> int | None:
    """CPU threads per worker: an equal share of the cores; None = all, for a single worker."""
    if len(devices) < 2:
        return None
    return max(1, usable_cores() // len(devices))


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
    names = ", ".join(device.name for device in list_devices())
    return f"devices here: {names} (`fa-tui doctor` says more)"


def _cpu() -> Device:
    import psutil

    cores = usable_cores()
    return Device(name="cpu", label=f"{cores} cores", load=min(1.0, psutil.getloadavg()[0] / cores))


class Usage(msgspec.Struct, frozen=True):
    """Resources used by some processes and their descendants together.

    Attributes:
        processes: number of processes.
        memory: resident bytes (shared pages count in each).
        load: CPU cores they kept busy since the last reading; None at the first.
        each: given process → resident bytes of it and its descendants.
    """

    processes: int
    memory: int
    load: float | None = None
    each: dict[int, int] = {}


class UsageMeter:
    """Measures what processes use; the load is that between two readings."""

    def __init__(self) -> None:
        self._known: dict[psutil.Process, psutil.Process] = {}

    def read(self, pids: Iterable[int]) -> Usage | None:
        """Current usage of these processes and their descendants; None if none is alive."""
        import psutil

        family: dict[psutil.Process, int] = {}
        for pid in pids:
            with suppress(psutil.Error):
                process = psutil.Process(pid)
                family |= dict.fromkeys([process, *process.children(recursive=True)], pid)
        # psutil measures the time since the last call on the same object: keep these objects
        before, self._known = self._known, {}
        each, percent = dict.fromkeys(family.values(), 0), 0.0
        for process, pid in family.items():
            process = before.get(process, process)
            with suppress(psutil.Error):
                each[pid] += process.memory_info().rss
                percent += process.cpu_percent()
                self._known[process] = process
        if not self._known:
            return None
        load = None
        if before.keys() & self._known.keys():
            load = percent / 100
        return Usage(len(self._known), sum(each.values()), load, each)


def _cuda_devices() -> list[Device]:
    if not _torch_has_cuda():
        return []
    with _nvml() as nvml:
        listed = _listed(nvml)
    if listed or not _gpu_files():
        return listed
    gpus = enumerate(ask_torch().gpus)
    return [
        Device(name=f"cuda:{index}", label=name, memory_total=size) for index, (name, size) in gpus
    ]


def _listed(nvml: ModuleType | None) -> list[Device]:
    """The visible cards or MIG instances; without NVML, the instances named for CUDA."""
    if nvml is None:
        names = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        migs = [name.strip() for name in names if name.strip().startswith(_MIG)]
        return [
            Device(name=f"cuda:{index}", label=f"MIG instance {name}")
            for index, name in enumerate(migs)
        ]
    return [_cuda_device(nvml, handle, index) for index, handle in enumerate(_visible(nvml))]


_MIG = "MIG-"
_HIDE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def _gpu_files() -> list[str]:
    """Device files of a GPU: NVIDIA's, WSL's, AMD's; none if a variable hides GPUs."""
    if any(os.environ.get(name, "0").strip() in ("", "-1") for name in _HIDE):
        return []
    return [
        str(file)
        for name in ("nvidia[0-9]*", "dxg", "kfd")
        for file in sorted(Path("/dev").glob(name))
    ]


def _cuda_device(nvml: ModuleType, handle: object, index: int) -> Device:
    used = total = load = None
    try:
        label = nvml.nvmlDeviceGetName(handle)
    except nvml.NVMLError as error:
        # a card that just fell off the bus
        return Device(name=f"cuda:{index}", label=f"does not answer any more ({error})")
    with suppress(nvml.NVMLError):
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        used, total = int(memory.used), int(memory.total)
        load = nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
    return Device(
        name=f"cuda:{index}", label=label, memory_used=used, memory_total=total, load=load
    )


def _visible(nvml: ModuleType) -> list[object]:
    """NVML's handles in torch's order: CUDA_VISIBLE_DEVICES selects, orders, and ends at the first
    unknown name.

    A MIG instance has a handle of its own. A lost card, which has no handle, keeps its place as
    None.
    """
    count = _asked(nvml, nvml.nvmlDeviceGetCount) or 0
    every = [_asked(nvml, nvml.nvmlDeviceGetHandleByIndex, index) for index in range(count)]
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return every
    uuids: list[str] = [_asked(nvml, nvml.nvmlDeviceGetUUID, handle) or "" for handle in every]
    handles: list[object] = []
    for name in (name.strip() for name in chosen.split(",")):
        if name.startswith(_MIG):
            handles.append(_asked(nvml, nvml.nvmlDeviceGetHandleByUUID, name))
            continue
        places = [
            place
            for place, uuid in enumerate(uuids)
            if name == str(place) or (name and uuid.startswith(name))
        ]
        if len(places) != 1:
            break
        handles.append(every[places[0]])
    return handles


def _asked(nvml: ModuleType, question: Callable[..., T], *about: object) -> T | None:
    """NVML's answer; None if the call fails."""
    try:
        return question(*about)
    except nvml.NVMLError:
        return None


@contextmanager
def _nvml() -> Iterator[ModuleType | None]:
    """The initialized NVML binding; None without an NVIDIA driver."""
    import pynvml

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
    """Whether this is a Mac with an Apple processor, whose GPU every wheel of torch can use."""
    return sys.platform == "darwin" and platform.machine() == "arm64"


def _torch_has_cuda() -> bool:
    """Whether the installed torch was built for CUDA or ROCm."""
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

CONNECT = 4.0
"""Timeout in seconds for connecting to an address."""

PATIENCE = 3600.0
"""Seconds after which a job of a cluster is tried once more."""

CLUSTER_DEVICES = ("auto", "cpu", "cuda", "cuda:all")
"""Devices for `--engine ray`; Ray picks the device of a job."""


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """Execution of measurements: engine, devices, workers. None = decided where it is needed.

    Attributes:
        engine: ``"local"`` (worker processes of this machine) or ``"ray"`` (a cluster).
        device: ``"auto"`` (every CUDA device, else the CPU) or another spec of `resolve_devices`;
            on a cluster ``"auto"`` (a GPU per job if it has any, else a core), ``"cpu"`` or
            ``"cuda"``.
        jobs: number of workers; None = one per device, on a CPU more for many runs (see
            `workers_for`). On a cluster Ray decides.
        address: ``host:port`` of the cluster's head; ``"auto"`` = a running one on this machine;
            None = RAY_ADDRESS, else a new one on this machine while it is needed.
        patience: seconds after which a job of a cluster is tried again; None = `PATIENCE`.
    """

    engine: str = LOCAL
    device: str = "auto"
    jobs: int | None = None
    address: str | None = None
    patience: float | None = None

    def check(self) -> None:
        """Check the options, without contacting a cluster.

        Raises:
            UsageError: an unknown engine or device, numbers below 1, a patience of 0, an address
                without `--engine ray`, or a malformed one.
        """
        if self.engine not in ENGINES:
            raise unknown_name("engine", self.engine, ENGINES)
        check_counts(jobs=self.jobs)
        # NaN fails every comparison
        if self.patience is not None and not self.patience > 0:
            raise UsageError(f"--patience {self.patience:g}", hint="give seconds above 0")
        if self.engine == LOCAL:
            for name, value in {"address": self.address, "patience": self.patience}.items():
                if value is not None:
                    raise UsageError(f"--{name} is of a Ray cluster", hint="add --engine ray")
            if self.device != "auto":
                resolve_devices(self.device)
            return
        if self.device not in CLUSTER_DEVICES:
            hint = f"Ray picks it: {', '.join(CLUSTER_DEVICES)}"
            raise UsageError(f"--device {self.device} with --engine ray", hint=hint)
        cluster_address(self.address)


def cluster_address(address: str | None) -> str:
    """The cluster to join: ``host:port``, ``auto`` (runs on this machine) or ``local`` (start one).

    Args:
        address: as in `Execution`.

    Raises:
        UsageError: ray is not installed, or the address is malformed.
    """
    if importlib.util.find_spec("ray") is None:
        raise missing_package("ray", "--engine ray")
    named = address or os.environ.get("RAY_ADDRESS") or "local"
    if named in ("auto", "local"):
        return named
    host, _, port = named.rpartition(":")
    if not host or "/" in host or not port.isdigit() or int(port) > 65535:
        raise UsageError(
            f"--address {named!r} is not HOST:PORT",
            hint="write e.g. --address 10.0.0.1:6379, or auto",
        )
    return named


def answering_cluster(address: str | None) -> str:
    """`cluster_address`, if something listens there.

    Raises:
        UsageError: see `cluster_address`.
        MeasureError: nothing listens at the address.
    """
    named = cluster_address(address)
    if named in ("auto", "local"):
        return named
    host, _, port = named.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT).close()
    except OSError as error:
        raise MeasureError(
            f"no Ray cluster answers at {named} ({error.strerror or error})",
            hint="`ray start --head` starts a cluster on this machine",
        ) from error
    return named
