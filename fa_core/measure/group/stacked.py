"""Measuring a group: one forward pass per test batch, one forward and one backward pass per eval batch, for all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any, cast

import torch
from torch import Tensor, nn

from fa_core.measure.accuracy import LogitsFunction, plain_logits
from fa_core.measure.batches import counted, on_device, pair
from fa_core.measure.borrow import AS_IS, HALF, as_written, measuring_arithmetic, target_dtype
from fa_core.measure.fused import Pass
from fa_core.measure.group.counting import GroupCount, accuracies
from fa_core.measure.group.functional_stack import FunctionalStack
from fa_core.measure.group.member import Member
from fa_core.measure.group.request import Request
from fa_core.measure.group.residual_stack import ResidualStack, is_residual_mlp
from fa_core.measure.group.stack import CannotStack, Stack
from fa_core.measure.group.ties import settle
from fa_core.measure.host_draws import HostDraws
from fa_core.measure.in_parts import in_parts
from fa_core.measure.stream import activation_gradients, batch_mean_ce
from fa_core.measure.tally import Tally
from fa_core.measure.taps import Taps, resolve_taps
from fa_core.models.residual_mlp import ResidualMLP

Pairs = list[tuple[Tensor, Tensor]]


def make_stack(networks: Sequence[nn.Module], taps: Taps = None, dtype: torch.dtype | None = None) -> Stack:
    """N networks of one signature as one: built-in residual MLPs layer by layer, others through `torch.func`.

    Args:
        networks: at least two, as written (see `as_written`).
        taps: as for `diagnose`.
        dtype: what they are computed in; None = their own.

    Raises:
        CannotStack, TapError: see `FunctionalStack`.
    """
    if taps is None and is_residual_mlp(networks[0]):
        return ResidualStack(cast(Sequence[ResidualMLP], networks), dtype)
    return FunctionalStack(networks, taps, dtype)


def measure_stacked(networks: Sequence[nn.Module], request: Request) -> list[Member]:
    """Measure networks of one signature together.

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
    host = HostDraws()
    with measuring_arithmetic(device, as_is), host.passing():
        stack = make_stack(networks, request.taps, target)
        found = _measured(networks, stack, test, eval_batches, request)
    if host.noticed:
        raise CannotStack("it draws random numbers from Python or NumPy")
    return found


def _measured(
    networks: Sequence[nn.Module], stack: Stack, test: _Batches, eval_batches: _Batches, request: Request
) -> list[Member]:
    tested, seen, tally = GroupCount(), GroupCount(), Tally(norm_batches=request.norm_batches, samples_axis=1)
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
    tapped: LogitsFunction = resolve_taps(networks[0], request.taps).logits
    plain = tapped if callable(request.taps) else plain_logits
    settle(networks, [(tested, test, plain), (seen, eval_batches, tapped)])
    fractions = accuracies([seen, tested] if request.count_batches else [tested]).tolist()
    return [Member(acc, found, None) for acc, found in zip(fractions, tally.measured(seen.right), strict=True)]


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
    gradients, logit_gradient = activation_gradients(stream, y, layers, members_ce)
    return Pass(stream.logits.detach(), [h.detach() for h in stream.hidden], gradients, logit_gradient, stream.names)


def check_members(logits: Tensor, y: Tensor, highest: int) -> None:
    """Refuse what is not (N, B, C) logits with a class for every label.

    Raises:
        CannotStack: each network by itself says it in words.
    """
    if logits.dim() != 3 or logits.shape[1] != len(y) or not logits.is_floating_point():
        raise CannotStack(f"the output is {tuple(logits.shape[1:])} for {len(y)} labels")
    if highest >= logits.shape[2]:
        raise CannotStack(f"label {highest}, {logits.shape[2]} classes")


def members_ce(logits: Tensor, y: Tensor) -> Tensor:
    """Σ_n CE_n, each member's CE averaged over the batch: no member's gradient depends on another's logits.

    Args:
        logits: (N, B, C).
        y: (B,) class indices.

    >>> round(members_ce(torch.zeros(2, 3, 4), torch.tensor([0, 1, 2])).item(), 6)
    2.772589
    """
    # the mean over N·B samples carries 1/(N·B), a member's own mean 1/B
    return batch_mean_ce(logits.flatten(0, 1), y.repeat(len(logits))) * len(logits)


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
        self._device, self._dtype = device, dtype
        extremes = [torch.stack(y.aminmax()).long() for _, y in self._pairs]
        lowest, self.highest = torch.stack(extremes, dim=1).tolist() if extremes else ([], [])
        if min(lowest, default=0) < 0:
            raise CannotStack("a label is negative")

    def __len__(self) -> int:
        return len(self._pairs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return on_device(*self._pairs[index], self._device, self._dtype)
