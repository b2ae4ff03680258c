"""Loading of a job's inputs: samples, manifest, hashes, weights, network."""

from __future__ import annotations

import copy
import dataclasses
import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import torch
from msgspec.structs import replace
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from fa_core.audit.devices import check_counts
from fa_core.audit.jobs import (
    AUTO,
    DeviceFull,
    Job,
    MeasureOptions,
    OnNote,
    no_data,
)
from fa_core.errors import FaError, MeasureError, UnreadableInput
from fa_core.files.opening import SLACK, TIMES, check_room, exists
from fa_core.formats.checkpoint_file import input_hashes, run_of, stamp
from fa_core.measure.checkpoint import Checkpoint, load_checkpoint
from fa_core.measure.checkpoint_network import loaded
from fa_core.measure.hooks import LogitsChoice
from fa_core.measure.passes import is_out_of_memory
from fa_core.option_values import import_callable, is_callable_name, is_drawn, network_spec
from fa_core.report.intervals import LOOKS
from fa_core.report.manifest import HUB_FILES, WEIGHTS, Manifest, is_run, read_manifest
from fa_core.zoo.data import GivenBatches, eval_order, load_test_data
from fa_core.zoo.models.base import StreamNet

FULL_OF_OTHERS = 0.5
"""Share of a device's memory from which other processes are blamed for a lack of it."""

ANOTHER_DEVICE = "or choose another one with --device"

T = TypeVar("T")


def halve_until_fits(run: Callable[[int], T], size: int, note: OnNote) -> T:
    """Run with passes of ``size`` samples, and halve them until they fit into memory.

    The numbers are the same for every size.

    Args:
        run: takes the largest number of samples per pass.
        size: the first try.
        note: called at each halving.

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
                raise MeasureError(
                    "out of memory, even with one sample at a time",
                    hint=f"free the device, {ANOTHER_DEVICE}",
                ) from error
        # outside the except clause, whose exception keeps the failed pass alive
        size = (size + 1) // 2
        release()
        note(f"out of memory: batch halved to passes of {size} samples (the numbers stay the same)")


def release() -> None:
    """Free unreferenced memory, of CUDA's allocator too."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def does_not_fit(where: str, device: str) -> FaError:
    """The error for a network or samples that do not fit on the device."""
    what = f"out of memory: the network or the samples do not fit on {device}"
    hint = f"free the device, {ANOTHER_DEVICE}"
    kind = MeasureError
    if device.startswith("cuda"):
        free, total = torch.cuda.mem_get_info(device)
        others = total - free - torch.cuda.memory_reserved(device)
        what += f", other processes hold {_gigabytes(others)} of its {_gigabytes(total)}"
        if others >= FULL_OF_OTHERS * total:
            kind = DeviceFull
    return kind(what, where=where, hint=hint)


@contextmanager
def memory_for(where: Path | str, device: str) -> Iterator[None]:
    """Within, a lack of memory is one line: `does_not_fit`, or the error itself if it is one line
    already and other processes are not at fault."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        release()
        full = does_not_fit(str(where), device)
        if isinstance(error, FaError) and not isinstance(full, DeviceFull):
            raise
        raise full from error


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.3g} GB"


BATCHES, BATCH_SIZE = 10, 128
"""Default K and B (docs/protocol.md §3)."""

TEST_BATCH = 1000
"""Samples per forward pass that measures only the accuracy."""


@dataclass(frozen=True)
class Plan:
    """The samples of a measurement.

    Attributes:
        data: data SPEC.
        typed: whether the user typed it; only then it may name code.
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
    """Loaded samples on the device.

    Attributes:
        test_x: the whole test part, for the accuracy.
        test_y: its labels.
        batches: K disjoint (x, y), or mappings, for the diagnostics.
        data_hash: of the test part.
        order: (n,), index of each test sample in the data set's test part; None = unchanged order.
        given: the user's test batches, which replace `test_x` and `test_y`.
        scaling: scaling of pixels, where there was a choice.
    """

    test_x: Tensor
    test_y: Tensor
    batches: Sequence[object]
    data_hash: str
    order: Tensor | None = None
    given: Sequence[object] | None = None
    scaling: str = ""

    def in_data_order(self, values: Tensor) -> Tensor:
        """One value per test sample, reordered as in the data set's test part: the same for every
        eval seed."""
        if self.order is None:
            return values
        return torch.empty_like(values).index_copy_(0, self.order, values)


