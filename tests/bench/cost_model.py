"""What auditing a million checkpoints needs: constants measured here, multiplied on paper.

    python -m tests.bench.cost_model

Published size: ResMLP d=256 L=4 on 3,072 inputs, ten batches of 128, accuracy on 10,000 samples. What is said of a
GPU is an estimate from a data sheet unless a GPU is here.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch.utils.flop_counter import FlopCounterMode

from fa_core.engine.jobs import file_hash
from fa_core.formats import scan
from fa_core.formats.audit_table_writer import write_audit_table
from fa_core.measure.checkpoint import load_checkpoint
from fa_core.models import build
from tests.bench.bench_group import Clock, bare, drawn, fused
from tests.bench.bench_read import table_of
from tests.bench.figures import amount, table

MILLION = 1_000_000
GPU_FLOPS = 40e12
"""FLOP/s of float32 without TensorFloat-32: 60 % of an H100's or H200's data sheet (67 TFLOP/s). An estimate."""
GPU_GROUP = 64
"""Checkpoints in one group, and so in one task of the cluster."""
DISK = 3e9
"""Bytes/s of one NVMe disk, from data sheets. An estimate."""
SHARED_DISK = 20e9
"""Bytes/s of a cluster's file system for one job. An estimate."""
LOADERS = 4
"""Cores that read and hash for one GPU. An assumption."""


@dataclass(frozen=True)
class Constants:
    """What was measured, per checkpoint unless marked.

    Attributes:
        size: bytes of weights.
        read, hash: bytes per second of decoding and of hashing on one core, from the page cache.
        flops: operations.
        seconds: processor time here, on one core.
        report: bytes of its report in an audit table.
        writing: seconds per report of writing a table.
        task: seconds per task of Ray on this machine; None where Ray is not installed.
    """

    size: int
    read: float
    hash: float
    flops: int
    seconds: float
    report: float
    writing: float
    task: float | None


def measured() -> Constants:
    """Take every constant on this machine."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = build("resmlp", seed=0)
    samples = drawn(3072, "cpu")
    with FlopCounterMode(display=False) as flops:
        bare(net, samples)
    fused(net, samples)
    seconds = median(lambda: fused(net, samples), 5)
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "model.safetensors"
        save_file({name: value.clone() for name, value in net.state_dict().items()}, weights)
        size = weights.stat().st_size
        read = size / median(lambda: load_checkpoint(weights))
        hashed = size / median(lambda: file_hash(weights))
        audits, count = Path(folder) / "audit.json", 5_000
        table_of(count, audits)
        rows = scan([audits]).rows
        writing = median(lambda: write_audit_table(audits, rows), 3) / count
        report = audits.stat().st_size / count
    return Constants(
        size, read, hashed, flops.get_total_flops(), seconds, report, writing, ray_task()
    )


def median(run: Callable[[], object], times: int = 9) -> float:
    """Median processor seconds of a call: what other programs on the machine cannot falsify."""
    return statistics.median(Clock("cpu", processor=True).seconds(run) for _ in range(times))


def ray_task(tasks: int = 400) -> float | None:
    """Seconds per empty task, sent and fetched by one driver."""
    try:
        import ray
    except ImportError:
        return None
    ray.init(
        "local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR"
    )
    try:
        empty = ray.remote(_nothing)
        ray.get([empty.remote() for _ in range(20)])
        begun = time.perf_counter()
        ray.get([empty.remote() for _ in range(tasks)])
        return (time.perf_counter() - begun) / tasks
    finally:
        ray.shutdown()


def _nothing() -> None:
    pass


def constants_table(c: Constants) -> None:
    """Print what was measured."""
    rows = [
        ("weights per checkpoint", amount(c.size / 1e6, "MB")),
        ("opening it (memory-mapped), one core", amount(c.read / 1e9, "GB/s")),
        ("hashing (SHA-256), one core", amount(c.hash / 1e9, "GB/s")),
        ("operations per checkpoint", amount(c.flops / 1e9, "GFLOP")),
        ("one core, per checkpoint", amount(c.seconds, "s")),
        ("one core achieves", amount(c.flops / c.seconds / 1e9, "GFLOP/s")),
        ("report in the audit table", amount(c.report, "B")),
        ("writing a table, per report", amount(1e6 * c.writing, "µs")),
    ]
    if c.task is not None:
        rows.append(("Ray, per task", amount(1e3 * c.task, "ms")))
    table(("measured here", ""), rows, "Constants")


def million_table(c: Constants) -> None:
    """Print hours for a million checkpoints, part by part."""
    volume = MILLION * c.size
    loading = volume * (1 / c.hash + 1 / c.read)
    tasks = None if c.task is None else MILLION / GPU_GROUP * c.task
    whole = MILLION * c.writing
    rows = [
        ("arithmetic", hours(MILLION * c.seconds / 2), *both(MILLION * c.flops / GPU_FLOPS)),
        (
            "weights from disk",
            hours(volume / DISK),
            hours(volume / DISK),
            hours(volume / SHARED_DISK),
        ),
        ("hashing and decoding", hours(loading / 2), *both(loading / LOADERS)),
        ("the table, written once", *[hours(whole)] * 3),
        ("tasks through one driver", "", "", "" if tasks is None else hours(tasks)),
    ]
    table(
        ("part, if it were alone", "2 cores as here", "1 GPU (estimate)", "64 GPUs (estimate)"),
        rows,
        f"{MILLION:,} checkpoints: {volume / 1e12:.1f} TB of weights, {MILLION * c.report / 1e9:.1f} GB of reports",
    )
    print(
        "Every run is appended to the journal when it is measured; the whole table is written once, at the end, "
        f"in {whole:.0f} s.\n"
    )


def both(seconds: float) -> tuple[str, str]:
    """Hours on one and on 64 machines."""
    return hours(seconds), hours(seconds / 64)


def hours(seconds: float) -> str:
    """Seconds in the unit one would say them in.

    >>> hours(7200), hours(90), hours(12)
    ('2.0 h', '1.5 min', '12 s')
    """
    if seconds >= 3600:
        return f"{seconds / 3600:,.1f} h"
    return f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.0f} s"


def main() -> None:
    found = measured()
    constants_table(found)
    million_table(found)


if __name__ == "__main__":
    main()
