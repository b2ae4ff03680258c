"""Training of several runs: in this process, or as jobs of the worker pool, one per device."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import as_completed
from functools import lru_cache
from pathlib import Path

import msgspec
import torch
from msgspec.structs import replace

from fa_core.audit.jobs import Job, JobProgress, JobState, JobView
from fa_core.audit.loading import memory_for
from fa_core.audit.pool import OnEvent, Pool
from fa_core.errors import FaError, UsageError
from fa_core.files.decode import Json
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.manifest import is_run
from fa_core.report.method_style import FROZEN
from fa_core.report.numbers import joined
from fa_core.training.plan import Order, there_already
from fa_core.training.train import Training, steps_per_epoch, train_run
from fa_core.zoo.data import DataSet, load_data

_HINT = "complete epochs are kept; add --resume to go on"


def trained_job(job: Job, device: str, progress: JobProgress, data: DataSet | None = None) -> Json:
    """Train a job's run; its last note is the result in one line.

    Args:
        job: its `Order` is in ``training``.
        device: where.
        progress: of the run.
        data: its data on the device, if loaded already.

    Returns:
        Its audit, as `DiagnosticReport.to_dict` writes it; of a skipped run an empty report.
    """
    order = msgspec.convert(job.training, Order)
    if data is None:
        data = _data_on(order.plan.data, device)
    done = train_run(order, data, Path(job.checkpoint), device=device, progress=progress)
    progress.note(done.words)
    return (done.report or DiagnosticReport()).to_dict()


def check_orders(orders: Sequence[Order], data: DataSet, out: Path) -> None:
    """Check all runs in advance, so that none is trained before a typo is found.

    Raises:
        UsageError: as `train_run`.
    """
    if out.exists() and not out.is_dir():
        raise UsageError(
            "is a file, not a folder", where=out, hint="--out names the folder of the run folders"
        )
    for order in orders:
        folder = out / order.plan.name
        with memory_for(folder, "cpu"):
            run = Training(order, data, folder, torch.device("cpu"))
        if run.recipe.epochs:
            steps_per_epoch(data, run.recipe)
        if is_run(folder) and not (order.resume or order.overwrite):
            raise there_already(folder)


@lru_cache(maxsize=1)
def _data_on(spec: str, device: str) -> DataSet:
    return load_data(spec, allow_code=True).to(device)


def train_runs(
    orders: Sequence[Order],
    out: Path,
    data: DataSet,
    devices: Sequence[str],
    threads: int | None,
    on_event: OnEvent,
) -> None:
    """Train runs: one by one in this process, or as many at a time as there are devices.

    Args:
        orders: the runs, of one data set.
        out: folder of the run folders.
        data: the data set.
        devices: where; the same one may be named several times.
        threads: CPU threads of each worker; None = its share of the cores.
        on_event: called with every change of a run; the note of a finished one is its result.

    Raises:
        FaError: a run that cannot be trained, or a worker that died; the others are stopped.
    """
    jobs = [
        Job(
            id=order.plan.name,
            checkpoint=str(out / order.plan.name),
            method=order.plan.method,
            seed=order.plan.seed,
            axes=order.plan.axes,
            training=msgspec.to_builtins(order),
        )
        for order in orders
    ]
    if len(devices) > 1:
        _train_in_workers(jobs, devices, threads, on_event)
        return
    samples = data.to(devices[0])
    for job in jobs:
        _train_here(job, devices[0], samples, on_event)


def _train_here(job: Job, device: str, data: DataSet, on_event: OnEvent) -> None:
    view = JobView(job=job, state=JobState.RUNNING, device=device)

    def change(**fields: object) -> None:
        nonlocal view
        view = replace(view, **fields)
        on_event(view)

    progress = JobProgress(
        lambda done, total: change(done=done, total=total), lambda text: change(note=text)
    )
    trained_job(job, device, progress, data)
    change(state=JobState.DONE)


def _train_in_workers(
    jobs: Sequence[Job], devices: Sequence[str], threads: int | None, on_event: OnEvent
) -> None:
    """Frozen runs come first, all of them: they are the baseline of the others' (d)."""
    with Pool(devices, on_event, threads=threads) as pool:
        for is_frozen in (True, False):
            wave = [pool.submit(job) for job in jobs if (job.method == FROZEN) == is_frozen]
            for future in as_completed(wave):
                try:
                    future.result()
                except FaError as error:  # noqa: PERF203 (a few runs)
                    raise FaError(
                        error.what, where=error.where, hint=joined(error.hint, _HINT)
                    ) from error
