"""The two bridge methods, whose credit comes from a small learned net on (h_l, t_l, s).

State Bridge: predict where the stream will end, and take the loss's gradient through the
prediction. Credit Bridge: learn the loss to come as a function of the state, and take that
function's gradient.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fa_core.methods.base import Credit, Method, StepInfo, output_error
from fa_core.models.base import StreamNet
from fa_core.option_values import unknown_name


class BridgeNet(nn.Module):
    """Two hidden layers on [h_l, t_l, s], t_l = l/L: (B, ...), (B, S) → (B, outputs).

    Layers of the stream that differ in size have an input layer per size; all else is shared.

    Args:
        sizes: values per sample of h_0..h_L (a state is flattened).
        error_size: S.
        width: of the hidden layers.
        outputs: size of the output.
        activation: after each hidden layer.
        normalise: whether h_l passes through a LayerNorm without parameters first.

    Source: docs/protocol.md §5.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        error_size: int,
        width: int,
        outputs: int,
        activation: Callable[[Tensor], Tensor] = F.gelu,
        normalise: bool = False,
    ) -> None:
        super().__init__()
        self.sizes = list(sizes)
        self.activation = activation
        self.normalise = normalise
        self.inputs = nn.ModuleDict(
            {str(size): nn.Linear(size + 1 + error_size, width) for size in sorted(set(sizes))}
        )
        self.hidden = nn.Linear(width, width)
        self.output = nn.Linear(width, outputs)

    def forward(self, l: int, h: Tensor, s: Tensor) -> Tensor:
        h = h.flatten(1)
        t = h.new_full((len(h), 1), l / max(len(self.sizes) - 1, 1))
        if self.normalise:
            h = F.layer_norm(h, h.shape[1:])
        u = self.activation(self.inputs[str(self.sizes[l])](torch.cat([h, t, s], dim=1)))
        out: Tensor = self.output(self.activation(self.hidden(u)))
        return out


@torch.no_grad()
def draw_linear_(net: nn.Module, generator: torch.Generator) -> None:
    """PyTorch's initial weights of a net's linear layers, U(±1/√inputs), drawn from `generator` on
    the CPU."""
    for layer in net.modules():
        if isinstance(layer, nn.Linear):
            for parameter in (layer.weight, layer.bias):
                drawn = 2 * torch.rand(parameter.shape, generator=generator) - 1
                parameter.copy_(drawn * layer.in_features**-0.5)


class BridgeMethod(Method):
    """A method whose credit comes from a net trained by AdamW, one step per training step.

    Args:
        lr: the bridge's learning rate (constant).
    """

    draws_feedback = True
    learns: ClassVar[str]
    """The name of the net that learns."""

    def __init__(self, net: StreamNet, generator: torch.Generator, lr: float = 1e-3) -> None:
        super().__init__(net, generator)
        self.lr = lr
        self.steps = 0
        self._optimizer: torch.optim.AdamW | None = None

    @property
    def bridge(self) -> nn.Module:
        """The net that learns."""
        return self.get_submodule(self.learns)

    @abstractmethod
    def bridge_loss(self, info: StepInfo, s: Tensor) -> Tensor:
        """What the bridge minimises on one detached stream; s = e_T."""

    def extra_step(self, net: StreamNet, info: StepInfo) -> Tensor | None:
        """One AdamW step of the bridge on the stream of `info`; the network is not touched."""
        optimizer = self._bridge_optimizer()
        with torch.enable_grad():
            loss = self.bridge_loss(info, output_error(info.logits, info.y))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        self.steps += 1
        return loss.detach()

    def redraw(self, generator: torch.Generator) -> None:
        draw_linear_(self.bridge, generator)
        self.steps = 0
        self._optimizer = None

    def training_state(self) -> dict[str, Any]:
        return {"steps": self.steps, "optimizer": self._bridge_optimizer().state_dict()}

    def load_training_state(self, state: dict[str, Any]) -> None:
        self.steps = state["steps"]
        self._bridge_optimizer().load_state_dict(state["optimizer"])

    def _bridge_optimizer(self) -> torch.optim.AdamW:
        if self._optimizer is None:
            self._optimizer = torch.optim.AdamW(self.bridge.parameters(), lr=self.lr)
        return self._optimizer


class StateBridge(BridgeMethod):
    """a_l = ∇_{h_l} CE(head(out_ln(G(h_l, t_l, s))), y), l = 0..L, with a learned G ≈ h_L and s =
    e_T.

    G predicts the part of h_L that the head reads, so on a token stream the cls token.

    Args:
        lr: learning rate of G.

    Source: docs/protocol.md §5.
    """

    name, learns = "state_bridge", "predictor"

    def __init__(self, net: StreamNet, generator: torch.Generator, lr: float = 1e-3) -> None:
        super().__init__(net, generator, lr)
        d = net.head.in_features
        sizes = [torch.Size(shape).numel() for shape in net.state_shapes]
        self.predictor = BridgeNet(sizes, net.num_classes, width=2 * d, outputs=d)
        self.redraw(generator)

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        s = output_error(logits, y)

        def readout_loss(predicted: Tensor) -> Tensor:
            return F.cross_entropy(net.head(net.out_ln(predicted)), y, reduction="sum")

        return list(predicted_gradients(lambda l, h: self.predictor(l, h, s), stream, readout_loss))

    def extra_targets(
        self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor
    ) -> dict[str, Tensor]:
        return {"h_L": net.read(stream[-1])}

    def bridge_loss(self, info: StepInfo, s: Tensor) -> Tensor:
        return prediction_loss(
            lambda l, h: self.predictor(l, h, s), info.stream, info.targets["h_L"]
        )


