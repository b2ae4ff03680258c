"""Rules with a small learned net per layer: an inverse of every block, or a classifier."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fa_core.methods.base import Credit, StepInfo
from fa_core.methods.bp import summed_gradients
from fa_core.methods.bridge import BridgeMethod, predicted_gradients
from fa_core.models.base import StreamNet


class LocalLoss(BridgeMethod):
    """a_l = ∇_{h_l} CE(C_l(h_l), y) with a linear classifier C_l on the flattened state, l < L; a_L
    = g_L.

    C_l learns by AdamW on the same cross entropy, one step per training step. Every block is
    trained for what the next state already shows, and nothing of what later blocks make of it. This
    is the prediction loss alone, without the similarity loss that is published with it.

    Args:
        lr: learning rate of the classifiers.

    Source: docs/protocol.md §5; Nøkland & Eidnes, ICML 2019.
    """

    name, learns = "local_loss", "classifiers"

    def __init__(self, net: StreamNet, generator: torch.Generator, lr: float = 1e-3) -> None:
        super().__init__(net, generator, lr)
        sizes = [torch.Size(shape).numel() for shape in net.state_shapes[:-1]]
        self.classifiers = nn.ModuleList(nn.Linear(size, net.num_classes) for size in sizes)
        self.redraw(generator)

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        def readout(l: int, h: Tensor) -> Tensor:
            return net.readout(h) if l == net.n_blocks else self.classifiers[l](h.flatten(1))

        return list(
            predicted_gradients(readout, stream, lambda z: F.cross_entropy(z, y, reduction="sum"))
        )

    def bridge_loss(self, info: StepInfo, s: Tensor) -> Tensor:
        """Σ_l CE(C_l(h_l), y), l < L."""
        pairs = zip(self.classifiers, info.stream, strict=False)
        return torch.stack(
            [s.new_zeros(()), *(F.cross_entropy(C(h.flatten(1)), info.y) for C, h in pairs)]
        ).sum()


class TargetPropagation(BridgeMethod):
    """Difference target propagation: a_l = (V_l(h_{l+1}) − V_l(h_{l+1} − η·a_{l+1}))/η, a_L = g_L,
    with learned V_l.

    V_l(h_{l+1}) ≈ h_l inverts block l: two linear layers around a GELU on the flattened state, plus
    h_{l+1} itself in a residual network. The target of layer l is h_l − η·a_l; a_l is about
    (∂V_l/∂h_{l+1})·a_{l+1}, the inverse of the block's Jacobian where backprop has its transpose,
    so Γ < 1 also with exact inverses. V_l minimises ‖V_l(h_{l+1}) − h_l‖²/‖h_l‖² at states h_l + ξ,
    ξ Gaussian of σ times the root mean square of h_l, by AdamW, a step per training step.

    In a residual network V_l starts near the identity, so fresh inverses, the null of Γ, already
    have a high Γ.

    Args:
        eta: η.
        sigma: σ.
        width: inside V_l; default 2d.
        lr: learning rate of the inverses.

    Source: docs/protocol.md §5; Lee, Zhang, Fischer & Bengio, ECML 2015.
    """

    name, learns = "dtp", "inverses"

    def __init__(
        self,
        net: StreamNet,
        generator: torch.Generator,
        eta: float = 0.1,
        sigma: float = 0.1,
        width: int | None = None,
        lr: float = 1e-3,
    ) -> None:
        super().__init__(net, generator, lr)
        self.eta, self.sigma, self.residual = eta, sigma, net.residual
        if width is None:
            width = 2 * net.head.in_features
        sizes = [torch.Size(shape).numel() for shape in net.state_shapes]
        self.inverses = nn.ModuleList(
            nn.Sequential(nn.Linear(size, width), nn.GELU(), nn.Linear(width, before))
            for before, size in pairwise(sizes)
        )
        self.redraw(generator)

    def inverse(self, l: int, h: Tensor) -> Tensor:
        """V_l(h_{l+1}), flattened."""
        h = h.flatten(1)
        found: Tensor = self.inverses[l](h)
        if self.residual:
            return h + found
        return found

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        credit = [summed_gradients(net, stream[0], y)[-1]]
        with torch.no_grad():
            for l in reversed(range(net.n_blocks)):
                h = stream[l + 1]
                moved = self.inverse(l, h) - self.inverse(l, h - self.eta * credit[0])
                credit.insert(0, (moved / self.eta).view_as(stream[l]))
        return list(credit)

    def extra_targets(
        self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor
    ) -> dict[str, Tensor]:
        """Noisy states, and what the blocks make of them."""
        found: dict[str, Tensor] = {}
        with torch.no_grad():
            for l, h in enumerate(stream[:-1]):
                noisy = h + self.sigma * h.square().mean().sqrt() * torch.randn_like(h)
                found |= {f"noisy_{l}": noisy, f"ahead_{l}": net.advance(l, noisy)}
        return found

    def bridge_loss(self, info: StepInfo, s: Tensor) -> Tensor:
        """Σ_l of the inverses' relative errors."""
        errors = [s.new_zeros(())]
        for l, h in enumerate(info.stream[:-1]):
            apart = self.inverse(l, info.targets[f"ahead_{l}"]) - info.targets[
                f"noisy_{l}"
            ].flatten(1)
            errors.append(apart.square().sum() / h.square().sum())
        return torch.stack(errors).sum()
