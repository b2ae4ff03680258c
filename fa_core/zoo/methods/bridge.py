"""The two bridge methods: credit from a small learned net on (h_l, t_l, s).

State Bridge predicts h_L and takes the loss's gradient through the prediction. Credit Bridge learns
the loss as a function of the state and takes that function's gradient.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from operator import index
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fa_core.option_values import check_known
from fa_core.zoo.methods.base import (
    Credit,
    Method,
    StepInfo,
    TrainingState,
    mean_square_norm,
    output_error,
    restore_optimizer,
)
from fa_core.zoo.methods.bp import summed_ce
from fa_core.zoo.models.base import StreamNet


class BridgeNet(nn.Module):
    """Two hidden layers on [h_l, t_l, s], t_l = l/L: (B, ...), (B, S) → (B, outputs).

    States of different sizes have an input layer per size; all else is shared.

    Args:
        sizes: values per sample of h_0..h_L (a state is flattened).
        error_size: S.
        width: of the hidden layers.
        outputs: size of the output.
        normalise: whether a LayerNorm without parameters is applied to h_l first.

    Source: docs/protocol.md §5.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        error_size: int,
        width: int,
        outputs: int,
        normalise: bool = False,
    ) -> None:
        super().__init__()
        self.sizes = list(sizes)
        self.activation = F.gelu
        self.normalise = normalise
        self.inputs = nn.ModuleDict()
        for size in sorted(set(sizes)):
            self.inputs[str(size)] = nn.Linear(size + 1 + error_size, width)
        self.hidden = nn.Linear(width, width)
        self.output = nn.Linear(width, outputs)

    def forward(self, l: int, h: Tensor, s: Tensor) -> Tensor:
        h = h.flatten(1)
        blocks = max(len(self.sizes) - 1, 1)
        t = h.new_full((len(h), 1), l / blocks)
        if self.normalise:
            h = F.layer_norm(h, h.shape[1:])
        first_layer = self.inputs[str(self.sizes[l])]
        u = self.activation(first_layer(torch.cat([h, t, s], dim=1)))
        out: Tensor = self.output(self.activation(self.hidden(u)))
        return out


@torch.no_grad()
def draw_linear_(net: nn.Module, generator: torch.Generator) -> None:
    """Fill a net's linear layers with U(±1/√inputs), as PyTorch does, drawn on the CPU."""
    for layer in net.modules():
        if isinstance(layer, nn.Linear):
            bound = layer.in_features**-0.5
            for parameter in layer.parameters():
                drawn = 2 * torch.rand(parameter.shape, generator=generator) - 1
                parameter.copy_(drawn * bound)


class BridgeMethod(Method):
    """Credit from a learned net; AdamW trains it by one step per training step.

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
        """The bridge's loss on one detached stream; s = e_T."""

    def extra_step(self, net: StreamNet, info: StepInfo) -> Tensor | None:
        """One AdamW step of the bridge on the stream of `info`; the network is unchanged."""
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

    def training_state(self) -> TrainingState:
        return {"steps": self.steps, "optimizer": self._bridge_optimizer().state_dict()}

    def load_training_state(self, state: TrainingState) -> None:
        self.steps = index(state["steps"])
        restore_optimizer(self._bridge_optimizer(), state["optimizer"])

    def _bridge_optimizer(self) -> torch.optim.AdamW:
        if self._optimizer is None:
            self._optimizer = torch.optim.AdamW(self.bridge.parameters(), lr=self.lr)
        return self._optimizer


class StateBridge(BridgeMethod):
    """a_l = ∇_{h_l} CE(head(out_ln(G(h_l, t_l, s))), y), l = 0..L, s = e_T, with a learned G ≈ h_L.

    G predicts the part of h_L that the head reads: on a token stream the cls token.

    Args:
        lr: learning rate of G.

    Source: docs/protocol.md §5.
    """

    name = "state_bridge"
    learns = "predictor"

    def __init__(self, net: StreamNet, generator: torch.Generator, lr: float = 1e-3) -> None:
        super().__init__(net, generator, lr)
        d = net.head.in_features
        self.predictor = BridgeNet(net.state_sizes, net.num_classes, width=2 * d, outputs=d)
        self.redraw(generator)

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        s = output_error(logits, y)

        def loss(predicted: Tensor) -> Tensor:
            return summed_ce(net.head(net.out_ln(predicted)), y)

        return predicted_gradients(partial(self.predictor, s=s), stream, loss)

    def extra_targets(
        self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor
    ) -> dict[str, Tensor]:
        return {"h_L": net.read(stream[-1])}

    def bridge_loss(self, info: StepInfo, s: Tensor) -> Tensor:
        return prediction_loss(partial(self.predictor, s=s), info.stream, info.targets["h_L"])


Prediction = Callable[[int, Tensor], Tensor]
"""(l, h_l) ↦ (B, ...)."""

Value = Callable[[int, Tensor, Tensor], Tensor]
"""(l, h_l, s) ↦ V, (B, 1)."""


def predicted_gradients(
    predict: Prediction, stream: Sequence[Tensor], loss: Callable[[Tensor], Tensor]
) -> Credit:
    """∇_{h_l} loss(predict(l, h_l)), l = 0..L; `loss` sums over samples."""
    with torch.enable_grad():
        leaves = [h.detach().requires_grad_() for h in stream]
        losses = [loss(predict(l, h)) for l, h in enumerate(leaves)]
        total = torch.stack(losses).sum()
        return list(torch.autograd.grad(total, leaves))


