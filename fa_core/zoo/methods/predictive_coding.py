"""Predictive coding: hidden states relax between their prediction and the label."""

from __future__ import annotations

import torch
from torch import Tensor

from fa_core.zoo.methods.base import Credit
from fa_core.zoo.methods.bp import summed_gradients
from fa_core.zoo.methods.ep import EquilibriumPropagation
from fa_core.zoo.models.base import StreamNet


class PredictiveCoding(EquilibriumPropagation):
    """a_l = −ε_l of E = Σ_l ½‖ε_l‖² + CE, after `steps` descent steps on h_0..h_L.

    E is EP's energy at β = 1, ε_l the prediction error of layer l (see `EquilibriumPropagation`).
    The states move as far as the label pulls them. a_l is therefore the gradient at other states
    than h_l, and Γ < 1. After few steps a_l is small at early layers.

    `fixed` keeps predictions and derivatives at their values of the forward pass ("fixed prediction
    assumption"). The errors then obey a_l ← a_l − eta·(a_l − (∂h_{l+1}/∂h_l)ᵀ·a_{l+1}), a_L = g_L,
    with the fixed point a_l = g_l. With eta = 1 they reach it exactly after L steps, and learning
    is backprop.

    As first published, all weights, including the head's, descend E at the relaxed states.
    Here, in both variants, embedding and blocks descend ⟨f_l(h_l), a_{l+1}⟩ at the states of the
    forward pass, and head and out_ln the true cross entropy there. At init the updates of w1 and w2
    have cosines of 0.92–0.94 to the published ones, the head's 0.70. After 300 steps they are
    0.83–0.99, 0.89–0.998 and about 0: a relaxed h_L leaves the head little to learn
    (docs/protocol.md §5).

    Args:
        eta: step size; default 0.1, with `fixed` 1.
        steps: descent steps; default 5·(L + 1), with `fixed` L.
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
        usual_eta, usual_steps = 0.1, 5 * (net.n_blocks + 1)
        if fixed:
            usual_eta, usual_steps = 1.0, max(1, net.n_blocks)
        if eta is None:
            eta = usual_eta
        if steps is None:
            steps = usual_steps
        super().__init__(net, generator, 1.0, eta, steps, estimator="prediction_error")
        self.fixed = fixed

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        if not self.fixed:
            return super().credit(net, stream, logits, y)
        g_L = summed_gradients(net, stream[0], y)[-1]
        if not net.n_blocks:
            return [g_L]
        with torch.enable_grad():
            leaves = [h.detach().requires_grad_() for h in stream[:-1]]
            ahead = [net.advance(l, h) for l, h in enumerate(leaves)]
        errors = [torch.zeros_like(h) for h in leaves]
        for _ in range(self.steps):
            above = [*errors[1:], g_L]
            back = torch.autograd.grad(ahead, leaves, above, retain_graph=True)
            errors = [a - self.eta * (a - b) for a, b in zip(errors, back, strict=True)]
        return [*errors, g_L]
