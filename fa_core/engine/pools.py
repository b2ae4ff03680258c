"""The pool that goes with a placement."""

from __future__ import annotations

from collections.abc import Callable

from fa_core.engine.board import OnEvent
from fa_core.engine.devices import resolve_devices, threads_per_worker, workers_for
from fa_core.engine.placement import LOCAL, Placement
from fa_core.engine.pool import Pool
from fa_core.engine.watch import DEFAULT_MEASURE
from fa_core.engine.worker_pool import WorkerPool


def check_reachable(placement: Placement) -> None:
    """Refuse what cannot measure, before anything starts.

    Raises:
        UsageError: what cannot be meant (see `Placement.check`).
        MeasureError: nobody listens at the cluster's address.
    """
    placement.check()
    if placement.engine != LOCAL:
        from fa_core.engine.cluster.address import check_address

        check_address(placement.address)


def make_pool(
    placement: Placement,
    on_event: OnEvent | None = None,
    *,
    runs: int | None = None,
    on_notice: Callable[[str], None] | None = None,
    measure: str = DEFAULT_MEASURE,
) -> Pool:
    """A pool that measures jobs. Nothing starts before its first job, or `connect`.

    Args:
        placement: where it measures.
        on_event: told every change of a job, from another thread.
        runs: how many there will be, if that is known: a CPU gets more workers for many.
        on_notice: told what concerns no single job, e.g. which cluster it is.
        measure: what workers run (see `WorkerPool`).

    Raises:
        UsageError: what cannot be meant (see `Placement.check`).
    """
    placement.check()
    if placement.engine == LOCAL:
        device, jobs = placement.device, placement.jobs
        devices = resolve_devices(device, jobs) if runs is None else workers_for(runs, device, jobs)
        threads = threads_per_worker(devices)
        return WorkerPool(devices, on_event, threads=threads, measure=measure, group=placement.group)
    from fa_core.engine.cluster import RayPool

    return RayPool(placement, on_event, measure=measure, on_notice=on_notice)
