"""Near-ties of a group: decided as the ordinary path does, by the same operations in float64, member by member."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fa_core.errors import FaError
from fa_core.measure.accuracy import LogitsFunction
from fa_core.measure.borrow import wide
from fa_core.measure.group.counting import GroupCount
from fa_core.measure.group.stack import skeleton


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