def resolve_plan(options: MeasureOptions, manifest: Manifest | None, where: Path) -> Plan:
    """The plan of a measurement: options first, then the manifest, then the protocol's defaults.

    Raises:
        UsageError: no data to measure on, or sizes below 1.
    """
    data = options.data or (manifest.data if manifest else None)
    if data is None:
        raise no_data(where)
    asked = options.batches
    if asked == AUTO:
        asked = LOOKS[-1]
    batches, batch_size, seed = BATCHES, BATCH_SIZE, 0
    if manifest:
        batches, batch_size = manifest.eval_batches, manifest.eval_batch_size
        seed = manifest.eval_seed
    if asked is not None:
        batches = asked
    if options.batch_size is not None:
        batch_size = options.batch_size
    check_counts(batches=batches, batch_size=batch_size)
    return Plan(data, options.data is not None and options.data_typed, batches, batch_size, seed)


@lru_cache(maxsize=2)
def evaluation(plan: Plan, device: str) -> Evaluation:
    """The samples of a plan, cached for the next job.

    Raises:
        UsageError, UnreadableInput: as `load_data`.
    """
    data = _loaded(plan.data, allow_code=plan.typed)
    if isinstance(data, GivenBatches):
        none = torch.empty(0)
        return Evaluation(none, none, data.batches[: plan.batches], data.hash, given=data.batches)
    order, batched = eval_order(len(data.test_y), plan.batches, plan.batch_size, plan.eval_seed)
    x = data.test_x[order].to(device)
    y = data.test_y[order].to(device)
    size = min(plan.batch_size, batched)
    parts = (torch.split(part[:batched], size) for part in (x, y))
    batches = list(zip(*parts, strict=True))
    return Evaluation(x, y, batches, data.hash, order, scaling=data.scaling)


_loaded = lru_cache(maxsize=2)(load_test_data)


USUAL_SAMPLES, PASS, STATES, NARROWEST = 10_000, 128, 8, 32
"""Samples that any file may ask for; those that a pass counts as at least, and that a sample of a
batch counts as, whose states and gradients are kept; and what a layer counts as at least."""


MOST_SAMPLES = 1 << 20
"""Test samples that a manifest may name."""


def _kept(network: nn.Module, x: Tensor) -> int:
    """Bytes that a batch's backward pass keeps, counted without computing it."""
    sizes: list[int] = []
    # nothing is kept, as nothing goes back
    hooks = saved_tensors_hooks(lambda tensor: sizes.append(tensor.nbytes), lambda none: none)
    with suppress(RuntimeError), hooks:
        copy.deepcopy(network).to("meta")(x.to("meta").requires_grad_())
    return sum(sizes)


