"""Which pool measures: worker processes of this machine, or a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from fa_core.engine.board import OnEvent
from fa_core.engine.devices import resolve_devices, threads_per_worker, workers_for
from fa_core.engine.jobs import Job, JobView
from fa_core.engine.pool import WorkerPool
from fa_core.engine.watch import DEFAULT_MEASURE
from fa_core.errors import UsageError
from fa_core.naming import unknown_name
from fa_core.report import DiagnosticReport

LOCAL, RAY = "local", "ray"
ENGINES = (LOCAL, RAY)

CLUSTER_DEVICES = ("auto", "cpu", "cuda", "cuda:all")
"""What may be asked of a cluster; which of its devices a job gets is Ray's business."""


class Pool(Protocol):
    """What `WorkerPool` and `RayPool` have in common."""

    def submit(self, job: Job) -> Future[DiagnosticReport]: ...

    def retry(self, job_id: str) -> Future[DiagnosticReport]: ...

    def cancel(self, job_id: str) -> bool: ...

    def move(self, job_id: str, position: int) -> bool: ...

    def jobs(self) -> list[JobView]: ...

    def pids(self) -> list[int]: ...

    def close(self) -> None: ...

    def __enter__(self) -> Pool: ...

    def __exit__(self, *_: object) -> None: ...


def check_engine(
    engine: str,
    *,
    device: str = "auto",
    jobs: int | None = None,
    address: str | None = None,
    patience: float | None = None,
) -> None:
    """Refuse what cannot measure, before anything starts.

    Raises:
        UsageError: an engine or a device that is not there, or an address without a cluster to go to.
        MeasureError: nobody listens at the address.
    """
    if engine not in ENGINES:
        raise unknown_name("engine", engine, ENGINES)
    if engine == LOCAL:
        if address is not None:
            raise UsageError("--address is of a Ray cluster", hint="add --engine ray")
        if patience is not None:
            raise UsageError("--patience is of a Ray cluster", hint="add --engine ray")
        resolve_devices(device, jobs)
        return
    if device not in CLUSTER_DEVICES:
        raise UsageError(f"--device {device} with --engine ray", hint=f"Ray picks it: {', '.join(CLUSTER_DEVICES)}")
    from fa_core.engine.cluster.address import check_address

    check_address(address)


def make_pool(
    engine: str = LOCAL,
    on_event: OnEvent | None = None,
    *,
    runs: int | None = None,
    device: str = "auto",
    jobs: int | None = None,
    group: int | None = None,
    address: str | None = None,
    patience: float | None = None,
    on_notice: Callable[[str], None] | None = None,
    measure: str = DEFAULT_MEASURE,
) -> Pool:
    """A pool that measures jobs; a cluster is connected to when this returns.

    Args:
        engine: ``local`` or ``ray``.
        on_event: told every change of a job, from another thread.
        runs: how many there will be, if that is known: a CPU gets more workers for many.
        device: see `resolve_devices`; of a cluster ``auto``, ``cpu`` or ``cuda``.
        jobs: how many workers, or batches of jobs on a cluster at a time; None = as many as there are devices for.
        group: how many networks are measured at once; None = as memory allows on CUDA, else 1.
        address, patience: of the cluster (see `RayPool`).
        on_notice: told which cluster it is.
        measure: what workers run.

    Raises:
        FaError: an engine, device or cluster that is not there.
    """
    if engine == LOCAL:
        devices = resolve_devices(device, jobs) if runs is None else workers_for(runs, device, jobs)
        return WorkerPool(devices, on_event, threads=threads_per_worker(devices), measure=measure, group=group)
    from fa_core.engine.cluster import RayPool

    pool = RayPool(
        address,
        on_event,
        device=device,
        jobs=jobs,
        group=group,
        measure=measure,
        patience=patience,
        on_notice=on_notice,
    )
    try:
        pool.connect()
    except BaseException:
        pool.close()
        raise
    return pool
