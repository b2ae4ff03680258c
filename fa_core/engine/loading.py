"""The samples a job is measured on: settled from its options and its manifest, loaded once per worker.

What a job names, read and checked: its manifest, its hashes, its weights, its network.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor, nn

from fa_core.data import DataSet, eval_order, load_data
from fa_core.engine import provenance
from fa_core.engine.jobs import Job, MeasureOptions, no_data
from fa_core.engine.memory import check_room
from fa_core.errors import UsageError
from fa_core.measure.checkpoint import Checkpoint, load_checkpoint, network_for
from fa_core.measure.fused import cut, is_out_of_memory
from fa_core.runs import WEIGHTS, Manifest, is_run, read_manifest

BATCHES, BATCH_SIZE = 10, 128
"""K and B where neither the options nor a manifest say otherwise (docs/protocol.md §3)."""

TEST_BATCH = 1000
"""Samples per forward pass when only the accuracy is wanted."""


@dataclass(frozen=True)
class Plan:
    """Which samples.

    Attributes:
        data: data SPEC.
        typed: whether the person typed it, so that it may name code.
        batches: K.
        batch_size: B.
        eval_seed: picks the samples of the batches.
    """

    data: str
    typed: bool
    batches: int
    batch_size: int
    eval_seed: int


@dataclass(frozen=True)
class Evaluation:
    """The samples themselves, on the device.

    Attributes:
        test_x: the whole test part, for the accuracy.
        test_y: its labels.
        batches: K disjoint (x, y), for the diagnostics.
        data_hash: of the test part.
        batched: so many of the first test samples are those of the batches; 0 = it is not known where they are.
    """

    test_x: Tensor
    test_y: Tensor
    batches: list[tuple[Tensor, Tensor]]
    data_hash: str
    batched: int = 0


def settle(options: MeasureOptions, manifest: Manifest | None, where: Path) -> Plan:
    """What the options leave open comes from the manifest, the rest from the protocol.

    Raises:
        UsageError: no data to measure on, or sizes below 1.
    """
    data = options.data or (manifest.data if manifest else None)
    if data is None:
        raise no_data(where)
    batches = _first(options.batches, manifest.eval_batches if manifest else None, BATCHES)
    batch_size = _first(options.batch_size, manifest.eval_batch_size if manifest else None, BATCH_SIZE)
    for option, value in (("--batches", batches), ("--batch-size", batch_size)):
        if value < 1:
            raise UsageError(f"{option} {value}", hint="give at least 1")
    seed = _first(options.eval_seed, manifest.eval_seed if manifest else None, 0)
    return Plan(data, options.data is not None and options.data_typed, batches, batch_size, seed)


@lru_cache(maxsize=2)
def evaluation(plan: Plan, device: str) -> Evaluation:
    """The samples of a plan, kept for the next job that wants the same.

    Raises:
        UsageError, UnreadableInput: as `load_data`.
    """
    data = _loaded(plan.data, plan.typed)
    order, batched = eval_order(len(data.test_y), plan.batches, plan.batch_size, plan.eval_seed)
    x, y = (samples[order].to(device) for samples in (data.test_x, data.test_y))
    size = min(plan.batch_size, batched)
    batches = list(zip(cut(x[:batched], size), cut(y[:batched], size), strict=True))
    return Evaluation(test_x=x, test_y=y, batches=batches, data_hash=data.hash, batched=batched)


@lru_cache(maxsize=2)
def _loaded(spec: str, typed: bool) -> DataSet:
    return load_data(spec, allow_code=typed)


def _first(*choices: int | None) -> int:
    return next(choice for choice in choices if choice is not None)


@dataclass(frozen=True)
class Read:
    """A job's files.

    Attributes:
        job: the job.
        manifest: its run's manifest, if it has one.
        plan: which samples it is measured on.
        hashes: of the files that were read.
        checkpoint: its weights, on the CPU.
        network: with the weights in it; None until it is built.
    """

    job: Job
    manifest: Manifest | None
    plan: Plan
    hashes: dict[str, str]
    checkpoint: Checkpoint
    network: nn.Module | None = None


@dataclass(frozen=True)
class Loaded(Read):
    """A job that is ready to be measured: its network is on the device."""

    network: nn.Module


def read(job: Job, device: str) -> Read:
    """Read a job's files; a checkpoint for which there is no memory on the device is refused before.

    Raises:
        FaError: whatever keeps them from being read, in words.
    """
    path = Path(job.checkpoint)
    run = provenance.run_of(path)
    manifest = read_manifest(run) if run is not None and is_run(run) else None
    plan = settle(job.options, manifest, path)
    weights = path if run is None else run / WEIGHTS
    check_room(weights, device)
    return Read(job, manifest, plan, provenance.input_hashes(path), load_checkpoint(weights))


def load(job: Job, device: str) -> Loaded:
    """Read a job's files and put its network on the device.

    Raises:
        FaError: whatever keeps it from being loaded, in words.
    """
    return placed(built(read(job, device)), device)


def built(files: Read) -> Read:
    """With its network, on the CPU.

    Raises:
        FaError: tensors of no known network, or that do not fit it.
    """
    if files.network is not None:
        return files
    options = files.job.options
    network = network_for(files.checkpoint, files.manifest, options.model, as_is=options.dtype == "as-is")
    return replace(files, network=network)


def placed(files: Read, device: str) -> Loaded:
    """With its network on the device; it is built already."""
    assert files.network is not None
    fields = {name: getattr(files, name) for name in ("job", "manifest", "plan", "hashes", "checkpoint")}
    return Loaded(**fields, network=files.network.to(device))


class Loader:
    """Loads jobs in a thread of its own, while the device computes: on CUDA up to the device, on a CPU their files.

    The person's own code is not run there but when a job's turn comes: it may draw random numbers, and so may
    what is measured meanwhile.

    Args:
        device: where networks go.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        # asked for once in this thread, the number of its own threads no longer follows the loader's
        torch.get_num_threads()
        self._thread = ThreadPoolExecutor(1, "loader", torch.set_num_threads, (1,))
        self._stream = torch.cuda.Stream(device) if device.startswith("cuda") else None  # type: ignore[no-untyped-call]
        self._asked: dict[str, tuple[Job, Future[Read]]] = {}

    def ask(self, jobs: Iterable[Job]) -> None:
        """Begin to load these, in this order, if they are not loaded already."""
        for job in jobs:
            if self._asked.get(job.id, (None,))[0] != job:
                self._asked[job.id] = (job, self._thread.submit(self._load, job))

    def keep_only(self, jobs: Iterable[Job]) -> None:
        """Forget what was loaded for others."""
        wanted = {job.id for job in jobs}
        for job_id in self._asked.keys() - wanted:
            self._asked.pop(job_id)[1].cancel()

    def get(self, job: Job) -> Loaded:
        """A job, loaded; waits for it.

        Raises:
            FaError: whatever keeps it from being loaded, in words.
        """
        self.ask([job])
        return placed(built(self._asked.pop(job.id)[1].result()), self._device)

    def close(self) -> None:
        """End the thread; what it was asked for is forgotten."""
        self.keep_only([])
        self._thread.shutdown()

    def _load(self, job: Job) -> Read:
        files = read(job, self._device)
        # a CPU has no time to spare for building: it would take it from what is measured
        if self._stream is None or job.options.model is not None:
            return files
        files = built(files)
        assert files.network is not None
        _move(files.network, self._stream)
        return files


def _move(network: nn.Module, stream: torch.cuda.Stream) -> None:
    """Copy a network to a device beside what that computes; it stays where it is while there is no memory for it."""

    def moved(tensor: Tensor) -> Tensor:
        return tensor.pin_memory().to(stream.device, non_blocking=True)

    try:
        with torch.cuda.stream(stream):
            network._apply(moved)  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
    stream.synchronize()
