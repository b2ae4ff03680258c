"""The linear-quadratic toy: where the true costate is known in closed form, do the bridges recover it?

    h_{l+1} = h_l + A_l h_l,   J = ½‖C h_L − y‖²,   s = C h_L − y
    costate: p_L = Cᵀs,   p_l = (I + A_l)ᵀ p_{l+1}

Source: docs/protocol.md §5.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from fa_core.zoo.methods.base import feedback_generator
from fa_core.zoo.methods.bridge import (
    BridgeNet,
    bridge_error,
    draw_linear_,
    predicted_gradients,
    prediction_loss,
    soft_values,
    terminal_value,
    update_average,
)

BATCH = 128
WIDTH = 64
SIGMA = TEMPERATURE = 0.1
DRAWS = 8
DECAY = 0.99
STEPS = 300


@dataclass(frozen=True)
class LinearQuadratic:
    """One problem.

    Attributes:
        A: (L, d, d), 0.3·N(0, 1/d).
        C: (p, d), N(0, 1/d).
    """

    A: Tensor
    C: Tensor

    @classmethod
    def draw(cls, generator):
        A = 0.3 * torch.randn(4, 16, 16, generator=generator) / 4
        return cls(A, torch.randn(8, 16, generator=generator) / 4)

    def sample(self, batch, generator):
        """A stream h_0..h_L (each (B, d)) from h_0 ~ N(0, I), and targets y ~ 2·N(0, I) (B, p)."""
        stream = [torch.randn(batch, self.C.shape[1], generator=generator)]
        for A in self.A:
            stream.append(stream[-1] + stream[-1] @ A.T)
        return stream, 2 * torch.randn(batch, len(self.C), generator=generator)

    def costates(self, s):
        """p_0..p_L for the terminal error s (B, p), each (B, d)."""
        costates = [s @ self.C]
        for A in reversed(self.A):
            costates.append(costates[-1] + costates[-1] @ A)
        return costates[::-1]


def costate_cosine(method):
    """Train a bridge on the toy by Adam; mean cosine of its credit to the true costate over samples and l < L.

    Args:
        method: ``"state_bridge"`` or ``"credit_bridge"``.
    """
    generator = feedback_generator(0)
    problem = LinearQuadratic.draw(generator)
    p, d = problem.C.shape
    outputs = d if method == "state_bridge" else 1
    net = BridgeNet([d] * (len(problem.A) + 1), p, WIDTH, outputs)
    net.activation = F.silu
    draw_linear_(net, generator)
    average = copy.deepcopy(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)

    for _ in range(STEPS):
        stream, y = problem.sample(BATCH, generator)
        s = stream[-1] @ problem.C.T - y
        if method == "state_bridge":
            loss = prediction_loss(partial(net, s=s), stream, stream[-1])
        else:
            value, gradient = terminal_value(net, stream, s)
            matching = (gradient - s @ problem.C).square().sum(1).mean()
            soft = soft_values(average, stream, s, SIGMA, TEMPERATURE, DRAWS, generator)
            missed = (value - 0.5 * s.square().sum(1)).square().mean()
            loss = missed + 10.0 * matching + bridge_error(net, stream, s, soft)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        update_average(average, net, DECAY)

    stream, y = problem.sample(1024, generator)
    s = stream[-1] @ problem.C.T - y
    total = torch.sum
    if method == "state_bridge":
        total = lambda end: 0.5 * (end @ problem.C.T - y).square().sum()  # noqa: E731
    credit = predicted_gradients(partial(net, s=s), stream, total)
    pairs = list(zip(credit, problem.costates(s), strict=True))[:-1]
    cosines = [(a * p).sum(1) / (a.norm(dim=1) * p.norm(dim=1)) for a, p in pairs]
    return float(torch.stack(cosines).mean())
