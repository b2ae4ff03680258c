"""The residual-scale penalty, added to any method's loss."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def branch_penalty(branches: Sequence[Tensor]) -> Tensor:
    """Σ_l mean over samples of ‖f_l(h_l)‖².

    Args:
        branches: f_0(h_0)..f_{L-1}(h_{L-1}), each (B, ...); at least one.

    Returns:
        A scalar with the graph of the branches. For a local method they were computed on sg[h_l], so
        each term reaches its own block only; for backprop it reaches the earlier blocks too.

    Source: PROTOCOL §5, λ ∈ {1e-4, 1e-3, 1e-2}.

    >>> branch_penalty([torch.tensor([[3.0, 4.0], [0.0, 0.0]])])
    tensor(12.5000)
    """
    return torch.stack([f.flatten(1).square().sum(1).mean() for f in branches]).sum()
