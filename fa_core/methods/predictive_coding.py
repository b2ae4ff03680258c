"""Predictive coding: hidden states settle between prediction from below and label from above."""

from __future__ import annotations

import torch
from torch import Tensor

from fa_core.methods.base import Credit
from fa_core.methods.bp import summed_gradients
from fa_core.methods.ep import EquilibriumPropagation
from fa_core.models.base import StreamNet


class PredictiveCoding(EquilibriumPropagation):
    """a_l = −ε_l of E = Σ_l ½‖ε_l‖² + CE after `steps` descent steps on h_0..h_L: EP's energy at β
    = 1.

    ε_l is the prediction error of layer l (see `EquilibriumPropagation`). The states move as far as
    the label pulls them, so a_l is the gradient at other states than h_l, and Γ < 1; after few
    steps a_l is small at early layers.

    `fixed` keeps predictions and derivatives at their values of the forward pass ("fixed prediction
    assumption"). The errors then obey a_l ← a_l − eta·(a_l − (∂h_{l+1}/∂h_l)ᵀ·a_{l+1}), a_L = g_L,
    whose rest is a_l = g_l: with eta = 1 it is reached exactly after L steps, and learning is
    backprop.

    As first published all weights, those of the head too, descend E where the states have settled.
    Here embedding and blocks descend ⟨f_l(h_l), a_{l+1}⟩ at the states of the forward pass, in both
    variants, and head and out_ln the true cross entropy there. The updates of w1 and w2 have a
    cosine of 0.92–0.94 to the published ones at init, the head's of 0.70; after 300 steps
    0.83–0.99, 0.89–0.998 and about 0, as a settled h_L leaves the head little to learn
    (docs/protocol.md §5).

    Args:
        eta: step size; default 0.1, or 1 where `fixed`.
        steps: descent steps; default 5·(L + 1), or L where `fixed`.
        fixed: whether predictions are fixed.

    Source: docs/protocol.md §5; Whittington & Bogacz, Neural Computation 29, 2017; Millidge,
    Tschantz & Buckley, 2022.
    """

    name = "pc"

    def __init__(
        self,
        net: StreamNet,
        generator: torch.Generator,
        eta: float | None = None,
        steps: int | None = None,
        fixed: bool = False,
    ) -> None:
        eta = (1.0 if fixed else 0.1) if eta is None else eta
        steps = (
            (max(1, net.n_blocks) if fixed else 5 * (net.n_blocks + 1)) if steps is None else steps
        )
        super().__init__(
            net, generator, beta=1.0, eta=eta, steps=steps, estimator="prediction_error"
        )
        self.fixed = fixed

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        if not self.fixed:
            return super().credit(net, stream, logits, y)
        *_, last = summed_gradients(net, stream[0], y)
        with torch.enable_grad():
            leaves = [h.detach().requires_grad_() for h in stream[:-1]]
            ahead = [net.advance(l, h) for l, h in enumerate(leaves)]
        errors = [*map(torch.zeros_like, leaves), last]
        for _ in range(self.steps if leaves else 0):
            back = torch.autograd.grad(ahead, leaves, errors[1:], retain_graph=True)
            errors = [*(a - self.eta * (a - b) for a, b in zip(errors, back, strict=False)), last]
        return list(errors)
