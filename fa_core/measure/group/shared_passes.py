"""Measuring many networks: which of them share their passes, how they do, and what becomes of those that cannot.

A group takes one forward pass per test batch, one forward and one backward pass per eval batch, for all members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from fa_core.errors import FaError, MeasureError, UsageError, is_device_lost
from fa_core.measure.accuracy import Float64Twin, LogitsFunction, Progress, classified, near_ties, run_accuracy
from fa_core.measure.batches import BatchLog
from fa_core.measure.diagnose import run_diagnosis
from fa_core.measure.fused import (
    Pass,
    counted,
    cut,
    fused_pass,
    in_parts,
    is_out_of_memory,
    on_device,
    pair,
    placed,
)
from fa_core.measure.graph import arithmetic, graph_nodes
from fa_core.measure.group.stack import CannotStack, Stack, difference, make_stack, obstacle
from fa_core.measure.isolate import AS_IS, HALF, Draws, as_written, borrow, measuring_arithmetic, target_dtype
from fa_core.measure.norms import check_states
from fa_core.measure.resolve import GuessedTaps, resolve_taps, with_guess
from fa_core.measure.tally import Diagnosed, Divided, Tally
from fa_core.measure.taps import Tapped, Taps, activation_gradients, plain_logits
from fa_core.models.base import StreamNet

Pairs = list[tuple[Tensor, Tensor]]


class Counter:
    """Batches done, of all that are known to be needed.

    Args:
        on_batch: called with (done, total).

    Attributes:
        total: batches of all networks that are measured by themselves, and of all groups.
        raised: what ``on_batch`` raised, which is no failure of a network and is let through.
    """

    def __init__(self, on_batch: Progress | None = None) -> None:
        self._on_batch = on_batch
        self._done = 0
        self.total = 0
        self.raised: Exception | None = None

    def step(self, *_: object) -> None:
        """One more batch is done."""
        self._done += 1
        if self._on_batch is not None:
            try:
                self._on_batch(self._done, self.total)
            except Exception as error:
                self.raised = error
                raise


@dataclass(frozen=True)
class Request:
    """The samples and how they are to be measured; the fields as for `measure_together`."""

    batches: list[Any]
    test: list[Any]
    taps: Taps
    norm_batches: int
    dtype: str | None
    largest_pass: int | None
    progress: Counter
    count_batches: bool = False

    @property
    def steps(self) -> int:
        """Batches of one network, or of one group."""
        return len(self.batches) + len(self.test)


def no_larger(batches: Iterable[Any], largest: int | None) -> list[Any]:
    """The batches, cut into passes of at most ``largest`` samples; what is no such batch stays as it is.

    >>> import torch
    >>> [len(y) for _, y in no_larger([(torch.zeros(5, 1), torch.zeros(5).long())], 2)]
    [2, 2, 1]
    """
    if largest is None:
        return list(batches)
    return [part for batch in batches for part in _cut_batch(batch, largest)]


def _cut_batch(batch: Any, largest: int) -> list[Any]:
    if isinstance(batch, Mapping):
        return [batch]
    try:
        x, y = pair(batch, 0)
    except MeasureError:
        return [batch]
    return list(zip(cut(x, largest), cut(y, largest), strict=True))


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


def measure_alone(network: nn.Module, request: Request, note: str = "") -> Member:
    """Measure one network in the ordinary way.

    Raises:
        torch.OutOfMemoryError: memory ran out.
        Exception: what the listener to the progress raised, or a lost device: none can be measured on it.
    """
    found, error = _attempt(lambda: [_alone(network, request, note)], request.progress)
    if error is None:
        return found[0]
    if not isinstance(error, FaError):
        first_line = (str(error).strip() or "no message").splitlines()[0]
        error = MeasureError(f"the network raised {type(error).__name__}: {first_line}")
    return Member(None, None, error, note)


def _alone(network: nn.Module, request: Request, note: str) -> Member:
    tested: list[Tensor] = []
    if request.test or not request.count_batches:
        tested = run_accuracy(network, request.test, request.taps, request.dtype, on_batch=request.progress.step).right
    diagnosis = run_diagnosis(
        network,
        request.batches,
        taps=request.taps,
        norm_batches=request.norm_batches,
        dtype=request.dtype,
        largest_pass=request.largest_pass,
        on_batch=request.progress.step,
    )
    seen = diagnosis.samples().right if request.count_batches else []
    return Member(torch.cat([part.cpu() for part in (*seen, *tested)]), diagnosis, None, note)


def _attempt(run: Callable[[], list[Member]], progress: Counter) -> tuple[list[Member], Exception | None]:
    """What `run` gives, or the error that it raised, without the frames that hold the tensors of the failed pass.

    Raises:
        torch.OutOfMemoryError: memory ran out, whatever class of exception said so.
        Exception: what the listener to the progress raised, or a lost device.
    """
    try:
        return run(), None
    except Exception as error:
        if error is progress.raised or is_device_lost(error):
            raise
        failed = error
    part: BaseException | None = failed
    while part is not None:
        part.__traceback__ = None
        part = part.__cause__ or part.__context__
    if is_out_of_memory(failed):
        raise failed if isinstance(failed, torch.OutOfMemoryError) else torch.OutOfMemoryError(str(failed))
    return [], failed


def measure_stacked(networks: Sequence[nn.Module], request: Request) -> list[Member]:
    """Measure networks together that differ in their tensors alone.

    The networks themselves are only read. Labels are looked at before, near-ties and results after the passes:
    in between, nothing waits for the device.

    Raises:
        CannotStack: they do not run together.
        Divided: their states become vectors in different ways.
        FaError, Exception: whatever one of them would raise by itself.
    """
    networks = [as_written(network) for network in networks]
    first = networks[0]
    floats = [t for t in chain(first.parameters(), first.buffers()) if t.is_floating_point()]
    if not floats:
        raise CannotStack("it has no floating-point tensors")
    device, as_is = floats[0].device, request.dtype == AS_IS
    if as_is and (any(t.dtype in HALF for t in floats) or torch.is_autocast_enabled(device.type)):
        raise CannotStack("half precision as it runs rounds differently in a group")
    target = target_dtype(first, request.dtype)
    dtype = target or floats[0].dtype
    counted(request.batches if request.count_batches else request.test)
    test, eval_batches = _Batches(request.test, device, dtype), _Batches(request.batches, device, dtype)
    draws = Draws()
    with measuring_arithmetic(device, as_is), draws.passing():
        tapped = None
        if request.taps is not None or not isinstance(first, StreamNet):
            tapped = _try_one(first, request)
            if isinstance(tapped, GuessedTaps):
                request = replace(request, taps=tapped.taps)
        stack = make_stack(networks, request.taps, target)
        found = _measured(networks, stack, test, eval_batches, request)
    if draws.noticed:
        raise CannotStack("it draws random numbers from Python or NumPy")
    return [replace(one, diagnosis=one.diagnosis and with_guess(one.diagnosis, tapped)) for one in found]


def _try_one(network: nn.Module, request: Request) -> Tapped | None:
    """Look at a network's stream as if it was measured by itself, with one sample: inside vmap less of it can be seen.

    Returns:
        How it was tapped; None where there is no batch.

    Raises:
        FaError: the stream cannot be used: it follows the final norm, its first axis is not the batch.
        CannotStack: its gradient is not autograd's.
    """
    for batch in request.batches[:1]:
        with borrow(network, request.dtype) as net:
            x, y = (part[:1] for part in placed(batch, 0, net))
            with net.draws.passing():
                tapped = resolve_taps(net.model, request.taps)
                done = fused_pass(tapped, net.model, x, y)
        check_states(done.hidden, done.names, 1)
        if done.own_backward:
            raise CannotStack("part of its backward pass is its own")
        return tapped
    return None


def _measured(
    networks: Sequence[nn.Module], stack: Stack, test: _Batches, eval_batches: _Batches, request: Request
) -> list[Member]:
    tapped: LogitsFunction = resolve_taps(networks[0], request.taps).logits
    tested = GroupCount(test.__getitem__, tapped if callable(request.taps) else plain_logits)
    seen = GroupCount(eval_batches.__getitem__, tapped)
    tally = Tally(norm_batches=request.norm_batches, samples_axis=1)
    for index in range(len(test)):
        x, y = test[index]
        logits = stack.logits(x)
        check_members(logits, y, test.highest[index])
        tested.update(logits, y)
        request.progress.step()
    for index in range(len(eval_batches)):
        x, y = eval_batches[index]
        run = partial(stacked_pass, stack, layers=tally.layers, highest=eval_batches.highest[index])
        done = in_parts(run, x, y, request.largest_pass, samples_axis=1)
        tally.add(done, f"eval batch {index}")
        seen.update(done.logits, y)
        request.progress.step()
    settle(networks, [tested, seen])
    counts = [*seen.right, *tested.right] if request.count_batches else tested.right
    right = torch.cat(counts, dim=1).cpu()
    remarks = [eval_batches.judged()]
    diagnosed = [replace(found, remarks=remarks) for found in tally.measured(seen.right)]
    return [Member(each, found, None) for each, found in zip(right, diagnosed, strict=True)]


class GroupCount:
    """Which members classified which sample rightly. Near-ties are noted and decided at the end, by `settle`.

    Args:
        batch_at: number → batch that is counted.
        logits_of: how a member by itself is asked for its logits.

    Attributes:
        right: (N, B) bool per batch.
    """

    def __init__(self, batch_at: Callable[[int], tuple[Tensor, Tensor]], logits_of: LogitsFunction) -> None:
        self._batch_at = batch_at
        self._logits_of = logits_of
        self.right: list[Tensor] = []
        self._near: list[Tensor] = []

    def update(self, logits: Tensor, y: Tensor) -> None:
        """Count one batch: logits (N, B, C), y (B,)."""
        self.right.append(classified(logits, y))
        if logits.dtype != torch.float64:
            self._near.append(near_ties(logits))

    def near(self) -> dict[int, dict[int, list[int]]]:
        """member → batch → samples that float32 cannot decide; asks the device once."""
        found: dict[int, dict[int, list[int]]] = {}
        if self._near:
            place = [(batch, sample) for batch, near in enumerate(self._near) for sample in range(near.shape[1])]
            for member, column in torch.cat(self._near, dim=1).nonzero().tolist():
                batch, sample = place[column]
                found.setdefault(member, {}).setdefault(batch, []).append(sample)
        return found

    def decide(self, member: int, twin: Float64Twin, batch: int, samples: list[int]) -> None:
        """Replace what float32 said of some samples of a batch."""
        x, y = self._batch_at(batch)
        chosen = torch.tensor(samples, device=x.device)
        again = twin.logits(x[chosen], self._logits_of)
        if again is not None:
            right = self.right[batch]
            right[member, chosen.to(right.device)] = classified(again, y[chosen].to(again.device)).to(right.device)


def settle(networks: Sequence[nn.Module], counts: Sequence[GroupCount]) -> None:
    """Decide the near-ties of all members as for a network by itself: in float64, network by network."""
    found = [count.near() for count in counts]
    twin = Float64Twin(networks[0])
    for member in sorted(set(chain(*found))):
        twin.become(networks[member])
        for near, count in zip(found, counts, strict=True):
            for batch, samples in near.get(member, {}).items():
                count.decide(member, twin, batch, samples)


def stacked_pass(
    stack: Stack, x: Tensor, y: Tensor, layers: Sequence[int] | None = None, highest: int | None = None
) -> Pass:
    """`fused_pass` of all members at once: its tensors have the members as first axis.

    Args:
        stack: the networks.
        x: inputs (B, ...).
        y: labels (B,).
        layers: whose gradients are wanted; None = all.
        highest: no label is higher; None = they are asked, which waits for the device.

    Raises:
        CannotStack: see `check_members`.
        TapError: a tap that the logits do not depend on.
    """
    stream = stack.forward(x, layers)
    check_members(stream.logits, y, int(y.max()) if highest is None else highest)
    gradients, error = activation_gradients(stream, y, layers)
    dtype = arithmetic(stream.logits, graph_nodes(stream.logits) if layers is None else (), stream.dtypes)
    return Pass(stream.logits.detach(), [h.detach() for h in stream.hidden], gradients, error, stream.names, dtype)


def check_members(logits: Tensor, y: Tensor, highest: int) -> None:
    """Refuse what is not (N, B, C) logits with a class for every label.

    Raises:
        CannotStack: each network by itself says so in an error of its own.
    """
    if logits.dim() != 3 or logits.shape[1] != len(y) or not logits.is_floating_point():
        raise CannotStack(f"the output is {tuple(logits.shape[1:])} for {len(y)} labels")
    if highest >= logits.shape[2] or logits.shape[2] == 1:
        raise CannotStack(f"label {highest}, {logits.shape[2]} classes")


class _Batches:
    """Batches on the device, their labels looked at once.

    Args:
        batches: (x, y) pairs.
        device: where the networks are.
        dtype: theirs.

    Attributes:
        highest: the highest label of every batch.

    Raises:
        MeasureError: batches that cannot be used.
        CannotStack: a negative label.
    """

    def __init__(self, batches: list[Any], device: torch.device, dtype: torch.dtype) -> None:
        self._pairs: Pairs = [pair(batch, index) for index, batch in enumerate(batches)]
        if any(isinstance(x, dict) or y.dim() > 1 for x, y in self._pairs):
            raise CannotStack("inputs by name, or labels per token")
        self._device, self._dtype = device, dtype
        extremes = [torch.stack(y.aminmax()).long() for _, y in self._pairs]
        lowest, self.highest = torch.stack(extremes, dim=1).tolist() if extremes else ([], [])
        if min(lowest, default=0) < 0:
            raise CannotStack("a label is negative")

    def __len__(self) -> int:
        return len(self._pairs)

    def judged(self) -> str:
        """What the reports have to say of the batches, see `BatchLog`."""
        log = BatchLog()
        for x, y in self._pairs:
            log.add(x, y)
        return log.judged()

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return on_device(*self._pairs[index], self._device, self._dtype)


def measure_together(
    networks: Sequence[nn.Module],
    batches: Iterable[Any],
    test: Iterable[Any],
    *,
    taps: Taps = None,
    norm_batches: int = 1,
    dtype: str | None = None,
    largest_pass: int | None = None,
    on_batch: Progress | None = None,
    count_batches: bool = False,
) -> list[Member]:
    """Accuracy and the four diagnostics of many networks, those that differ in their tensors alone in common passes.

    The numbers are those of `accuracy` and `diagnose`: float32 norms and (c) to a relative 1e-5 (the products are
    summed in another order), accuracies exactly (near-ties are decided in float64). A group of one, and networks
    that do not run together, take the ordinary path, and `Member.note` says why.

    Args:
        networks: on their device; they are left as they are. Networks of several kinds may be mixed.
        batches: (x, y) pairs for the diagnostics, as for `diagnose`; read into a list.
        test: (x, y) pairs for the accuracy; read into a list.
        taps: as for `diagnose`, for all of them.
        norm_batches: as for `diagnose`.
        dtype: as for `diagnose`.
        largest_pass: samples per pass and network, also of the test batches.
        on_batch: called with (batches done, batches in all); the second grows where a group has to be taken apart.
            What it raises is let through.
        count_batches: the samples of `batches` count for the accuracy, too; they are none of those of `test`, which
            may then be empty.

    Returns:
        One `Member` per network, in order. One that fails carries its error and leaves the others as they are.

    Raises:
        torch.OutOfMemoryError: memory ran out: try fewer networks, then a smaller ``largest_pass``.
        RuntimeError: the device is lost, whichever network did that.
        UsageError: a count below 1.

    Source: docs/protocol.md §3.

    >>> import torch
    >>> from fa_core.models import build
    >>> nets = [build("resmlp", input_dim=2, d=4, L=1, num_classes=2, seed=seed) for seed in range(3)]
    >>> found = measure_together(nets, [(torch.eye(2), torch.tensor([0, 1]))], [(torch.eye(2), torch.tensor([0, 1]))])
    >>> [len(member.diagnosis.report().residual_norms) for member in found]
    [2, 2, 2]
    """
    for name, count in (("norm_batches", norm_batches), ("largest_pass", largest_pass)):
        if count is not None and count < 1:
            raise UsageError(f"{name} is {count}", hint="give at least 1")
    progress = Counter(on_batch)
    rest = no_larger(test, largest_pass)
    request = Request(list(batches), rest, taps, norm_batches, dtype, largest_pass, progress, count_batches)
    groups = partition([as_written(network) for network in networks])
    progress.total = len(groups) * request.steps
    members: dict[int, Member] = {}
    for indices, note in groups:
        found = _together_measured([networks[index] for index in indices], request, note)
        members.update(zip(indices, found, strict=True))
    return [members[index] for index in range(len(networks))]


def partition(networks: Sequence[nn.Module]) -> list[tuple[list[int], str]]:
    """Which networks are measured together, largest group first, and for single ones why they are alone.

    Args:
        networks: as written (see `as_written`).

    Returns:
        [(places in `networks`, note)].
    """
    obstacles = [obstacle(network) for network in networks]
    groups: list[list[int]] = []
    for index, network in enumerate(networks):
        for group in groups:
            if not (obstacles[index] or obstacles[group[0]] or difference(network, networks[group[0]])):
                group.append(index)
                break
        else:
            groups.append([index])
    groups.sort(key=len, reverse=True)
    found = []
    for place, indices in enumerate(groups):
        reason = ""
        if len(indices) == 1 and len(groups) > 1:
            one, likely = indices[0], groups[1 if place == 0 else 0][0]
            reason = obstacles[one] or difference(networks[one], networks[likely]) or "the network differs"
        found.append((indices, reason))
    return [(indices, _why_alone(reason, found)) for indices, reason in found]


def _why_alone(reason: str, groups: Sequence[tuple[list[int], str]]) -> str:
    """A note for a network that is alone, with how many are so for the same reason; "" for one that needs none."""
    if not reason:
        return ""
    alike = sum(other == reason for _, other in groups)
    if alike == sum(len(indices) for indices, _ in groups):
        return f"none of the {alike} runs is stacked with another: {reason}"
    return f"not stacked with the others{f' ({alike} runs)' if alike > 1 else ''}: {reason}"


def _together_measured(networks: Sequence[nn.Module], request: Request, note: str) -> list[Member]:
    if len(networks) == 1:
        return [measure_alone(networks[0], request, note)]
    members, error = _attempt(lambda: measure_stacked(networks, request), request.progress)
    if error is None:
        return members
    if isinstance(error, Divided):
        return _by_way(networks, request, error.ways)
    note = f"{len(networks)} runs measured one by one: {_reason(error)}"
    request.progress.total += len(networks) * request.steps
    return [measure_alone(network, request, note) for network in networks]


def _by_way(networks: Sequence[nn.Module], request: Request, ways: list[str]) -> list[Member]:
    """Members whose states become vectors in the same way stay together."""
    members: dict[int, Member] = {}
    request.progress.total += len(set(ways)) * request.steps
    for way in sorted(set(ways)):
        indices = [index for index, found in enumerate(ways) if found == way]
        note = f"not stacked with the others: its states are read {way}, theirs are not"
        found = _together_measured([networks[index] for index in indices], request, note)
        members.update(zip(indices, found, strict=True))
    return [members[index] for index in range(len(networks))]


def _reason(error: Exception) -> str:
    """Why a group fell apart, in one line."""
    first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
    if isinstance(error, (CannotStack, FaError)):
        return first_line
    if isinstance(error, UserWarning):
        return "torch.func has no batched form of one of its operations"
    return f"torch.func cannot run it ({first_line[:150]})"
