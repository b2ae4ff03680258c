"""Equilibrium propagation: nudge the settled network towards the label, and see its states move."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import functional as F

from fa_core.errors import UsageError
from fa_core.methods.base import Credit, Method
from fa_core.models.base import StreamNet
from fa_core.option_values import unknown_name

States = Sequence[Tensor]
"""One tensor per layer."""

ESTIMATORS = ("displacement", "prediction_error")
ARITHMETIC = {"float64": torch.float64, "float32": torch.float32}


class EquilibriumPropagation(Method):
    """a_l of the nudged phase on the network's own stack, l = 0..L, by one of two estimators:

        displacement       −(h_l^nudged − h_l^free)/β
        prediction_error   −ε_l/β,   ε_0 = h_0 − embed(x),
                           ε_{l+1} = h_{l+1} − h_l − f_l(h_l),   at h^nudged

    At β = 0 the forward pass minimises the energy (see `energies`); the nudged phase is a few
    descent steps on all states at once at small β. `displacement` is the published estimator, with
    K = 5, η = 0.1, β = 0.1: after so few steps h_l has moved along −g_l, far less than the gradient
    at the early layers (about η per layer). `prediction_error` is the theorem's: where the nudged
    phase has settled, ∂E/∂h_l = 0 reads ε_L = −β·g_L and ε_l = (∂h_{l+1}/∂h_l)ᵀ·ε_{l+1}, so a_l =
    g_l up to O(β), scale included. A settled displacement is the sum of the errors of all earlier
    layers, carried forward to l, and so biased (cosine to g_L 0.7 in a trained network of L = 4).

    As first published weights descend the nudged energy at the nudged states. Here they descend the
    local loss at the states of the free phase, which is that update with a cosine of at least 0.99
    (docs/protocol.md §5).

    Moves are far below float32's resolution of h_l, so they are computed in float64 and relative to
    the free phase: nothing is subtracted from a state. Training and measuring use the same credit.

    Args:
        beta: β.
        eta: step size η at the start, per sample.
        steps: descent steps K; default 5, or L+1 where that is more (a nudge travels one layer a
            step).
        estimator: ``"displacement"`` or ``"prediction_error"``.
        arithmetic: ``"float64"``; or ``"float32"``, which descends on the states themselves in
            float32, to show what that costs: moves below half an ulp of h_l are lost, and the
            credit there is exactly 0.

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
        for kind, name, known in (
            ("estimator", estimator, ESTIMATORS),
            ("arithmetic", arithmetic, ARITHMETIC),
        ):
            if name not in known:
                raise unknown_name(f"{kind} of ep", name, known)
        for option, value in (
            ("beta", beta),
            ("eta", eta),
            ("steps", 1 if steps is None else steps),
        ):
            if not 0 < value < math.inf:
                raise UsageError(f"ep: {option} is {value}", hint="give a number above 0")
        self.beta = beta
        self.eta = eta
        if steps is None:
            self.steps = max(5, net.n_blocks + 1)
        else:
            self.steps = steps
        self.estimator = estimator
        self.dtype = ARITHMETIC[arithmetic]

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        twin = twin_of(net, self.dtype)
        h_0, y = stream[0].detach().to(twin.head.weight), y.to(twin.head.weight.device)
        with torch.no_grad():
            free = twin.onward(h_0)
        if self.dtype == torch.float64:
            origin = free
        else:
            origin = [torch.zeros_like(h) for h in free]
        moved = nudged_phase(twin, free, y, self.beta, self.eta, self.steps, origin)
        if self.estimator == "displacement":
            moves = [m - (h - o) for m, h, o in zip(moved, free, origin, strict=True)]
        else:
            with torch.no_grad():
                moves = prediction_errors(twin, moved, free[0], origin)
        return [(-move / self.beta).to(h) for move, h in zip(moves, stream, strict=True)]


_TWINS: WeakKeyDictionary[StreamNet, StreamNet] = WeakKeyDictionary()


