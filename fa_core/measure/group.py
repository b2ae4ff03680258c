"""Passes shared by many networks of one architecture.

A group takes one forward pass per test batch, and one forward and one backward pass per eval batch,
for all its members: `torch.func` runs the first network's code on the stacked tensors of all.
Networks that cannot be stacked, and rare cases, are measured one by one, with a note that says why.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from fa_core.errors import FaError, is_device_lost
from fa_core.measure.accumulator import Accumulator, CannotStack
from fa_core.measure.accuracy import Progress, run_accuracy
from fa_core.measure.batch_input import Batch, as_batch, move_batch
from fa_core.measure.batches import BatchLog
from fa_core.measure.diagnose import run_diagnosis
from fa_core.measure.diagnosis import Diagnosis
from fa_core.measure.isolate import AS_IS, measuring_arithmetic, target_dtype, uncompiled
from fa_core.measure.pass_errors import as_pass_failed, is_out_of_memory
from fa_core.measure.passes import backward
from fa_core.measure.taps import Taps
from fa_core.measure.vmapped import VmappedAccuracy, VmappedNetworks, named_tensors
from fa_core.models import ARCHS, StreamNet

NOT_VMAPPED = (
    "not stacked with the others: built-in networks of one kind are, where no taps are given"
)
"""Note on a network that shares no passes."""


@dataclass(frozen=True)
class Member:
    """The result for one network.

    Attributes:
        right: (n,) bool, which samples of the accuracy it classified correctly; None if it failed.
        diagnosis: its diagnosis, from which the report is made; None if it failed.
        error: the error if it failed; the other networks are unaffected.
        note: why it was measured alone, if it was and there are others.
    """

    right: Tensor | None
    diagnosis: Diagnosis | None
    error: FaError | None
    note: str = ""

    @property
    def acc(self) -> float | None:
        """Accuracy on the test samples; None if it failed."""
        if self.right is None:
            return None
        return int(self.right.sum()) / len(self.right)


@dataclass(frozen=True)
class Request:
    """Samples and options of a measurement.

    Attributes:
        batches: batches of the diagnostics.
        test: batches of the accuracy.
        taps: as for `diagnose`, for all networks; unless None, they are measured one by one.
        norm_batches: as for `diagnose`.
        dtype: as for `diagnose`; with ``"as-is"`` they are measured one by one.
        count_batches: whether the samples of `batches`, which `test` must not repeat, count for the
            accuracy too; `test` may then be empty.
        decide_at: as for `run_diagnosis`; unless None, networks are measured one by one.
    """

    batches: list[object]
    test: list[object]
    taps: Taps = None
    norm_batches: int = 1
    dtype: str | None = None
    count_batches: bool = False
    decide_at: float | None = None


class _Counter:
    """Progress: batches done, and batches expected so far."""

    def __init__(self, listener: Progress | None, steps: int) -> None:
        self._listener = listener
        self._steps = steps
        self._total = 0
        self._done = 0

    def expect(self, networks: int) -> None:
        """Expect the batches of more networks, or groups of networks."""
        self._total += networks * self._steps

    def step(self, *_: object) -> None:
        """Count one batch as done."""
        self._done += 1
        if self._listener is not None:
            self._listener(self._done, self._total)


def measure_together(
    networks: Sequence[nn.Module],
    batches: Iterable[object],
    test: Iterable[object],
    *,
    on_batch: Progress | None = None,
    **how: Any,
) -> list[Member]:
    """Accuracy and the four diagnostics of many networks.

    Built-in networks that differ only in their weights are measured together. The numbers are those
    of `accuracy` and `diagnose`: float32 norms and (c) to a relative 1e-5 (products are summed in
    another order), accuracies exactly (near-ties are decided in float64).

    Args:
        networks: networks on their device, of any kinds; they are not changed.
        batches: (x, y) pairs for the diagnostics, as for `diagnose`; read into a list.
        test: (x, y) pairs for the accuracy; read into a list.
        on_batch: called with (batches done, batches in all); the total grows when a group is
            measured one by one after all.
        how: the other fields of a `Request`.

    Returns:
        One `Member` per network, in order. A failed one holds its error.

    Raises:
        Exception: memory ran out (try fewer networks), the device is lost, or ``on_batch`` raised.

    Source: docs/protocol.md §3.

    >>> import torch
    >>> from fa_core.models import build
    >>> sizes = {"input_dim": 2, "d": 4, "L": 1, "num_classes": 2}
    >>> nets = [build("resmlp", **sizes, seed=seed) for seed in range(3)]
    >>> batches = [(torch.eye(2), torch.tensor([0, 1]))]
    >>> found = measure_together(nets, batches, batches)
    >>> [len(member.diagnosis.report().residual_norms) for member in found]
    [2, 2, 2]
    """
    request = Request(list(batches), list(test), **how)
    groups: defaultdict[Hashable, list[int]] = defaultdict(list)
    for index, network in enumerate(networks):
        groups[kind(uncompiled(network), request) or index].append(index)
    counter = _Counter(on_batch, steps=len(request.batches) + len(request.test))
    counter.expect(len(groups))
    note = ""
    if len(networks) > 1:
        note = NOT_VMAPPED
    members: dict[int, Member] = {}
    for indices in groups.values():
        group = [uncompiled(networks[index]) for index in indices]
        members.update(zip(indices, _measure_group(group, request, counter, note), strict=True))
    return [members[index] for index in range(len(networks))]


def _measure_group(
    networks: list[nn.Module], request: Request, counter: _Counter, note: str
) -> list[Member]:
    """Measure networks of one kind together, or one by one if they do not run together."""
    if len(networks) > 1:
        try:
            return _together(networks, request, counter)
        except FaError as error:
            _raise_if_fatal(error)
            note = f"{len(networks)} runs measured one by one: {error.what}"
            counter.expect(len(networks))
    return [_alone(network, request, counter, note) for network in networks]


def kind(network: nn.Module, request: Request) -> Hashable:
    """Key of the networks that can share passes: everything but the values of their tensors.

    None for a network that shares none. Only unaltered built-in networks do: the behaviour of
    others may depend on more than can be compared.

    >>> request = Request([], [], None, 1, None, False)
    >>> kind(nn.Linear(1, 1), request) is None
    True
    """
    if not isinstance(network, StreamNet) or type(network) is not ARCHS.get(network.arch):
        return None
    if request.taps is not None or request.dtype == AS_IS or request.decide_at is not None:
        return None
    if any(map(_altered, network.modules())):
        return None
    # repr shows the classes and constants of all modules: Linear(…, bias=True)
    facts: list[Hashable] = [type(network), repr(network), repr(network.arch_args)]
    for name, tensor in named_tensors(network).items():
        facts += [name, tensor.shape, tensor.dtype, tensor.device]
    return tuple(facts)


def _altered(module: nn.Module) -> bool:
    """Whether a module instance has hooks or its own forward."""
    for name, value in vars(module).items():
        if name == "forward" or (name.endswith("_hooks") and value):
            return True
    return False


def _raise_if_fatal(error: FaError) -> None:
    """Raise the error again if nothing can be measured after it: no memory, or no device.

    Raises:
        FaError: the error.
    """
    if is_out_of_memory(error) or is_device_lost(error):
        raise error


def _alone(network: nn.Module, request: Request, counter: _Counter, note: str) -> Member:
    """Measure one network by the ordinary functions."""
    taps, dtype = request.taps, request.dtype
    right: list[Tensor] = []
    try:
        if request.test or not request.count_batches:
            right += run_accuracy(network, request.test, taps, dtype, on_batch=counter.step).right
        diagnosis = run_diagnosis(
            network,
            request.batches,
            taps,
            norm_batches=request.norm_batches,
            dtype=dtype,
            on_batch=counter.step,
            decide_at=request.decide_at,
        )
    except FaError as error:
        _raise_if_fatal(error)
        # a copy has no traceback, which would keep the tensors of the failed pass
        return Member(None, None, copy.copy(error), note)
    if request.count_batches:
        right = [*diagnosis.samples().right, *right]
    return Member(torch.cat([part.cpu() for part in right]), diagnosis, None, note)


def _together(networks: Sequence[nn.Module], request: Request, counter: _Counter) -> list[Member]:
    """Measure networks of one kind together.

    Labels are checked before the passes, near-ties decided and results fetched after them, so that
    no pass waits for the device.

    Raises:
        FaError: they do not run together, or an error that one of them raises alone as well.
    """
    tests = len(request.test)
    samples = _checked([*request.test, *request.batches], networks[0])
    if not request.batches or not (tests or request.count_batches):
        raise CannotStack("there are no samples")
    if request.norm_batches < 1:
        raise CannotStack("no batch gives the norms")
    leaf = next(networks[0].parameters())
    target = target_dtype(networks[0], request.dtype)

    def batch_at(index: int) -> Batch:
        return move_batch(*samples[index], leaf.device, target or leaf.dtype)

    meter = VmappedAccuracy()
    log = BatchLog()
    accumulator = Accumulator(norm_batches=request.norm_batches, samples_axis=1)
    with measuring_arithmetic(leaf.device):
        vmapped = VmappedNetworks(networks, target)
        for index in range(len(samples)):
            x, y = batch_at(index)
            with as_pass_failed(x, "stacked"):
                if index < tests:
                    meter.add(vmapped.logits(x), y)
                else:
                    log.add(x, y)
                    done = backward(
                        vmapped.forward(x), y, accumulator.layers, accumulator.mean_error_at
                    )
                    accumulator.add(done)
                    meter.add(done.logits, y)
            counter.step()
        meter.decide_near_ties(networks, batch_at)
        note = log.note()
        of_batches = meter.right[tests:]
        counting = meter.right[:tests]
        if request.count_batches:
            counting = [*of_batches, *counting]
        right = torch.cat(counting, dim=1).cpu()
        diagnosed = accumulator.measured(of_batches)
    members = []
    for hits, found in zip(right, diagnosed, strict=True):
        members.append(Member(hits, replace(found, notes=[*found.notes, note]), None))
    return members


def _checked(batches: Sequence[object], network: nn.Module) -> list[Batch]:
    """Batches as tensors, their labels checked by one fetch from the device.

    Raises:
        MeasureError: unusable batches.
        CannotStack: a label that is no class.
    """
    checked = [as_batch(batch, index) for index, batch in enumerate(batches)]
    if not checked:
        return checked
    assert isinstance(network, StreamNet)
    classes = network.num_classes
    labels = torch.stack([torch.stack(y.aminmax()) for _, y in checked])
    lowest = int(labels.min())
    highest = int(labels.max())
    if lowest < 0 or highest >= classes or classes == 1:
        raise CannotStack(f"labels {lowest}..{highest}, {classes} classes")
    return checked
