"""Equilibrium propagation: nudge the settled network towards the label and see how its states move."""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch.nn import functional as F

from fa_core.methods.base import Credit, Method
from fa_core.models.base import StreamNet


class EquilibriumPropagation(Method):
    """a_l = −(h_l^nudged − h_l^free)/β, l = 0..L, on the network's own stack.

    At β = 0 the forward pass minimises the energy (see `energies`); the nudged phase is a few descent
    steps on all states at once at small β. The credit has the gradient's direction, not its scale.

    Args:
        beta: β.
        eta: step size η at the start, per sample.
        steps: descent steps K; default 5, or L+1 where that is more (a nudge travels one layer a step).

    Source: docs/protocol.md §5; Scellier & Bengio, Frontiers in Computational Neuroscience 11, 2017.
    """

    name = "ep"

    def __init__(
        self,
        net: StreamNet,
        generator: torch.Generator,
        beta: float = 0.1,
        eta: float = 0.1,
        steps: int | None = None,
    ) -> None:
        super().__init__(net, generator)
        self.beta = beta
        self.eta = eta
        self.steps = max(5, net.n_blocks + 1) if steps is None else steps

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        """The credit in float64: the free phase again from h_0, on a copy, so that no small move is lost."""
        precise = copy.deepcopy(net).double()
        free = [stream[0].detach().double()]
        with torch.no_grad():
            for l in range(net.n_blocks):
                free.append(precise.advance(l, free[l]))
        return [a.to(h.dtype) for a, h in zip(self._moves(precise, free, y), stream, strict=True)]

    def training_credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        """The credit in the network's own precision."""
        return list(self._moves(net, [h.detach() for h in stream], y))

    def _moves(self, net: StreamNet, free: list[Tensor], y: Tensor) -> list[Tensor]:
        nudged = nudged_phase(net, free, y, self.beta, self.eta, self.steps)
        return [(settled - moved) / self.beta for settled, moved in zip(free, nudged, strict=True)]


def energies(
    net: StreamNet, states: list[Tensor], h_0: Tensor, y: Tensor, beta: float
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """E = ½‖h_0 − embed(x)‖² + Σ_l ½‖h_{l+1} − h_l − f_l(h_l)‖² + β·CE per sample (B,), and ∂(Σ_b E)/∂h_l.

    Args:
        net: the network; where it is not residual, f_l(h_l) alone takes the place of h_l + f_l(h_l).
        states: h_0..h_L, free to differ from the forward pass.
        h_0: embed(x).
        y: labels (B,).
        beta: β.
    """
    with torch.enable_grad():
        leaves = [h.detach().requires_grad_() for h in states]
        predicted = [h_0, *(net.advance(l, leaves[l]) for l in range(net.n_blocks))]
        energy = beta * F.cross_entropy(net.readout(leaves[-1]), y, reduction="none")
        for h, expected in zip(leaves, predicted, strict=True):
            energy = energy + 0.5 * (h - expected).flatten(1).square().sum(1)
        return energy.detach(), torch.autograd.grad(energy.sum(), leaves)


def nudged_phase(net: StreamNet, free: list[Tensor], y: Tensor, beta: float, eta: float, steps: int) -> list[Tensor]:
    """`steps` simultaneous descent steps on all states from the free phase; a sample whose energy rises
    (or is no longer finite) keeps its state and halves its step size.

    Returns:
        h_0..h_L of the nudged phase.
    """
    states, size = free, free[0].new_full((len(y),), eta)
    energy, gradients = energies(net, states, free[0], y, beta)
    for _ in range(steps):
        proposed = [h - per_sample(size, h) * g for h, g in zip(states, gradients, strict=True)]
        new_energy, new_gradients = energies(net, proposed, free[0], y, beta)
        falls = new_energy <= energy
        states = [torch.where(per_sample(falls, h), new, h) for new, h in zip(proposed, states, strict=True)]
        gradients = tuple(
            torch.where(per_sample(falls, g), new, g) for new, g in zip(new_gradients, gradients, strict=True)
        )
        energy = torch.where(falls, new_energy, energy)
        size = torch.where(falls, size, size / 2)
    return states


def per_sample(values: Tensor, like: Tensor) -> Tensor:
    """(B,) as (B, 1, ...), to broadcast over `like`."""
    return values.view(-1, *[1] * (like.ndim - 1))