def twin_of(net: StreamNet, dtype: torch.dtype) -> StreamNet:
    """The network in another arithmetic, as it is now: a copy made once, then only filled again.

    Args:
        net: left as it is, batch statistics included; returned itself if it has that arithmetic.
        dtype: of the copy. A device without float64 (Apple's MPS) has it on the CPU.
    """
    weight = net.head.weight
    if weight.dtype == dtype:
        return net
    twin = _TWINS.get(net)
    if twin is None or twin.head.weight.dtype != dtype:
        if weight.device.type == "mps":
            place = torch.device("cpu")
        else:
            place = weight.device
        twin = _TWINS[net] = copy.deepcopy(net).requires_grad_(False).to(place, dtype)
    for ours, theirs in zip(twin.modules(), net.modules(), strict=True):
        ours.training = theirs.training
    twin.load_state_dict(net.state_dict())
    return twin


def prediction_errors(
    net: StreamNet, moved: States, h_0: Tensor, origin: States | None = None
) -> list[Tensor]:
    """ε_0..ε_L: ε_0 = h_0 − embed(x), ε_{l+1} = h_{l+1} − h_l − f_l(h_l).

    Args:
        net: where it is not residual, f_l(h_l) alone takes the place of h_l + f_l(h_l).
        moved: the states h_l less `origin`.
        h_0: embed(x).
        origin: default 0; with the free phase, moves far below an ulp of h_l keep their digits.
    """
    if origin is None:
        origin = [torch.zeros_like(h) for h in moved]
    states = [o + m for o, m in zip(origin, moved, strict=True)]
    expected = [h_0, *(net.advance(l, states[l]) for l in range(net.n_blocks))]
    return [m - (e - o) for m, e, o in zip(moved, expected, origin, strict=True)]


def energies(
    net: StreamNet, moved: States, h_0: Tensor, y: Tensor, beta: float, origin: States | None = None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """E = Σ_l ½‖ε_l‖² + β·CE per sample (B,), and ∂(Σ_b E)/∂h_l.

    Args:
        net: the network.
        moved: h_0..h_L less `origin`, free to differ from the forward pass.
        h_0: embed(x).
        y: labels (B,).
        beta: β.
        origin: as for `prediction_errors`.
    """
    with torch.enable_grad():
        leaves = [m.detach().requires_grad_() for m in moved]
        if origin is None:
            last = leaves[-1]
        else:
            last = origin[-1] + leaves[-1]
        energy = beta * F.cross_entropy(net.readout(last), y, reduction="none")
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
    origin: States | None = None,
) -> list[Tensor]:
    """`steps` simultaneous descent steps on all states from the free phase; a sample whose energy
    rises (or is no longer finite) keeps its state and halves its step size.

    Returns:
        h_0..h_L of the nudged phase, less `origin` (see `prediction_errors`).
    """
    if origin is None:
        moved = list(free)
    else:
        moved = [h - o for h, o in zip(free, origin, strict=True)]
    size = free[0].new_full((len(y),), eta)
    energy, gradients = energies(net, moved, free[0], y, beta, origin)
    for _ in range(steps):
        proposed = [m - per_sample(size, m) * g for m, g in zip(moved, gradients, strict=True)]
        new_energy, new_gradients = energies(net, proposed, free[0], y, beta, origin)
        falls = new_energy <= energy
        moved = [
            torch.where(per_sample(falls, m), new, m)
            for new, m in zip(proposed, moved, strict=True)
        ]
        gradients = tuple(
            torch.where(per_sample(falls, g), new, g)
            for new, g in zip(new_gradients, gradients, strict=True)
        )
        energy = torch.where(falls, new_energy, energy)
        size = torch.where(falls, size, size / 2)
    return moved


def per_sample(values: Tensor, like: Tensor) -> Tensor:
    """(B,) as (B, 1, ...), to broadcast over `like`."""
    return values.view(-1, *[1] * (like.ndim - 1))
