"""N networks as one: their tensors stacked, and what can be run on them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import chain
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from fa_core.measure.stream import Stream


class Stack(Protocol):
    """N networks that run together; all that comes out has the members as its first axis."""

    def forward(self, x: Tensor, layers: Sequence[int] | None = None) -> Stream:
        """Run once on x (B, ...): logits (N, B, C), states (N, B, ...); `layers` as for `Tapped.forward`."""

    def logits(self, x: Tensor) -> Tensor:
        """What the networks answer, (N, B, C), without a graph."""


class CannotStack(Exception):
    """These networks do not run together, whatever the reason; each by itself they may."""


def stack_tensors(networks: Sequence[nn.Module], dtype: torch.dtype | None = None) -> dict[str, Tensor]:
    """Parameters and buffers by name, each (N, ...), outside any graph.

    Args:
        networks: of one signature.
        dtype: what floating-point tensors are converted to; None = they stay as they are.
    """
    named = [dict(chain(net.named_parameters(), net.named_buffers())) for net in networks]
    return {name: torch.stack([_converted(tensors[name], dtype) for tensors in named]) for name in named[0]}


def skeleton(network: nn.Module) -> nn.Module:
    """A copy of a network's code and attributes, in eval mode, with tensors that hold nothing.

    A tensor that is forgotten in the stack then raises, where the network's own would pass for everybody's.

    Raises:
        CannotStack: it cannot be copied.
    """
    empty: dict[int, Any] = {}
    for parameter in network.parameters():
        empty[id(parameter)] = nn.Parameter(torch.empty_like(parameter, device="meta"), requires_grad=False)
    for tensor in network.buffers():
        empty[id(tensor)] = torch.empty_like(tensor, device="meta")
    try:
        return copy.deepcopy(network, empty).eval()
    except Exception as error:
        raise CannotStack(f"it cannot be copied ({type(error).__name__})") from error


def _converted(tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
    return tensor.detach().to(dtype) if dtype and tensor.is_floating_point() else tensor.detach()
