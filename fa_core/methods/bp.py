"""Backpropagation: the reference whose credit is the gradient itself."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from fa_core.methods.base import Credit, Method, StepInfo, branch_penalty
from fa_core.models.base import StreamNet


class Backprop(Method):
    """a_l = ∂(Σ_b CE_b)/∂h_l, so Γ = 1 at every layer, less what the arithmetic of training loses.

    Source: docs/protocol.md §5; Rumelhart, Hinton & Williams, Nature 323, 1986.
    """

    name = "bp"

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        return list(summed_gradients(net, stream[0], y))

    def loss(
        self, net: StreamNet, x: Tensor, y: Tensor, lam: float = 0.0
    ) -> tuple[Tensor, StepInfo]:
        """CE + λ·Σ_l ‖f_l(h_l)‖², nothing detached: here the penalty reaches earlier blocks too."""
        stream, branches = [net.embed_input(x)], []
        for l in range(net.n_blocks):
            branches.append(net.branch(l, stream[l]))
            stream.append(stream[l] + branches[l] if net.residual else branches[l])
        logits = net.readout(stream[-1])
        ce = F.cross_entropy(logits, y)
        if branches:
            penalty = branch_penalty(branches)
        else:
            penalty = logits.new_zeros(())
        if lam:
            total = ce + lam * penalty
        else:
            total = ce
        seen = [h.detach() for h in stream]
        return total, StepInfo(
            logits.detach(), y, seen, [], ce.detach(), ce.new_zeros(()), penalty.detach()
        )


def summed_gradients(
    net: StreamNet, h_0: Tensor, y: Tensor, objective: Callable[[Tensor], Tensor] | None = None
) -> tuple[Tensor, ...]:
    """g_0..g_L of the summed CE (per sample, no 1/B), or of another objective of the logits, by a
    pass of its own."""
    with torch.enable_grad():
        stream = net.onward(h_0.detach().requires_grad_())
        logits = net.readout(stream[-1])
        if objective:
            total = objective(logits)
        else:
            total = F.cross_entropy(logits, y, reduction="sum")
        return torch.autograd.grad(total, stream)
