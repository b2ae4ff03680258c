"""What a job names, read and checked: its manifest, its hashes, its weights, its network."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from fa_core.engine import provenance
from fa_core.engine.evaluation import Plan, settle
from fa_core.engine.jobs import Job
from fa_core.engine.memory import is_out_of_memory
from fa_core.engine.room import check_room
from fa_core.measure.checkpoint import Checkpoint, load_checkpoint
from fa_core.measure.network import network_for
from fa_core.runs import WEIGHTS, Manifest, is_run, read_manifest


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
