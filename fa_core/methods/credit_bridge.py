"""Credit Bridge: learn the loss to come as a function of the state, and take that function's gradient."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from fa_core.methods.base import Credit, StepInfo, output_error
from fa_core.methods.bridge import BridgeMethod, BridgeNet, predicted_gradients
from fa_core.models.base import StreamNet
from fa_core.naming import unknown_name

Value = Callable[[int, Tensor, Tensor], Tensor]
"""(l, h_l, s) ↦ V, (B, 1)."""


class Variant(NamedTuple):
    """What distinguishes the two variants: LayerNorm on V's input, and the weight w of gradient matching."""

    normalise: bool
    weight: float


class CreditBridge(BridgeMethod):
    """a_l = ∇_{h_l} V(h_l, t_l, s), l = 0..L, with a learned value V and s = e_T.

    V minimises, each a mean over the batch (g_L per sample; the last also a mean over l < L),

        (V(h_L) − CE)²  +  w·‖∇V(h_L) − g_L‖² / mean‖g_L‖²  +  (V(h_l) − soft_l)²
        soft_l = −λ·log mean_ξ exp(−V̄(h_{l+1} + σξ, t_{l+1}, s)/λ),   ξ ~ N(0, I), V̄ an EMA copy of V.

    Args:
        variant: ``"published"`` (V sees h, w = 1) or ``"stable"`` (V sees LN(h), w = 10).
        lr: learning rate of V.

    Source: docs/protocol.md §5.
    """

    name = "credit_bridge"
    VARIANTS: ClassVar[dict[str, Variant]] = {"published": Variant(False, 1.0), "stable": Variant(True, 10.0)}
    SIGMA: ClassVar[float] = 0.1
    TEMPERATURE: ClassVar[float] = 0.1
    DRAWS: ClassVar[int] = 4
    DECAY: ClassVar[float] = 0.99

    def __init__(
        self, net: StreamNet, generator: torch.Generator, variant: str = "published", lr: float = 1e-3
    ) -> None:
        super().__init__(net, generator, lr)
        if variant not in self.VARIANTS:
            raise unknown_name("variant of credit_bridge", variant, self.VARIANTS)
        self.variant = self.VARIANTS[variant]
        sizes = [torch.Size(shape).numel() for shape in net.state_shapes]
        width = 2 * net.head.in_features
        self.value = BridgeNet(sizes, net.num_classes, width, outputs=1, normalise=self.variant.normalise)
        self.value_ema = copy.deepcopy(self.value).requires_grad_(False)
        self.redraw(generator)

    @property
    def bridge(self) -> BridgeNet:
        return self.value

    def redraw(self, generator: torch.Generator) -> None:
        super().redraw(generator)
        self.value_ema.load_state_dict(self.value.state_dict())
        self._noise_seed = int(torch.randint(2**31, (), generator=generator))

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        return list(value_gradients(self.value, stream, output_error(logits, y)))

    def extra_targets(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> dict[str, Tensor]:
        with torch.enable_grad():
            h_L = stream[-1].detach().requires_grad_()
            ce = F.cross_entropy(net.readout(h_L), y, reduction="none")
            (g_L,) = torch.autograd.grad(ce.sum(), h_L)
        return {"ce": ce.detach(), "g_L": g_L}

    def bridge_loss(self, info: StepInfo, s: Tensor) -> Tensor:
        ce, g_L = info.targets["ce"], info.targets["g_L"]
        value, gradient = terminal_value(self.value, info.stream, s)
        scale = g_L.flatten(1).square().sum(1).mean()
        matching = (gradient - g_L).flatten(1).square().sum(1).mean() / torch.where(scale > 0, scale, torch.inf)
        noise = torch.Generator(s.device).manual_seed(self._noise_seed + self.steps)
        soft = soft_values(self.value_ema, info.stream, s, self.SIGMA, self.TEMPERATURE, self.DRAWS, noise)
        return (
            (value - ce).square().mean()
            + self.variant.weight * matching
            + bridge_error(self.value, info.stream, s, soft)
        )

    def extra_step(self, net: StreamNet, info: StepInfo) -> Tensor | None:
        """One step of V, then V̄ ← 0.99·V̄ + 0.01·V."""
        loss = super().extra_step(net, info)
        update_average(self.value_ema, self.value, self.DECAY)
        return loss


def value_gradients(value: Value, stream: Sequence[Tensor], s: Tensor) -> tuple[Tensor, ...]:
    """∇_{h_l} V(h_l, t_l, s), l = 0..L."""
    return predicted_gradients(lambda l, h: value(l, h, s), stream, torch.sum)


def terminal_value(value: Value, stream: Sequence[Tensor], s: Tensor) -> tuple[Tensor, Tensor]:
    """V(h_L) (B,) and ∇V(h_L), both differentiable by V's parameters."""
    h_L = stream[-1].detach().requires_grad_()
    terminal = value(len(stream) - 1, h_L, s).squeeze(1)
    (gradient,) = torch.autograd.grad(terminal.sum(), h_L, create_graph=True)
    return terminal, gradient


@torch.no_grad()
def soft_values(
    value: Value,
    stream: Sequence[Tensor],
    s: Tensor,
    sigma: float,
    temperature: float,
    draws: int,
    generator: torch.Generator,
) -> list[Tensor]:
    """−λ·log mean_ξ exp(−V(h_{l+1} + σξ)/λ) (B,), l = 0..L-1; λ = `temperature`."""
    soft = []
    for l, h in enumerate(stream[1:], start=1):
        xi = torch.randn((draws, *h.shape), generator=generator, device=h.device, dtype=h.dtype)
        noisy = value(l, (h + sigma * xi).flatten(0, 1), s.repeat(draws, 1)).view(draws, len(h))
        soft.append(-temperature * (torch.logsumexp(-noisy / temperature, 0) - math.log(draws)))
    return soft


def bridge_error(value: Value, stream: Sequence[Tensor], s: Tensor, soft: Sequence[Tensor]) -> Tensor:
    """mean over l < L and the batch of (V(h_l) − soft_l)²; 0 where there is no block."""
    errors = [(value(l, stream[l], s).squeeze(1) - target).square().mean() for l, target in enumerate(soft)]
    return torch.stack(errors).mean() if errors else s.new_zeros(())


@torch.no_grad()
def update_average(average: torch.nn.Module, net: torch.nn.Module, decay: float) -> None:
    """average ← decay·average + (1 − decay)·net, parameter by parameter."""
    for kept, new in zip(average.parameters(), net.parameters(), strict=True):
        kept.lerp_(new, 1 - decay)
