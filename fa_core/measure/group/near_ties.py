"""Accuracy of N networks at once, with near-ties decided as for one: in float64, network by network.

Near-ties of a group: decided as the ordinary path does, by the same operations in float64, member by member.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fa_core.errors import FaError
from fa_core.measure.accuracy import LogitsFunction, classified, near_ties
from fa_core.measure.group.stack import skeleton
from fa_core.measure.isolate import wide


class GroupCount:
    """Who classified which sample rightly. Near-ties are noted and settled at the end, so that no batch waits.

    Attributes:
        right: (N, B) bool per batch; settled once `settle` was called for every near-tie.
    """

    def __init__(self) -> None:
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
        if not self._near:
            return found
        place = [(batch, sample) for batch, near in enumerate(self._near) for sample in range(near.shape[1])]
        for member, column in torch.cat(self._near, dim=1).nonzero().tolist():
            batch, sample = place[column]
            found.setdefault(member, {}).setdefault(batch, []).append(sample)
        return found

    def settle(self, member: int, batch: int, samples: list[int], again: Tensor, y: Tensor) -> None:
        """Replace what float32 said: `again` (b, C) float64 logits of the samples, `y` (b,) their labels."""
        right = self.right[batch]
        decided = classified(again, y.to(again.device)).to(right.device)
        right[member, torch.tensor(samples, device=right.device)] = decided


def accuracies(counts: Sequence[GroupCount]) -> Tensor:
    """(N,) float64 fractions of all samples that were counted."""
    right = torch.cat([batch for count in counts for batch in count.right], dim=1)
    return right.sum(dim=1).double() / right.shape[1]


class Batches(Protocol):
    """Batches by number, on the device."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]: ...


def settle(networks: Sequence[nn.Module], counts: Sequence[tuple[GroupCount, Batches, LogitsFunction]]) -> None:
    """Decide every near-tie of some counts.

    Args:
        networks: the members.
        counts: what was counted, on which batches, and how a network is asked for its logits.
    """
    found = [count.near() for count, _, _ in counts]
    if not any(found):
        return
    code = skeleton(networks[0])
    for member in sorted(set(chain(*found))):
        exact = _exact(networks[member])
        for near, (count, batches, logits_of) in zip(found, counts, strict=True):
            for batch, samples in near.get(member, {}).items():
                x, y = batches[batch]
                chosen = torch.tensor(samples, device=x.device)
                again = _logits(code, exact, x[chosen], logits_of)
                if again is not None:
                    count.settle(member, batch, samples, again, y[chosen])


class _Asked(nn.Module):
    """A network and how it is asked, as one module that `functional_call` can fill."""

    def __init__(self, network: nn.Module, logits_of: LogitsFunction) -> None:
        super().__init__()
        self.network = network
        self._logits_of = logits_of

    def forward(self, x: Tensor) -> Tensor:
        return self._logits_of(self.network, x)


def _exact(network: nn.Module) -> dict[str, Tensor]:
    """A network's tensors in float64."""
    named = chain(network.named_parameters(), network.named_buffers())
    return {f"network.{name}": wide(tensor) if tensor.is_floating_point() else tensor.clone() for name, tensor in named}


def _logits(code: nn.Module, exact: dict[str, Tensor], x: Tensor, logits_of: LogitsFunction) -> Tensor | None:
    """float64 logits, or None where the network cannot run in it (a cast to float32 inside)."""
    x = wide(x) if x.is_floating_point() else x.to(next(iter(exact.values())).device)
    try:
        with torch.no_grad():
            return functional_call(_Asked(code, logits_of), exact, (x,))  # type: ignore[no-any-return]
    except (RuntimeError, FaError):
        return None
