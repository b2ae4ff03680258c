"""Rules with a small learned net per layer: a classifier, or the inverse of a block."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fa_core.zoo.methods.base import Credit, StepInfo
from fa_core.zoo.methods.bp import summed_ce, summed_gradients
from fa_core.zoo.methods.bridge import BridgeMethod, predicted_gradients
from fa_core.zoo.models.base import StreamNet


class LocalLoss(BridgeMethod):
    """a_l = ∇_{h_l} CE(C_l(h_l), y) for l < L, with linear classifiers C_l; a_L = g_L.

    C_l reads the flattened state and learns by AdamW on the same cross entropy, one step per
    training step. A block is trained for the class evidence in its own output, regardless of later
    blocks. This is the published prediction loss without its similarity loss.

    Args:
        lr: learning rate of the classifiers.

    Source: docs/protocol.md §5; Nøkland & Eidnes, ICML 2019.
    """

    name = "local_loss"
    learns = "classifiers"

    def __init__(self, net: StreamNet, generator: torch.Generator, lr: float = 1e-3) -> None:
        super().__init__(net, generator, lr)
        self.classifiers = nn.ModuleList()
        for size in net.state_sizes[:-1]:
            self.classifiers.append(nn.Linear(size, net.num_classes))
        self.redraw(generator)

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        def readout(l: int, h: Tensor) -> Tensor:
            if l == net.n_blocks:
                return net.readout(h)
            return self.classify(l, h)

        return predicted_gradients(readout, stream, partial(summed_ce, y=y))

    def classify(self, l: int, h: Tensor) -> Tensor:
        """C_l(h_l), (B, C)."""
        logits: Tensor = self.classifiers[l](h.flatten(1))
        return logits

    def bridge_loss(self, info: StepInfo, s: Tensor) -> Tensor:
        """Σ_l CE(C_l(h_l), y), l < L."""
        losses = [s.new_zeros(())]
        for l, h in enumerate(info.stream[:-1]):
            losses.append(F.cross_entropy(self.classify(l, h), info.y))
        return torch.stack(losses).sum()


class TargetPropagation(BridgeMethod):
    """Difference target propagation: a_l = (V_l(h_{l+1}) − V_l(h_{l+1} − η·a_{l+1}))/η, a_L = g_L.

    The learned V_l(h_{l+1}) ≈ h_l inverts block l. It has two linear layers around a GELU on the
    flattened state, plus h_{l+1} itself in a residual network. Layer l has the target h_l − η·a_l.
    a_l is about (∂V_l/∂h_{l+1})·a_{l+1}: the inverse of the block's Jacobian in place of backprop's
    transpose, so that Γ < 1 even with exact inverses.

    V_l minimises ‖V_l(h_{l+1}) − h_l‖²/‖h_l‖² at states h_l + ξ, by one AdamW step per training
    step. ξ is Gaussian with a deviation of σ times the root mean square of h_l.

    In a residual network V_l starts near the identity. Newly drawn inverses, the null of Γ,
    therefore have a high Γ already.

    Args:
        eta: η.
        sigma: σ.
        width: inside V_l; default 2d.
        lr: learning rate of the inverses.

    Source: docs/protocol.md §5; Lee, Zhang, Fischer & Bengio, ECML 2015.
    """

    name = "dtp"
    learns = "inverses"

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
        self.eta = eta
        self.sigma = sigma
        self.residual = net.residual
        if width is None:
            width = 2 * net.head.in_features
        self.inverses = nn.ModuleList()
        for before, size in pairwise(net.state_sizes):
            inverse = nn.Sequential(nn.Linear(size, width), nn.GELU(), nn.Linear(width, before))
            self.inverses.append(inverse)
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
                target = h - self.eta * credit[0]
                moved = self.inverse(l, h) - self.inverse(l, target)
                credit.insert(0, (moved / self.eta).view_as(stream[l]))
        return list(credit)

    def extra_targets(
        self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor
    ) -> dict[str, Tensor]:
        """Noisy states h_l + ξ, and the next states of each."""
        targets = {}
        with torch.no_grad():
            for l, h in enumerate(stream[:-1]):
                scale = self.sigma * h.square().mean().sqrt()
                noisy = h + scale * torch.randn_like(h)
                targets[f"noisy_{l}"] = noisy
                targets[f"ahead_{l}"] = net.advance(l, noisy)
        return targets

    def bridge_loss(self, info: StepInfo, s: Tensor) -> Tensor:
        """Σ_l of the inverses' relative squared errors."""
        errors = [s.new_zeros(())]
        for l, h in enumerate(info.stream[:-1]):
            noisy = info.targets[f"noisy_{l}"].flatten(1)
            error = self.inverse(l, info.targets[f"ahead_{l}"]) - noisy
            errors.append(error.square().sum() / h.square().sum())
        return torch.stack(errors).sum()
