"""Backpropagation: the reference rule, with the gradient itself as credit."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from fa_core.zoo.methods.base import Credit, Method, StepInfo, penalised
from fa_core.zoo.models.base import StreamNet


class Backprop(Method):
    """a_l = ∂(Σ_b CE_b)/∂h_l, so Γ = 1 at every layer up to rounding.

    Source: docs/protocol.md §5; Rumelhart, Hinton & Williams, Nature 323, 1986.
    """

    name = "bp"

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        return list(summed_gradients(net, stream[0], y))

    def loss(
        self, net: StreamNet, x: Tensor, y: Tensor, lam: float = 0.0
    ) -> tuple[Tensor, StepInfo]:
        """CE + λ·Σ_l ‖f_l(h_l)‖² without stop-gradients: the penalty reaches earlier blocks too."""
        h = net.embed_input(x)
        stream = [h.detach()]
        branches = []
        for l in range(net.n_blocks):
            branch = net.branch(l, h)
            branches.append(branch)
            h = net.join(h, branch)
            stream.append(h.detach())
        logits = net.readout(h)
        ce = F.cross_entropy(logits, y)
        info = StepInfo(logits.detach(), y, stream, [], ce.detach())
        return penalised(ce, branches, lam), info


def summed_ce(logits: Tensor, y: Tensor) -> Tensor:
    """Σ_b CE_b."""
    return F.cross_entropy(logits, y, reduction="sum")


def summed_gradients(net: StreamNet, h_0: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """g_0..g_L of the summed CE (per sample, no 1/B), by a separate pass from h_0, (B, ...)."""
    with torch.enable_grad():
        stream = net.onward(h_0.detach().requires_grad_())
        total = summed_ce(net.readout(stream[-1]), y)
        return torch.autograd.grad(total, stream)