def check_asked(loaded: Loaded) -> None:
    """Refuse many more samples or batches than the files account for, where no one typed them,
    before they are made.

    Raises:
        UnreadableInput: their states, or what a batch's backward pass keeps, take `TIMES` the files
            and `SLACK`; or more than `MOST_SAMPLES`.
    """
    plan = loaded.plan
    options = loaded.job.options
    data = _loaded(plan.data, allow_code=plan.typed)
    if isinstance(data, GivenBatches):
        return
    asked = kept = 0
    size = sum(size for size, *_ in loaded.stamp)
    count = len(data.test_y)
    batches = min(plan.batches, max(1, count // plan.batch_size))
    batch = min(plan.batch_size, count)
    if not is_drawn(plan.data):
        size += data.test_x.nbytes
    elif not plan.typed:
        asked = count
    if not (options.data_typed and options.batches and options.batch_size):
        asked = max(asked, STATES * batch, batches * max(batch, PASS))
    layers = (t for t in loaded.network.parameters() if t.dim() > 1)
    wide = sum(max(len(layer), NARROWEST) for layer in layers)
    positions = data.test_x.shape[2:].numel()
    values = wide * positions * max(0, asked - USUAL_SAMPLES)
    if isinstance(loaded.network, StreamNet) and not options.batch_size:
        kept = _kept(loaded.network, data.test_x[:batch])
    if max(4 * values, kept) > TIMES * size + SLACK or (count > MOST_SAMPLES and not plan.typed):
        raise UnreadableInput(
            f"names {batches:,} batches of {batch:,} of {count:,} samples, for {size >> 10:,} KiB "
            "in files",
            where=loaded.job.checkpoint,
            hint="type --data, --batches and --batch-size for so many",
        )


def logits_choice(options: MeasureOptions) -> LogitsChoice:
    """Where the network's output has the logits, as `diagnose` takes it.

    Raises:
        UsageError: a function that cannot be imported.

    >>> logits_choice(MeasureOptions(logits="1")), logits_choice(MeasureOptions(logits="scores"))
    (1, 'scores')
    """
    place: LogitsChoice = imported(options.logits)
    if isinstance(place, str) and place.lstrip("-").isdecimal():
        return int(place)
    return place


def imported(text: str | None) -> Any:
    """What ``module:callable`` names; any other text itself.

    Raises:
        UsageError: a function that cannot be imported.
    """
    if text is not None and is_callable_name(text):
        return import_callable(text)
    return text


@dataclass(frozen=True)
class Loaded:
    """A job and its files, its network with the weights on the device.

    Attributes:
        job: the job, with its names: its own, else the manifest's or the weights'.
        manifest: its run's manifest, if it has one.
        plan: its samples.
        hashes: of the files.
        checkpoint: its weights, on the CPU.
        stamp: of its files before they were read, with the times of their last change.
        network: the network.
    """

    job: Job
    manifest: Manifest | None
    plan: Plan
    hashes: dict[str, str]
    checkpoint: Checkpoint
    stamp: list[list[int]]
    network: nn.Module


def load(job: Job, device: str) -> Loaded:
    """Read a job's files, and put its network on the device; refuses a checkpoint larger than free
    memory.

    Raises:
        FaError: it cannot be loaded, e.g. its tensors match no known network.
    """
    path = Path(job.checkpoint)
    options = job.options
    imported(options.credit)  # a wrong name is refused before anything is measured
    run = run_of(path)
    manifest = None
    if run is not None and is_run(run):
        manifest = read_manifest(run)
        if not manifest.epochs_done and manifest.recipe.get("epochs"):
            raise MeasureError(
                "no epoch was completed: its weights are the initialisation",
                where=path,
                hint="train it on with --resume",
            )
    if path.name in HUB_FILES and manifest:
        raise UnreadableInput(f"the weights of a run are {WEIGHTS}", where=path)
    plan = resolve_plan(options, manifest, path)
    weights = run / WEIGHTS if run else path
    if manifest is not None and not exists(weights):
        raise UnreadableInput(
            "the weights are not there",
            where=weights,
            hint="what was recorded of the run can be shown; to measure it, train it again",
        )
    before = stamp(path, 3)
    hint = "free memory, or measure it on a larger machine"
    check_room(sum(size for size, _ in stamp(weights)), None, hint, weights)
    hashes = input_hashes(path)
    checkpoint = load_checkpoint(weights, options.weights)
    network, taken = loaded(checkpoint, manifest, options.model, options.dtype == "as-is")
    if manifest is not None:
        seed = manifest.seed if job.seed is None else job.seed
        axes = job.axes or manifest.axes
        job = replace(job, method=job.method or manifest.method, seed=seed, axes=axes)
    job = replace(job, method=job.method or taken.metadata.get("method", ""))
    return Loaded(job, manifest, plan, hashes, taken, before, network.to(device))


def rebuilt(one: Loaded, device: str) -> Loaded | None:
    """A job with a network of the user's own built again, with other random numbers, and loaded
    with the same weights; None for other networks, which draw nothing that is not saved."""
    options = one.job.options
    if options.model is None:
        return None
    kind, name, _ = network_spec(options.model)
    if kind or not is_callable_name(name):
        return None
    as_is = options.dtype == "as-is"
    network, _ = loaded(one.checkpoint, None, options.model, as_is, seed=1)
    return dataclasses.replace(one, network=network.to(device))
