"""Predictive coding: hidden states relax between their prediction and the label."""

from __future__ import annotations

import torch

from fa_core.zoo.methods.ep import EquilibriumPropagation
from fa_core.zoo.models.base import StreamNet


class PredictiveCoding(EquilibriumPropagation):
    """a_l = −ε_l of E = Σ_l ½‖ε_l‖² + CE, after `steps` descent steps on h_0..h_L.

    E is EP's energy at β = 1, ε_l the prediction error of layer l (see `EquilibriumPropagation`).
    The states move as far as the label pulls them. a_l is therefore the gradient at other states
    than h_l, and Γ < 1. After few steps a_l is small at early layers.

    As first published, all weights, including the head's, descend E at the relaxed states.
    Here embedding and blocks descend ⟨f_l(h_l), a_{l+1}⟩ at the states of the
    forward pass, and head and out_ln the true cross entropy there. At init the updates of w1 and w2
    have cosines of 0.92–0.94 to the published ones, the head's 0.70. After 300 steps they are
    0.83–0.99, 0.89–0.998 and about 0: a relaxed h_L leaves the head little to learn
    (docs/protocol.md §5).

    Args:
        eta: step size.
        steps: descent steps; default 5·(L + 1).

    Source: docs/protocol.md §5; Whittington & Bogacz, Neural Computation 29, 2017.
    """

    name = "pc"

    def __init__(
        self,
        net: StreamNet,
        generator: torch.Generator,
        eta: float = 0.1,
        steps: int | None = None,
    ) -> None:
        if steps is None:
            steps = 5 * (net.n_blocks + 1)
        super().__init__(net, generator, 1.0, eta, steps, estimator="prediction_error")
