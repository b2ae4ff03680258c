"""Many networks of one built-in architecture in common passes; every other network is measured by itself.

A group takes one forward pass per test batch, one forward and one backward pass per eval batch, for all members:
`torch.func` runs the code of the first on the stacked tensors of all. What does not run together, or is rare, falls
back to the ordinary path, network by network, and says why.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.utils._python_dispatch import TorchDispatchMode

from fa_core.errors import FaError, is_device_lost
from fa_core.measure.accumulator import CannotStack, Diagnosed, Tally
from fa_core.measure.accuracy import (
    Float64Twin,
    Progress,
    classified,
    decide,
    near_ties,
    run_accuracy,
)
from fa_core.measure.batches import BatchLog
from fa_core.measure.diagnose import run_diagnosis
from fa_core.measure.fused import backward, explained, is_out_of_memory, on_device, pair, placed
from fa_core.measure.isolate import (
    AS_IS,
    answer,
    as_written,
    borrow,
    measuring_arithmetic,
    rows,
    target_dtype,
)
from fa_core.measure.taps import Stream, Taps
from fa_core.models import ARCHS, StreamNet

Pairs = list[tuple[Tensor, Tensor]]

NOT_STACKED = (
    "not stacked with the others: built-in networks of one kind are, where no taps are given"
)
"""What is said of a network that shares no passes."""


@dataclass(frozen=True)
class Member:
    """What came out for one network.

    Attributes:
        right: (n,) bool, which of the samples behind the accuracy it classified rightly; None where it failed.
        diagnosis: what its report is made of; None where it failed.
        error: why it failed; the others are unaffected.
        note: why it was measured by itself, where others were measured together or could have been.
    """

    right: Tensor | None
    diagnosis: Diagnosed | None
    error: FaError | None
    note: str = ""

    @property
    def acc(self) -> float | None:
        """Its accuracy on the test samples; None where it failed."""
        return None if self.right is None else int(self.right.sum()) / len(self.right)


@dataclass(frozen=True)
class Request:
    """The samples and how they are to be measured.

    Attributes:
        batches: for the diagnostics.
        test: for the accuracy.
        taps: as for `diagnose`, for all networks; any but None measures them one by one.
        norm_batches: as for `diagnose`.
        dtype: as for `diagnose`; ``"as-is"`` measures them one by one.
        count_batches: the samples of `batches` count for the accuracy, too; they are none of those of `test`, which
            may then be empty.
    """

    batches: list[Any]
    test: list[Any]
    taps: Taps = None
    norm_batches: int = 1
    dtype: str | None = None
    count_batches: bool = False


@dataclass
class _Counter:
    """Batches done, of all that are known to be needed."""

    listener: Progress | None
    total: int = 0
    done: int = 0

    def step(self, *_: object) -> None:
        self.done += 1
        if self.listener is not None:
            self.listener(self.done, self.total)


def measure_together(
    networks: Sequence[nn.Module],
    batches: Iterable[Any],
    test: Iterable[Any],
    *,
    on_batch: Progress | None = None,
    **how: Any,
) -> list[Member]:
    """Accuracy and the four diagnostics of many networks, built-in ones that differ in their weights alone together.

    The numbers are those of `accuracy` and `diagnose`: float32 norms and (c) to a relative 1e-5 (the products are
    summed in another order), accuracies exactly (near-ties are decided in float64).

    Args:
        networks: on their device; they are left as they are. Networks of several kinds may be mixed.
        batches: (x, y) pairs for the diagnostics, as for `diagnose`; read into a list.
        test: (x, y) pairs for the accuracy; read into a list.
        on_batch: called with (batches done, batches in all); the second grows where a group has to be taken apart.
        how: the other fields of a `Request`.

    Returns:
        One `Member` per network, in order. One that fails carries its error and leaves the others as they are.

    Raises:
        Exception: memory ran out (try fewer networks), the device is lost, or what ``on_batch`` raised.

    Source: docs/protocol.md §3.

    >>> import torch
    >>> from fa_core.models import build
    >>> nets = [build("resmlp", input_dim=2, d=4, L=1, num_classes=2, seed=seed) for seed in range(3)]
    >>> found = measure_together(nets, [(torch.eye(2), torch.tensor([0, 1]))], [(torch.eye(2), torch.tensor([0, 1]))])
    >>> [len(member.diagnosis.report().residual_norms) for member in found]
    [2, 2, 2]
    """
    request = Request(list(batches), list(test), **how)
    groups: defaultdict[Hashable, list[int]] = defaultdict(list)
    for index, network in enumerate(networks):
        groups[kind(as_written(network), request) or index].append(index)
    steps = len(request.batches) + len(request.test)
    counter = _Counter(on_batch, total=len(groups) * steps)
    members: dict[int, Member] = {}
    for indices in groups.values():
        group = [as_written(networks[index]) for index in indices]
        found: list[Member] = []
        note = "" if len(networks) == 1 else NOT_STACKED
        if len(group) > 1:
            try:
                found = _stacked(group, request, counter)
            except FaError as error:
                _raise_if_fatal(error)
                note = f"{len(group)} runs measured one by one: {error.what}"
                counter.total += len(group) * steps
        found = found or [_alone(network, request, counter, note) for network in group]
        members.update(zip(indices, found, strict=True))
    return [members[index] for index in range(len(networks))]


def kind(network: nn.Module, request: Request) -> Hashable:
    """What networks have in common that share passes: all but the values of their tensors; None where one shares none.

    Only networks as they are built here share any: what others do may depend on more than can be compared.

    >>> request = Request([], [], None, 1, None, False)
    >>> kind(nn.Linear(1, 1), request) is None
    True
    """
    built_in = isinstance(network, StreamNet) and type(network) is ARCHS.get(network.arch)
    if (
        not built_in
        or request.taps is not None
        or request.dtype == AS_IS
        or any(map(_altered, network.modules()))
    ):
        return None
    tensors = [(name, t.shape, t.dtype, t.device) for name, t in _tensors(network).items()]
    # the text of a module holds its classes and constants: Linear(…, bias=True), LayerNorm(…, eps=1e-05)
    return type(network), repr(network), repr(network.arch_args), tuple(tensors)


def _altered(module: nn.Module) -> bool:
    """Whether a module has hooks, or a forward pass of its own."""
    own = vars(module)
    return any(kept for name, kept in own.items() if name.endswith("_hooks")) or "forward" in own


def _tensors(network: nn.Module) -> dict[str, Tensor]:
    return dict(chain(network.named_parameters(), network.named_buffers()))


def _raise_if_fatal(error: FaError) -> None:
    """Raise an error again after which none can be measured: memory ran out, or the device is lost."""
    if is_out_of_memory(error) or is_device_lost(error):
        raise error


def _alone(network: nn.Module, request: Request, counter: _Counter, note: str) -> Member:
    """One network, measured in the ordinary way."""
    taps, dtype = request.taps, request.dtype
    try:
        tested: list[Tensor] = []
        if request.test or not request.count_batches:
            tested = run_accuracy(network, request.test, taps, dtype, on_batch=counter.step).right
        diagnosis = run_diagnosis(
            network,
            request.batches,
            taps,
            norm_batches=request.norm_batches,
            dtype=dtype,
            on_batch=counter.step,
        )
    except FaError as error:
        _raise_if_fatal(error)
        # without its traceback, which holds the tensors of the failed pass
        return Member(None, None, copy.copy(error), note)
    seen = diagnosis.samples().right if request.count_batches else []
    return Member(torch.cat([part.cpu() for part in (*seen, *tested)]), diagnosis, None, note)


class Stack:
    """N built-in networks that differ in their tensors' values alone; what comes out has them as its first axis.

    Args:
        networks: of one `kind`; they are only read.
        dtype: what they are computed in; None = their own.
    """

    def __init__(self, networks: Sequence[nn.Module], dtype: torch.dtype | None = None) -> None:
        named = [_tensors(network) for network in networks]
        self._tensors: dict[str, Tensor] = {}
        for name, first in named[0].items():
            members = torch.stack([tensors[name].detach() for tensors in named])
            converted = members.to(dtype) if dtype and first.is_floating_point() else members
            self._tensors[name] = converted.requires_grad_(isinstance(first, nn.Parameter))
        # holds no values: a tensor that is missing in the stack would raise
        self._skeleton = copy.deepcopy(networks[0]).to("meta").eval()

    def logits(self, x: Tensor) -> Tensor:
        """What the networks answer to (B, ...): (N, B, C), without a graph."""
        with torch.no_grad():
            logits: Tensor = self._run(x)
        return logits

    def forward(self, x: Tensor) -> Stream:
        """Logits (N, B, C) and states (N, B, ...); their graph starts at the weights: inputs may be token numbers."""
        logits, hidden = self._run(x, return_hidden=True)
        return Stream(logits, hidden, hidden, [f"h_{l}" for l in range(len(hidden))])

    def _run(self, x: Tensor, **options: bool) -> Any:
        def member(tensors: dict[str, Tensor], x: Tensor) -> Any:
            return functional_call(self._skeleton, tensors, (x,), options)

        return vmap(member, in_dims=(0, None))(self._tensors, x)


@dataclass
class Answers:
    """What the members answered to every batch.

    Attributes:
        right: (N, B) bool, which classified which sample rightly.
        near: (N, B) bool, what float32 cannot decide.
    """

    right: list[Tensor] = field(default_factory=list)
    near: list[Tensor] = field(default_factory=list)

    def add(self, logits: Tensor, y: Tensor) -> None:
        """Add one batch: logits (N, B, C), y (B,)."""
        self.right.append(classified(logits, y))
        near = near_ties(logits)
        self.near.append(near if logits.dtype != torch.float64 else torch.zeros_like(near))

    def settle(
        self, networks: Sequence[nn.Module], batch_at: Callable[[int], tuple[Tensor, Tensor]]
    ) -> None:
        """Decide the near-ties as for a network by itself: in float64, network by network."""
        ends = list(accumulate(near.shape[1] for near in self.near))
        fetched = np.split(torch.cat(self.near, dim=1).cpu().numpy(), ends[:-1], axis=1)
        for member, network in enumerate(networks):
            twin = Float64Twin(network)
            for index, (right, near) in enumerate(zip(self.right, fetched, strict=True)):
                if near[member].any():
                    decide(right[member], torch.from_numpy(near[member]), *batch_at(index), twin)


def _stacked(networks: Sequence[nn.Module], request: Request, counter: _Counter) -> list[Member]:
    """Networks of one kind, measured together.

    Labels are looked at before, near-ties and results after the passes: in between, nothing waits for the device.

    Raises:
        FaError: they do not run together, or whatever one of them would raise by itself.
    """
    first: Any = networks[0]
    target, leaf = target_dtype(first, request.dtype), next(first.parameters())
    samples, tests = (
        _checked([*request.test, *request.batches], first.num_classes),
        len(request.test),
    )
    if len(samples) == tests or not (tests or request.count_batches):
        raise CannotStack("there are no samples")

    def batch_at(index: int) -> tuple[Tensor, Tensor]:
        return on_device(*samples[index], leaf.device, target or leaf.dtype)

    answers, tally, log = (
        Answers(),
        Tally(norm_batches=request.norm_batches, samples_axis=1),
        BatchLog(),
    )
    with measuring_arithmetic(leaf.device):
        stack = Stack(networks, target)
        for index in range(len(samples)):
            x, y = batch_at(index)
            with explained(x, "stacked"):
                if index < tests:
                    answers.add(stack.logits(x), y)
                else:
                    log.add(x, y)
                    done = backward(stack.forward(x), y, tally.layers)
                    tally.add(done)
                    answers.add(done.logits, y)
            counter.step()
        answers.settle(networks, batch_at)
        remarks, seen = [log.judged()], answers.right[tests:]
        counts = [*(seen if request.count_batches else []), *answers.right[:tests]]
        right = torch.cat(counts, dim=1).cpu()
        diagnosed = [
            replace(found, remarks=[*found.remarks, *remarks]) for found in tally.measured(seen)
        ]
    return [Member(each, found, None) for each, found in zip(right, diagnosed, strict=True)]


def _checked(batches: Sequence[Any], classes: int) -> Pairs:
    """Batches as tensors where they are, their labels looked at once.

    Raises:
        MeasureError: batches that cannot be used.
        CannotStack: a label that is no class.
    """
    pairs = [pair(batch, index) for index, batch in enumerate(batches)]
    if pairs:
        labels = torch.stack([torch.stack(y.aminmax()) for _, y in pairs])
        lowest, highest = int(labels.min()), int(labels.max())
        if not 0 <= lowest <= highest < classes or classes == 1:
            raise CannotStack(f"labels {lowest}..{highest}, {classes} classes")
    return pairs


def bytes_per_member(network: nn.Module, batches: Sequence[Any], test_batch: int) -> int:
    """Memory that measuring `network` in a group takes; free memory divided by it is the size of a group.

        weights: as they are and once more in the stack;
        + max(2·A·B, 4·M·T): A = bytes that one sample's forward pass makes, kept for the backward pass and once
          more for its gradients; M = the largest of its tensors; B, T = samples per eval and test batch.

    Found by running one sample; an estimate, on the safe side. The samples themselves are shared, and not in it.

    Args:
        network: on its device.
        batches: eval batches.
        test_batch: T.
    """
    tensors = [*network.parameters(), *network.buffers()]
    held = sum(tensor.nbytes for tensor in tensors)
    target = target_dtype(network)
    stacked = sum(
        t.numel() * (target.itemsize if target and t.is_floating_point() else t.itemsize)
        for t in tensors
    )
    made = _Made()
    try:
        with borrow(network) as net, torch.no_grad():
            sample = rows(placed(batches[0], 0, net)[0], slice(1))
            with made:
                answer(net.model, sample)
    except Exception:
        # what it needs will show when it is measured, if it can be
        pass
    largest = max((len(pair(batch, 0)[1]) for batch in batches), default=0)
    return (
        held
        + stacked
        + max(2 * sum(made.sizes) * largest, 4 * max(made.sizes, default=0) * test_batch)
    )


class _Made(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sizes in bytes of the tensors that operations made; views are none."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sizes: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {t.untyped_storage().data_ptr() for t in args if isinstance(t, Tensor)}
        output = func(*args, **(kwargs or {}))
        for tensor in output if isinstance(output, (tuple, list)) else (output,):
            if isinstance(tensor, Tensor) and tensor.untyped_storage().data_ptr() not in given:
                self.sizes.append(tensor.nbytes)
        return output