def prediction_loss(predict: Prediction, stream: Sequence[Tensor], target: Tensor) -> Tensor:
    """Mean over l = 0..L and the batch of ‖G(h_l) − h_L‖², divided by the batch mean of ‖h_L‖².

    Args:
        predict: (l, h_l) ↦ G, (B, d).
        stream: h_0..h_L.
        target: h_L, (B, d).
    """
    errors = []
    for l, h in enumerate(stream):
        errors.append(mean_square_norm(predict(l, h) - target))
    return torch.stack(errors).mean() / mean_square_norm(target)


class CreditBridge(BridgeMethod):
    """a_l = ∇_{h_l} V(h_l, t_l, s), l = 0..L, with a learned value V and s = e_T.

    V minimises the sum of three batch means (g_L per sample, the last also a mean over l < L),

        (V(h_L) − CE)²  +  w·‖∇V(h_L) − g_L‖² / mean‖g_L‖²  +  (V(h_l) − soft_l)²
        soft_l = −λ·log mean_ξ exp(−V̄(h_{l+1} + σξ, t_{l+1}, s)/λ),
        ξ ~ N(0, I), V̄ an EMA copy of V.

    Args:
        variant: ``"published"`` (V sees h, w = 1) or ``"stable"`` (V sees LN(h), w = 10).
        lr: learning rate of V.

    Source: docs/protocol.md §5.
    """

    name = "credit_bridge"
    learns = "value"
    WEIGHTS = {"published": 1.0, "stable": 10.0}
    """Variant → w."""
    SIGMA = 0.1
    TEMPERATURE = 0.1
    DRAWS = 4
    DECAY = 0.99

    def __init__(
        self,
        net: StreamNet,
        generator: torch.Generator,
        variant: str = "published",
        lr: float = 1e-3,
    ) -> None:
        super().__init__(net, generator, lr)
        check_known("variant of credit_bridge", variant, self.WEIGHTS)
        self.weight = self.WEIGHTS[variant]
        self.value = BridgeNet(
            net.state_sizes,
            net.num_classes,
            width=2 * net.head.in_features,
            outputs=1,
            normalise=variant == "stable",
        )
        self.value_ema = copy.deepcopy(self.value).requires_grad_(False)
        self.redraw(generator)

    def redraw(self, generator: torch.Generator) -> None:
        super().redraw(generator)
        self.value_ema.load_state_dict(self.value.state_dict())
        self._noise_seed = int(torch.randint(2**31, (), generator=generator))

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        value = partial(self.value, s=output_error(logits, y))
        return predicted_gradients(value, stream, torch.sum)

    def extra_targets(
        self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor
    ) -> dict[str, Tensor]:
        with torch.enable_grad():
            h_L = stream[-1].detach().requires_grad_()
            ce = F.cross_entropy(net.readout(h_L), y, reduction="none")
            (g_L,) = torch.autograd.grad(ce.sum(), h_L)
        return {"ce": ce.detach(), "g_L": g_L}

    def bridge_loss(self, info: StepInfo, s: Tensor) -> Tensor:
        g_L = info.targets["g_L"]
        value, gradient = terminal_value(self.value, info.stream, s)
        terminal_error = (value - info.targets["ce"]).square().mean()
        scale = mean_square_norm(g_L)
        mismatch = mean_square_norm(gradient - g_L)
        matching = mismatch / torch.where(scale > 0, scale, torch.inf)
        noise = torch.Generator(s.device).manual_seed(self._noise_seed + self.steps)
        soft = soft_values(
            self.value_ema,
            info.stream,
            s,
            self.SIGMA,
            self.TEMPERATURE,
            self.DRAWS,
            noise,
        )
        error = bridge_error(self.value, info.stream, s, soft)
        return terminal_error + self.weight * matching + error

    def extra_step(self, net: StreamNet, info: StepInfo) -> Tensor | None:
        """One step of V, then V̄ ← 0.99·V̄ + 0.01·V."""
        loss = super().extra_step(net, info)
        update_average(self.value_ema, self.value, self.DECAY)
        return loss


def terminal_value(value: Value, stream: Sequence[Tensor], s: Tensor) -> tuple[Tensor, Tensor]:
    """V(h_L), (B,), and ∇V(h_L), both differentiable by V's parameters."""
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
    """−λ·log mean_ξ exp(−V(h_{l+1} + σξ)/λ), (B,), l = 0..L-1; λ = `temperature`."""
    soft = []
    repeated = s.repeat(draws, 1)
    for l, h in enumerate(stream[1:], start=1):
        xi = torch.randn((draws, *h.shape), generator=generator, device=h.device, dtype=h.dtype)
        noisy = (h + sigma * xi).flatten(0, 1)
        values = value(l, noisy, repeated).view(draws, len(h))
        log_mean = torch.logsumexp(-values / temperature, 0) - math.log(draws)
        soft.append(-temperature * log_mean)
    return soft


def bridge_error(
    value: Value, stream: Sequence[Tensor], s: Tensor, soft: Sequence[Tensor]
) -> Tensor:
    """Mean over l < L and the batch of (V(h_l) − soft_l)²; 0 without blocks."""
    if not soft:
        return s.new_zeros(())
    errors = []
    for l, target in enumerate(soft):
        error = value(l, stream[l], s).squeeze(1) - target
        errors.append(error.square().mean())
    return torch.stack(errors).mean()


@torch.no_grad()
def update_average(average: nn.Module, net: nn.Module, decay: float) -> None:
    """average ← decay·average + (1 − decay)·net, parameter by parameter."""
    for kept, new in zip(average.parameters(), net.parameters(), strict=True):
        kept.lerp_(new, 1 - decay)
