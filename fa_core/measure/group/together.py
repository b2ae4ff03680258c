"""`measure_together`: which networks share their passes, and what becomes of those that cannot."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from torch import nn

from fa_core.errors import FaError, UsageError
from fa_core.failures import is_device_lost
from fa_core.measure.group.member import Member, measure_alone, out_of_memory
from fa_core.measure.group.request import Progress, Request, no_larger
from fa_core.measure.group.signature import difference, obstacle, signature
from fa_core.measure.group.stack import CannotStack
from fa_core.measure.group.stacked import measure_stacked
from fa_core.measure.out_of_memory import is_out_of_memory
from fa_core.measure.tally import Divided
from fa_core.measure.taps import Taps


def measure_together(
    networks: Sequence[nn.Module],
    batches: Iterable[Any],
    test: Iterable[Any],
    *,
    taps: Taps = None,
    norm_batches: int = 1,
    dtype: str | None = None,
    largest_pass: int | None = None,
    on_batch: Callable[[int, int], object] | None = None,
    count_batches: bool = False,
) -> list[Member]:
    """Accuracy and the four diagnostics of many networks, those of one signature in common passes.

    The numbers are those of `accuracy` and `diagnose`: float32 norms and (c) to a relative 1e-5 (the products are
    summed in another order), accuracies exactly (near-ties are decided in float64). A group of one, and networks
    that do not run together, take the ordinary path, and `Member.note` says why.

    Args:
        networks: on their device; they are left as they are. Different signatures may be mixed.
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
        RuntimeError: the device is lost, whoever's fault that was.
        UsageError: a count below 1.

    Source: PROTOCOL §3.

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
    progress = Progress(on_batch)
    rest = no_larger(test, largest_pass)
    request = Request(list(batches), rest, taps, norm_batches, dtype, largest_pass, progress, count_batches)
    groups = partition(networks, taps)
    progress.total = len(groups) * request.steps
    members: dict[int, Member] = {}
    for indices, note in groups:
        found = _measured([networks[index] for index in indices], request, note)
        members.update(zip(indices, found, strict=True))
    return [members[index] for index in range(len(networks))]


def partition(networks: Sequence[nn.Module], taps: Taps = None) -> list[tuple[list[int], str]]:
    """Which networks are measured together, largest group first, and for single ones why they are alone.

    Args:
        networks: any.
        taps: how they will be tapped.

    Returns:
        [(places in `networks`, note)].
    """
    by_signature: dict[Hashable, list[int]] = {}
    for index, network in enumerate(networks):
        by_signature.setdefault(signature(network, taps), []).append(index)
    groups = sorted(by_signature.items(), key=lambda item: -len(item[1]))
    found = []
    for place, (one, indices) in enumerate(groups):
        reason = ""
        if len(indices) == 1 and len(groups) > 1:
            likely = groups[1 if place == 0 else 0][0]
            reason = obstacle(networks[indices[0]]) or difference(one, likely)
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


def _measured(networks: Sequence[nn.Module], request: Request, note: str) -> list[Member]:
    if len(networks) == 1:
        return [measure_alone(networks[0], request, note)]
    full: Exception | None = None
    ways: list[str] = []
    try:
        return measure_stacked(networks, request)
    except Divided as divided:
        ways = divided.ways
    except Exception as error:
        if error is request.progress.raised or is_device_lost(error):
            raise
        note = f"{len(networks)} runs measured one by one: {_reason(error)}"
        full = error if is_out_of_memory(error) else None
    if full is not None:
        raise out_of_memory(full)
    # outside the except clause, whose exception keeps the failed passes alive
    if ways:
        return _by_way(networks, request, ways)
    request.progress.total += len(networks) * request.steps
    return [measure_alone(network, request, note) for network in networks]


def _by_way(networks: Sequence[nn.Module], request: Request, ways: list[str]) -> list[Member]:
    """Members whose states become vectors in the same way stay together."""
    members: dict[int, Member] = {}
    request.progress.total += len(set(ways)) * request.steps
    for way in sorted(set(ways)):
        indices = [index for index, found in enumerate(ways) if found == way]
        note = f"not stacked with the others: its states are read {way}, theirs are not"
        found = _measured([networks[index] for index in indices], request, note)
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