def predicted_gradients(
    predict: Callable[[int, Tensor], Tensor],
    stream: Sequence[Tensor],
    loss: Callable[[Tensor], Tensor],
) -> tuple[Tensor, ...]:
    """∇_{h_l} loss(predict(l, h_l)), l = 0..L; `loss` sums over samples."""
    with torch.enable_grad():
        leaves = [h.detach().requires_grad_() for h in stream]
        total = torch.stack([loss(predict(l, h)) for l, h in enumerate(leaves)]).sum()
        return torch.autograd.grad(total, leaves)


def prediction_loss(
    predict: Callable[[int, Tensor], Tensor], stream: Sequence[Tensor], target: Tensor
) -> Tensor:
    """mean over l = 0..L and the batch of ‖G(h_l) − h_L‖², divided by the batch mean of ‖h_L‖².

    Args:
        predict: (l, h_l) ↦ G, (B, d).
        stream: h_0..h_L.
        target: h_L, (B, d).
    """
    errors = [(predict(l, h) - target).square().sum(1).mean() for l, h in enumerate(stream)]
    return torch.stack(errors).mean() / target.square().sum(1).mean()


Value = Callable[[int, Tensor, Tensor], Tensor]
"""(l, h_l, s) ↦ V, (B, 1)."""


class Variant(NamedTuple):
    """What distinguishes the two variants: LayerNorm on V's input, and the weight w of gradient
    matching."""

    normalise: bool
    weight: float


class CreditBridge(BridgeMethod):
    """a_l = ∇_{h_l} V(h_l, t_l, s), l = 0..L, with a learned value V and s = e_T.

    V minimises, each a mean over the batch (g_L per sample; the last also a mean over l < L),

        (V(h_L) − CE)²  +  w·‖∇V(h_L) − g_L‖² / mean‖g_L‖²  +  (V(h_l) − soft_l)²
        soft_l = −λ·log mean_ξ exp(−V̄(h_{l+1} + σξ, t_{l+1}, s)/λ),
        ξ ~ N(0, I), V̄ an EMA copy of V.

    Args:
        variant: ``"published"`` (V sees h, w = 1) or ``"stable"`` (V sees LN(h), w = 10).
        lr: learning rate of V.

    Source: docs/protocol.md §5.
    """

    name, learns = "credit_bridge", "value"
    VARIANTS: ClassVar[dict[str, Variant]] = {
        "published": Variant(False, 1.0),
        "stable": Variant(True, 10.0),
    }
    SIGMA: ClassVar[float] = 0.1
    TEMPERATURE: ClassVar[float] = 0.1
    DRAWS: ClassVar[int] = 4
    DECAY: ClassVar[float] = 0.99

    def __init__(
        self,
        net: StreamNet,
        generator: torch.Generator,
        variant: str = "published",
        lr: float = 1e-3,
    ) -> None:
        super().__init__(net, generator, lr)
        if variant not in self.VARIANTS:
            raise unknown_name("variant of credit_bridge", variant, self.VARIANTS)
        self.variant = self.VARIANTS[variant]
        sizes = [torch.Size(shape).numel() for shape in net.state_shapes]
        width = 2 * net.head.in_features
        self.value = BridgeNet(
            sizes, net.num_classes, width, outputs=1, normalise=self.variant.normalise
        )
        self.value_ema = copy.deepcopy(self.value).requires_grad_(False)
        self.redraw(generator)

    def redraw(self, generator: torch.Generator) -> None:
        super().redraw(generator)
        self.value_ema.load_state_dict(self.value.state_dict())
        self._noise_seed = int(torch.randint(2**31, (), generator=generator))

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        return list(value_gradients(self.value, stream, output_error(logits, y)))

    def extra_targets(
        self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor
    ) -> dict[str, Tensor]:
        with torch.enable_grad():
            h_L = stream[-1].detach().requires_grad_()
            ce = F.cross_entropy(net.readout(h_L), y, reduction="none")
            (g_L,) = torch.autograd.grad(ce.sum(), h_L)
        return {"ce": ce.detach(), "g_L": g_L}

    def bridge_loss(self, info: StepInfo, s: Tensor) -> Tensor:
        ce, g_L = info.targets["ce"], info.targets["g_L"]
        value, gradient = terminal_value(self.value, info.stream, s)
        scale = g_L.flatten(1).square().sum(1).mean()
        matching = (gradient - g_L).flatten(1).square().sum(1).mean() / torch.where(
            scale > 0, scale, torch.inf
        )
        noise = torch.Generator(s.device).manual_seed(self._noise_seed + self.steps)
        soft = soft_values(
            self.value_ema, info.stream, s, self.SIGMA, self.TEMPERATURE, self.DRAWS, noise
        )
        error = bridge_error(self.value, info.stream, s, soft)
        return (value - ce).square().mean() + self.variant.weight * matching + error

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


def bridge_error(
    value: Value, stream: Sequence[Tensor], s: Tensor, soft: Sequence[Tensor]
) -> Tensor:
    """mean over l < L and the batch of (V(h_l) − soft_l)²; 0 where there is no block."""
    errors = [
        (value(l, stream[l], s).squeeze(1) - target).square().mean()
        for l, target in enumerate(soft)
    ]
    if errors:
        return torch.stack(errors).mean()
    return s.new_zeros(())


@torch.no_grad()
def update_average(average: torch.nn.Module, net: torch.nn.Module, decay: float) -> None:
    """average ← decay·average + (1 − decay)·net, parameter by parameter."""
    for kept, new in zip(average.parameters(), net.parameters(), strict=True):
        kept.lerp_(new, 1 - decay)
