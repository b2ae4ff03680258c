"""Devices of this machine, and the execution of measurements. No torch in this process.

torch says which GPUs there are, in a process of its own; it is not asked where the system
shows none.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from subprocess import PIPE, TimeoutExpired

import msgspec

from fa_core.errors import MeasureError, UsageError, missing_package
from fa_core.files.children import start_python

RUNS_PER_WORKER = 8
"""Runs from which another worker on a CPU pays off."""

MOST = 1_000_000
"""Most workers, batches or samples of a batch that can be asked for."""

MOST_CPU_WORKERS = 8
"""Workers on a CPU at most: each holds torch and the data set, some hundred MB."""


IMPORT_SECONDS = 120
"""Timeout for the import of torch."""


def list_devices() -> dict[str, str]:
    """Every device torch can measure on, the CPU last: torch's name → model."""
    gpus: dict[str, str] = {}
    if _gpu_files() or sys.platform == "darwin":
        gpus = ask_torch().gpus
    return {**gpus, "cpu": f"{usable_cores()} cores"}


def why_no_cuda() -> str:
    """Why there is no CUDA device here; ``""`` if there is one."""
    files = _gpu_files()
    if not files:
        return "no GPU on this machine"
    torch = ask_torch()
    if not torch.gpus:
        return f"no GPU: torch {torch.version} can use none, though there is {files[0]}"
    return ""


def idle_gpu(devices: Iterable[str]) -> str:
    """The note for runs measured on the CPU of a machine with a GPU; ``""`` without one.

    Args:
        devices: the devices that measure.
    """
    files = _gpu_files()
    if set(devices) != {"cpu"} or not files:
        return ""
    why = why_no_cuda().removeprefix("no GPU: ") or "--device or the settings say so"
    return f"measured on the CPU beside a GPU ({files[0]}): {why}"


class TorchAnswer(msgspec.Struct, frozen=True):
    """What torch says of itself.

    Attributes:
        version: ``""`` if it does not import.
        gpus: device → name, in torch's order.
        error: why it does not import.
    """

    version: str = ""
    gpus: dict[str, str] = {}
    error: str = ""


@lru_cache(maxsize=1)
def ask_torch() -> TorchAnswer:
    """torch's version and GPUs, by a process of its own, cached: its import takes seconds."""
    with start_python("fa_core.audit.torch_probe", stdout=PIPE, stderr=PIPE) as child:
        try:
            printed, wrong = child.communicate(timeout=IMPORT_SECONDS)
        except TimeoutExpired:
            child.kill()
            return TorchAnswer(error=f"does not import within {IMPORT_SECONDS} s")
    try:
        return msgspec.json.decode(printed.strip().rpartition(b"\n")[2], type=TorchAnswer)
    except ValueError:
        words = wrong.decode(errors="replace").strip().splitlines()
        last = (words or [f"exit code {child.returncode}"])[-1]
        return TorchAnswer(error=f"does not import: {last}")


def check_counts(**counts: int | None) -> None:
    """Refuse counts below 1 or above `MOST`.

    Raises:
        UsageError: names the first one.
    """
    for name, count in counts.items():
        if count is not None and not 1 <= count <= MOST:
            raise UsageError(f"--{name.replace('_', '-')} {count}", hint=f"give 1 to {MOST:,}")


def resolve_devices(spec: str, jobs: int | None = None) -> list[str]:
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
    parts = filter(None, map(str.strip, spec.lower().split(",")))
    names = [*dict.fromkeys(chain.from_iterable(map(_named, parts)))]
    if not names:
        raise UsageError(f"--device {spec!r} names no device", hint=_known())
    return [names[worker % len(names)] for worker in range(jobs or len(names))]


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
    devices = [*list_devices()]
    cuda = [name for name in devices if name.startswith("cuda:")]
    if part == "auto":
        return cuda or ["cpu"]
    if part in ("cuda", "cuda:all") and cuda:
        return cuda
    if part in devices:
        return [part]
    raise UsageError(f"--device {part!r} is not there", hint=_known())


def _known() -> str:
    return f"devices here: {', '.join(list_devices())} (`fa-tui doctor` says more)"


def _gpu_files() -> list[str]:
    """Device files of a GPU: NVIDIA's, WSL's, AMD's. Without one torch need not be asked."""
    return [
        str(file)
        for name in ("nvidia[0-9]*", "dxg", "kfd")
        for file in sorted(Path("/dev").glob(name))
    ]


LOCAL, RAY = "local", "ray"

CONNECT = 4.0
"""Timeout in seconds for connecting to an address."""

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
            None = RAY_ADDRESS. Never a cluster that nobody named, which may be another user's.
    """

    engine: str = LOCAL
    device: str = "auto"
    jobs: int | None = None
    address: str | None = None

    def check(self) -> None:
        """Check the options, without contacting a cluster.

        Raises:
            UsageError: an unknown device, numbers below 1, or an address without `--engine ray`.
        """
        check_counts(jobs=self.jobs)
        if self.engine == RAY:
            if self.device not in CLUSTER_DEVICES:
                raise UsageError(
                    f"--device {self.device} with --engine ray",
                    hint=f"Ray picks it: {', '.join(CLUSTER_DEVICES)}",
                )
        elif self.address is not None:
            raise UsageError("--address is of a Ray cluster", hint="add --engine ray")
        elif self.device != "auto":
            resolve_devices(self.device)


def answering_cluster(address: str | None) -> str:
    """The cluster to join: ``host:port`` where something listens, or ``auto`` (runs on this
    machine).

    Args:
        address: as in `Execution`.

    Raises:
        UsageError: ray is not installed, or the address is malformed.
        MeasureError: nothing listens at the address.
    """
    if importlib.util.find_spec("ray") is None:
        raise missing_package("ray", "--engine ray")
    named = address or os.environ.get("RAY_ADDRESS") or ""
    if named == "auto":
        return named
    host, _, port = named.rpartition(":")
    try:
        # Ray itself would try for minutes
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT).close()
    except ValueError:
        raise UsageError(
            f"--address {named!r} is not HOST:PORT",
            hint="write e.g. --address 10.0.0.1:6379, or auto: a cluster on this machine",
        ) from None
    except OSError as error:
        raise MeasureError(
            f"no Ray cluster answers at {named} ({error.strerror or error})",
            hint="`ray start --head` starts a cluster on this machine",
        ) from error
    return named
