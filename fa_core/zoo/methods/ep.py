"""Equilibrium propagation: credit from the states' response to a nudge towards the label."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from fa_core.errors import UsageError
from fa_core.option_values import check_known
from fa_core.zoo.methods.base import Credit, Method
from fa_core.zoo.models.base import StreamNet

States = Sequence[Tensor]
"""One tensor per layer."""

ESTIMATORS = ("displacement", "prediction_error")
LARGEST = 15_000
"""Of each option, over all layers: steps beyond it take minutes of a small network."""

ARITHMETIC = {"float64": torch.float64, "float32": torch.float32}


class EquilibriumPropagation(Method):
    """a_l from a nudged phase of the network's own states, l = 0..L, by one of two estimators:

        displacement       −(h_l^nudged − h_l^free)/β
        prediction_error   −ε_l/β,   ε_0 = h_0 − embed(x),
                           ε_{l+1} = h_{l+1} − h_l − f_l(h_l),   at h^nudged

    At β = 0 the forward pass minimises the energy (see `energies`). The nudged phase is a few
    descent steps on all states at once, at small β.

    `displacement` is the published estimator (K = 5, η = 0.1, β = 0.1). After so few steps h_l has
    moved along −g_l, and at the early layers by far less than the gradient (about η per layer).

    `prediction_error` is the theorem's. At the nudged equilibrium, ∂E/∂h_l = 0 reads ε_L = −β·g_L
    and ε_l = (∂h_{l+1}/∂h_l)ᵀ·ε_{l+1}, so a_l = g_l up to O(β), scale included. The displacement at
    equilibrium sums the errors of all earlier layers, carried forward to l, and is biased by them
    (cosine to g_L 0.7 in a trained network of L = 4).

    As first published, the weights descend the nudged energy at the nudged states. Here they
    descend the local loss at the states of the free phase; both updates have a cosine of at least
    0.99 (docs/protocol.md §5).

    Moves lie far below float32's resolution of h_l. They are therefore computed in float64 and
    relative to the free phase, without subtracting states. Training and measuring use the same
    credit.

    Args:
        beta: β.
        eta: initial step size η, per sample.
        steps: descent steps K; default max(5, L + 1), since a nudge travels one layer per step.
        estimator: ``"displacement"`` or ``"prediction_error"``.
        arithmetic: ``"float64"``; or ``"float32"``, to show its cost: it descends on the states
            themselves, moves below half an ulp of h_l are lost, and the credit there is exactly 0.

    Raises:
        UsageError: an unknown estimator or arithmetic.

    Source: docs/protocol.md §5; Scellier & Bengio, Frontiers in Computational Neuroscience 11,
    2017.
    """

    name = "ep"

    def __init__(
        self,
        net: StreamNet,
        generator: torch.Generator,
        beta: float = 0.1,
        eta: float = 0.1,
        steps: int | None = None,
        estimator: str = "displacement",
        arithmetic: str = "float64",
    ) -> None:
        super().__init__(net, generator)
        check_known("estimator of ep", estimator, ESTIMATORS)
        check_known("arithmetic of ep", arithmetic, ARITHMETIC)
        depth = net.n_blocks + 1
        if steps is None:
            steps = max(5, depth)
        for option, value in {"beta": beta, "eta": eta, "steps": steps}.items():
            if not 0 < value <= max(LARGEST / depth, 5 * depth):
                raise UsageError(
                    f"ep: {option} is {value}", hint="give a number above 0, not so large"
                )
        self.beta = beta
        self.eta = eta
        self.steps = steps
        self.estimator = estimator
        self.dtype = ARITHMETIC[arithmetic]

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        twin = twin_of(net, self.dtype)
        h_0 = stream[0].detach().to(twin.head.weight)
        y = y.to(h_0.device)
        with torch.no_grad():
            free = twin.onward(h_0)
        origin = free
        if self.dtype == torch.float32:
            origin = list(map(torch.zeros_like, free))
        moved = nudged_phase(twin, free, y, self.beta, self.eta, self.steps, origin)
        if self.estimator == "displacement":
            moves = [m - (h - o) for m, h, o in zip(moved, free, origin, strict=True)]
        else:
            with torch.no_grad():
                moves = prediction_errors(twin, moved, h_0, origin)
        credit: Credit = []
        for move, h in zip(moves, stream, strict=True):
            scaled = -move / self.beta
            credit.append(scaled.to(h))
        return credit


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


def twin_of(net: StreamNet, dtype: torch.dtype) -> StreamNet:
    """The network's copy in another arithmetic.

    Args:
        net: unchanged, batch statistics included; returned itself if it has the dtype already.
        dtype: of the copy, which lies on the CPU if the device has no float64 (Apple's MPS).
    """
    weight = net.head.weight
    if weight.dtype == dtype:
        return net
    device = weight.device
    if device.type == "mps":
        device = torch.device("cpu")
    return copy.deepcopy(net).requires_grad_(False).to(device, dtype)


def prediction_errors(net: StreamNet, moved: States, h_0: Tensor, origin: States) -> list[Tensor]:
    """ε_0..ε_L: ε_0 = h_0 − embed(x), ε_{l+1} = h_{l+1} − h_l − f_l(h_l).

    Args:
        net: if not residual, its prediction of h_{l+1} is f_l(h_l) alone.
        moved: the states h_l minus `origin`.
        h_0: embed(x).
        origin: at the free phase, moves far below an ulp of h_l keep their digits.
    """
    errors = []
    expected = h_0
    for l, (m, o) in enumerate(zip(moved, origin, strict=True)):
        errors.append(m - (expected - o))
        if l < net.n_blocks:
            expected = net.advance(l, o + m)
    return errors


def energies(
    net: StreamNet, moved: States, h_0: Tensor, y: Tensor, beta: float, origin: States
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """E = Σ_l ½‖ε_l‖² + β·CE per sample (B,), and ∂(Σ_b E)/∂h_l.

    Args:
        net: the network.
        moved: h_0..h_L minus `origin`, not necessarily of a forward pass.
        h_0: embed(x).
        y: labels (B,).
        beta: β.
        origin: as for `prediction_errors`.
    """
    with torch.enable_grad():
        leaves = [m.detach().requires_grad_() for m in moved]
        logits = net.readout(origin[-1] + leaves[-1])
        energy = beta * F.cross_entropy(logits, y, reduction="none")
        for error in prediction_errors(net, leaves, h_0, origin):
            energy = energy + 0.5 * error.flatten(1).square().sum(1)
        return energy.detach(), torch.autograd.grad(energy.sum(), leaves)


def nudged_phase(
    net: StreamNet,
    free: States,
    y: Tensor,
    beta: float,
    eta: float,
    steps: int,
    origin: States,
) -> list[Tensor]:
    """`steps` simultaneous descent steps on all states, from the free phase.

    A sample whose energy rises, or is no longer finite, keeps its states and halves its step size.

    Returns:
        h_0..h_L of the nudged phase minus `origin` (see `energies`).
    """
    moved = [h - o for h, o in zip(free, origin, strict=True)]
    size = free[0].new_full((len(y),), eta)
    gradients: States
    energy, gradients = energies(net, moved, free[0], y, beta, origin)
    for _ in range(steps):
        proposed = []
        for state, gradient in zip(moved, gradients, strict=True):
            step = per_sample(size, state) * gradient
            proposed.append(state - step)
        new_energy, new_gradients = energies(net, proposed, free[0], y, beta, origin)
        falls = new_energy <= energy
        moved = _where(falls, proposed, moved)
        gradients = _where(falls, new_gradients, gradients)
        energy = torch.where(falls, new_energy, energy)
        size = torch.where(falls, size, size / 2)
    return moved


def _where(accepted: Tensor, new: States, old: States) -> list[Tensor]:
    """Per layer, the new values of the accepted samples and the old ones of the others."""
    return [
        torch.where(per_sample(accepted, after), after, before)
        for after, before in zip(new, old, strict=True)
    ]


def per_sample(values: Tensor, like: Tensor) -> Tensor:
    """(B,) as (B, 1, ...), to broadcast over `like`."""
    return values.view(-1, *[1] * (like.ndim - 1))
