"""Inputs of a job, read and checked: samples, manifest, hashes, weights, network, memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from fa_core.data import DataSet, GivenBatches, eval_order, load_test_data
from fa_core.engine.devices import check_counts
from fa_core.engine.jobs import (
    DeviceFull,
    Job,
    MeasureOptions,
    input_hashes,
    no_data,
    run_of,
    stamp,
)
from fa_core.errors import FaError, MeasureError, UnreadableInput
from fa_core.facts.run_names import WEIGHTS, Manifest, is_run, read_manifest
from fa_core.files import exists, free_ram, open_file, size_of
from fa_core.formats.checkpoint_file import files_of
from fa_core.measure.checkpoint import Checkpoint, load_checkpoint
from fa_core.measure.checkpoint_network import fitted, network_for
from fa_core.measure.microbatches import cut
from fa_core.measure.pass_errors import is_out_of_memory

BATCHES, BATCH_SIZE = 10, 128
"""K and B where neither the options nor a manifest say otherwise (docs/protocol.md §3)."""

TEST_BATCH = 1000
"""Samples per forward pass when only the accuracy is wanted."""

GROUP_SHARE = 0.7
"""Part of a device's free memory that a group may plan with; the rest is for what cannot be
estimated."""

FULL_OF_OTHERS = 0.5
"""A device of which other processes hold this part and more counts as theirs."""

T = TypeVar("T")


@dataclass(frozen=True)
class Plan:
    """Which samples.

    Attributes:
        data: data SPEC.
        typed: whether the user typed it, so that it may name code.
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
        batches: K disjoint (x, y), or mappings, for the diagnostics.
        data_hash: of the test part.
        batched: so many of the first test samples are those of the batches; 0 = it is not known
            where they are.
        order: (n,), the place of each test sample in the data set's test part; None = they are in
            its order.
        given: test batches of the user's, for the accuracy in place of `test_x` and `test_y`.
        scaling: how pixels became numbers, where that was a choice.
    """

    test_x: Tensor
    test_y: Tensor
    batches: list[Any]
    data_hash: str
    batched: int = 0
    order: Tensor | None = None
    given: list[Any] | None = None
    scaling: str = ""

    def in_data_order(self, values: Tensor) -> Tensor:
        """One value per test sample, in the order of the data set's test part: the same for every
        eval seed."""
        if self.order is None:
            return values
        return torch.empty_like(values).index_copy_(0, self.order, values)


def settle(options: MeasureOptions, manifest: Manifest | None, where: Path) -> Plan:
    """What the options leave open comes from the manifest, the rest from the protocol.

    Raises:
        UsageError: no data to measure on, or sizes below 1.
    """
    data = options.data or (manifest.data if manifest else None)
    if data is None:
        raise no_data(where)
    given = (options.batches, options.batch_size, options.eval_seed)
    if manifest:
        usual = (manifest.eval_batches, manifest.eval_batch_size, manifest.eval_seed)
    else:
        usual = (BATCHES, BATCH_SIZE, 0)
    batches, batch_size, seed = (b if a is None else a for a, b in zip(given, usual, strict=True))
    check_counts(batches=batches, batch_size=batch_size)
    return Plan(data, options.data is not None and options.data_typed, batches, batch_size, seed)


@lru_cache(maxsize=2)
def evaluation(plan: Plan, device: str) -> Evaluation:
    """The samples of a plan, kept for the next job that wants the same.

    Raises:
        UsageError, UnreadableInput: as `load_data`.
    """
    data = _loaded(plan.data, plan.typed)
    if isinstance(data, GivenBatches):
        none = torch.empty(0)
        return Evaluation(none, none, data.batches[: plan.batches], data.hash, given=data.batches)
    order, batched = eval_order(len(data.test_y), plan.batches, plan.batch_size, plan.eval_seed)
    x, y = (samples[order].to(device) for samples in (data.test_x, data.test_y))
    size = min(plan.batch_size, batched)
    batches = list(zip(cut(x[:batched], size), cut(y[:batched], size), strict=True))
    return Evaluation(x, y, batches, data.hash, batched, order, scaling=data.scaling)


@lru_cache(maxsize=2)
def _loaded(spec: str, typed: bool) -> DataSet | GivenBatches:
    return load_test_data(spec, allow_code=typed)


@dataclass(frozen=True)
class Files:
    """A job's files.

    Attributes:
        job: the job.
        manifest: its run's manifest, if it has one.
        plan: which samples it is measured on.
        hashes: of the files that were read.
        checkpoint: its weights, on the CPU.
        stamp: of the files that hold them, before they were read.
    """

    job: Job
    manifest: Manifest | None
    plan: Plan
    hashes: dict[str, str]
    checkpoint: Checkpoint
    stamp: list[list[int]]


@dataclass(frozen=True)
class Loaded(Files):
    """A job that is ready to be measured: its network, with the weights in it, is on the device."""

    network: nn.Module


def read(job: Job, device: str) -> Files:
    """Read a job's files; a checkpoint that is larger than free memory is refused before.

    Raises:
        FaError: why they cannot be read.
    """
    path = Path(job.checkpoint)
    run = run_of(path)
    if run is not None and is_run(run):
        manifest = read_manifest(run)
    else:
        manifest = None
    plan = settle(job.options, manifest, path)
    if run is None:
        weights = path
    else:
        weights = run / WEIGHTS
    if manifest is not None and not exists(weights):
        hint = "what was recorded of the run can be shown; to measure it, train it again"
        raise UnreadableInput("the weights are not there", where=weights, hint=hint)
    check_fits(weights, device)
    before = stamp(path)
    return Files(
        job,
        manifest,
        plan,
        input_hashes(path),
        load_checkpoint(weights, job.options.weights),
        before,
    )


def load(job: Job, device: str, files: Files | None = None) -> Loaded:
    """Read a job's files, if they are not given, and put its network on the device.

    Raises:
        FaError: why it cannot be loaded: also tensors of no known network, or that do not fit it.
    """
    files, options = files or read(job, device), job.options
    network = network_for(
        files.checkpoint, files.manifest, options.model, as_is=options.dtype == "as-is"
    )
    taken = fitted(files.checkpoint, network.state_dict())
    return Loaded(**{**vars(files), "checkpoint": taken}, network=network.to(device))


class Loader:
    """Reads the files of the next jobs in a thread of its own, while the device computes.

    Networks are built when a job's turn comes: the user's own code may draw random numbers, and so
    may what is measured meanwhile.

    Args:
        device: where networks go.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        # read once in this thread, the number of its own threads no longer follows the loader's
        torch.get_num_threads()
        self._thread = ThreadPoolExecutor(1, "loader", torch.set_num_threads, (1,))
        self._asked: dict[str, Future[Files]] = {}

    def ask(self, jobs: Iterable[Job]) -> None:
        """Begin to read these, in this order, if they were not asked for already."""
        for job in jobs:
            if job.id not in self._asked:
                self._asked[job.id] = self._thread.submit(read, job, self._device)

    def get(self, job: Job) -> Loaded:
        """A job, loaded; waits for it.

        Raises:
            FaError: why it cannot be loaded.
        """
        self.ask([job])
        return load(job, self._device, self._asked.pop(job.id).result())

    def forget(self, job: Job) -> None:
        """Drop what was read for a job, if anything."""
        self._asked.pop(job.id, None)


