"""N residual MLPs as one: a wide first product, then one batched product per layer."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fa_core.measure.group.signature import attributes, layout
from fa_core.measure.group.stack import CannotStack, stack_tensors
from fa_core.measure.stream import Stream
from fa_core.models.residual_mlp import ResidualMLP
from fa_core.models.resmlp import ResMLP
from fa_core.models.studentnet import StudentNet


def is_residual_mlp(network: nn.Module) -> TypeGuard[ResidualMLP]:
    """Whether a network is a ResMLP or StudentNet exactly as built here, in one floating-point dtype.

    >>> is_residual_mlp(ResMLP(4, 8, L=1)), is_residual_mlp(nn.Linear(1, 1))
    (True, False)
    """
    if not isinstance(network, (ResMLP, StudentNet)) or type(network) not in (ResMLP, StudentNet):
        return False
    if len({tensor.dtype for tensor in network.state_dict().values()}) != 1:
        return False
    try:
        return (attributes(network), layout(network)) == _as_built(type(network), tuple(network.arch_args.items()))
    except TypeError:  # arguments that cannot be meant
        return False


@lru_cache(maxsize=16)
def _as_built(kind: type[ResidualMLP], args: tuple[tuple[str, Any], ...]) -> tuple[Hashable, Hashable]:
    with torch.device("meta"):
        fresh = kind(**dict(args))
    return attributes(fresh), layout(fresh)


class ResidualStack:
    """h_0 = x·[W_1 … W_N] in one product; then h_{l+1} = h_l + f_l(h_l), one batched product per linear layer.

    Args:
        networks: residual MLPs of one signature.
        dtype: what they are computed in; None = their own.
    """

    def __init__(self, networks: Sequence[ResidualMLP], dtype: torch.dtype | None = None) -> None:
        first = networks[0]
        self._members = len(networks)
        self._tensors = stack_tensors(networks, dtype)
        self._inputs = first.input_shape[0]
        self._depth = first.n_blocks
        self._block_norm = getattr(first.blocks[0], "ln", None) if first.n_blocks else None
        self._out_norm = first.out_ln if isinstance(first.out_ln, nn.LayerNorm) else None

    def forward(self, x: Tensor, layers: Sequence[int] | None = None) -> Stream:
        start = 0 if layers is None else min(layers)
        with torch.no_grad():
            hidden = [self._embed(x)]
            for l in range(start):
                hidden.append(self._advance(l, hidden[-1]))
        # nothing is differentiated by what lies below
        hidden[-1].requires_grad_()
        for l in range(start, self._depth):
            hidden.append(self._advance(l, hidden[-1]))
        logits = self._readout(hidden[-1])
        wanted = range(len(hidden)) if layers is None else layers
        edges = [h if l in wanted else None for l, h in enumerate(hidden)]
        return Stream(logits, hidden, edges, [f"h_{l}" for l in range(len(hidden))])

    def logits(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            h = self._embed(x)
            for l in range(self._depth):
                h = self._advance(l, h)
            return self._readout(h)

    def _embed(self, x: Tensor) -> Tensor:
        """(B, ...) → (N, B, d)."""
        if x.dim() < 2 or x.shape[1:].numel() != self._inputs:
            raise CannotStack(f"samples of shape {tuple(x.shape[1:])}")
        weight, bias = self._tensors["embed.weight"], self._tensors["embed.bias"]
        wide = F.linear(x.reshape(len(x), -1), weight.flatten(0, 1), bias.flatten())
        return wide.view(len(x), self._members, -1).transpose(0, 1).contiguous()

    def _advance(self, l: int, h: Tensor) -> Tensor:
        at = f"blocks.{l}"
        u = h if self._block_norm is None else self._normed(h, f"{at}.ln", self._block_norm)
        return h + self._linear(F.gelu(self._linear(u, f"{at}.fc1")), f"{at}.fc2")

    def _readout(self, h: Tensor) -> Tensor:
        return self._linear(h if self._out_norm is None else self._normed(h, "out_ln", self._out_norm), "head")

    def _linear(self, h: Tensor, name: str) -> Tensor:
        """(N, B, i) → (N, B, o)."""
        return torch.baddbmm(self._tensors[f"{name}.bias"][:, None], h, self._tensors[f"{name}.weight"].mT)

    def _normed(self, h: Tensor, name: str, like: nn.Module) -> Tensor:
        assert isinstance(like, nn.LayerNorm)
        plain = F.layer_norm(h, like.normalized_shape, eps=like.eps)
        return torch.addcmul(self._tensors[f"{name}.bias"][:, None], plain, self._tensors[f"{name}.weight"][:, None])