def halving(run: Callable[[int], T], size: int, note: Callable[[str], None]) -> T:
    """Run with passes of ``size`` samples, then of half as many, until it fits into memory; the
    numbers stay the same.

    Args:
        run: takes the most samples that a pass may hold.
        size: the first try.
        note: called each time it is halved.

    Raises:
        MeasureError: one sample is too much.
    """
    while True:
        try:
            return run(size)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            if size <= 1:
                hint = "free the device, or choose another one with --device"
                raise MeasureError(
                    "out of memory, even with one sample at a time", hint=hint
                ) from error
        # outside the except clause, whose exception keeps the failed pass alive
        size = (size + 1) // 2
        release()
        note(f"out of memory: batch halved to passes of {size} samples (the numbers stay the same)")


def release() -> None:
    """Give back memory that is not referred to any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def free_memory(device: str) -> int:
    """Bytes that this process can still get on a device, of RAM as the system estimates them."""
    if device.startswith("cuda"):
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + cached
    return free_ram()


def check_fits(path: Path, device: str) -> None:
    """Refuse a checkpoint that is larger than the memory it has to go through and into, before it
    is read.

    Raises:
        MeasureError: says both sizes.
        UnreadableInput: no such file.
    """
    size = 0
    for each in files_of(path):
        with open_file(each) as file:
            size += size_of(file)
    for place in dict.fromkeys(("cpu", device)):
        if size > (free := free_memory(place)):
            what = (
                f"is larger than memory: {_gigabytes(size)}, and {_gigabytes(free)} are free "
                f"on {place}"
            )
            raise MeasureError(
                what, where=path, hint="free memory, or measure it on a larger machine"
            )


def group_size(bytes_per_member: int, device: str) -> int:
    """How many networks fit into a device's free memory at once, at least 1."""
    return max(1, int(free_memory(device) * GROUP_SHARE) // max(1, bytes_per_member))


def does_not_fit(where: str, device: str) -> FaError:
    """The error when memory ran out before the first pass, while the network or the samples were
    put there."""
    what, hint = (
        f"out of memory: the network or the samples do not fit on {device}",
        "free the device",
    )
    if not device.startswith("cuda"):
        return MeasureError(what, where=where, hint=f"{hint}, or choose another one with --device")
    free, total = torch.cuda.mem_get_info(device)
    others = total - free - torch.cuda.memory_reserved(device)
    kind = DeviceFull if others >= FULL_OF_OTHERS * total else MeasureError
    held = f", other processes hold {_gigabytes(others)} of its {_gigabytes(total)}"
    return kind(what + held, where=where, hint=f"{hint}, or choose another one with --device")


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.3g} GB"
