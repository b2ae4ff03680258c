"""What the two bridge methods share, a small learned net on (h_l, t_l, s), and the first of them.

State Bridge: predict where the stream will end, and take the loss's gradient through the prediction.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fa_core.methods.base import Credit, Method, StepInfo, output_error
from fa_core.models.base import StreamNet

Activation = Callable[[Tensor], Tensor]


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
        activation: Activation = F.gelu,
        normalise: bool = False,
    ) -> None:
        super().__init__()
        self.sizes = list(sizes)
        self.activation = activation
        self.normalise = normalise
        self.inputs = nn.ModuleDict({str(size): nn.Linear(size + 1 + error_size, width) for size in set(self.sizes)})
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
    def redraw(self, generator: torch.Generator) -> None:
        """PyTorch's initial weights of a linear layer, U(±1/√inputs), drawn from `generator` on the CPU."""
        layers = [*(self.inputs[str(size)] for size in sorted(set(self.sizes))), self.hidden, self.output]
        for layer in layers:
            assert isinstance(layer, nn.Linear)
            bound = layer.in_features**-0.5
            for parameter in (layer.weight, layer.bias):
                parameter.copy_((2 * torch.rand(parameter.shape, generator=generator) - 1) * bound)


class BridgeMethod(Method):
    """A method whose credit comes from a net trained by AdamW, one step per training step.

    Args:
        lr: the bridge's learning rate (constant).
    """

    draws_feedback = True

    def __init__(self, net: StreamNet, generator: torch.Generator, lr: float = 1e-3) -> None:
        super().__init__(net, generator)
        self.lr = lr
        self.steps = 0
        self._optimizer: torch.optim.AdamW | None = None

    @property
    @abstractmethod
    def bridge(self) -> BridgeNet:
        """The net that learns."""

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
        self.bridge.redraw(generator)
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
    """a_l = ∇_{h_l} CE(head(out_ln(G(h_l, t_l, s))), y), l = 0..L, with a learned G ≈ h_L and s = e_T.

    G predicts the part of h_L that the head reads, so on a token stream the cls token.

    Args:
        lr: learning rate of G.

    Source: docs/protocol.md §5.
    """

    name = "state_bridge"

    def __init__(self, net: StreamNet, generator: torch.Generator, lr: float = 1e-3) -> None:
        super().__init__(net, generator, lr)
        d = net.head.in_features
        sizes = [torch.Size(shape).numel() for shape in net.state_shapes]
        self.predictor = BridgeNet(sizes, net.num_classes, width=2 * d, outputs=d)
        self.redraw(generator)

    @property
    def bridge(self) -> BridgeNet:
        return self.predictor

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        s = output_error(logits, y)

        def readout_loss(predicted: Tensor) -> Tensor:
            return F.cross_entropy(net.head(net.out_ln(predicted)), y, reduction="sum")

        return list(predicted_gradients(lambda l, h: self.predictor(l, h, s), stream, readout_loss))

    def extra_targets(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> dict[str, Tensor]:
        return {"h_L": net.read(stream[-1])}

    def bridge_loss(self, info: StepInfo, s: Tensor) -> Tensor:
        return prediction_loss(lambda l, h: self.predictor(l, h, s), info.stream, info.targets["h_L"])


def predicted_gradients(
    predict: Callable[[int, Tensor], Tensor], stream: Sequence[Tensor], loss: Callable[[Tensor], Tensor]
) -> tuple[Tensor, ...]:
    """∇_{h_l} loss(predict(l, h_l)), l = 0..L; `loss` sums over samples."""
    with torch.enable_grad():
        leaves = [h.detach().requires_grad_() for h in stream]
        total = torch.stack([loss(predict(l, h)) for l, h in enumerate(leaves)]).sum()
        return torch.autograd.grad(total, leaves)


def prediction_loss(predict: Callable[[int, Tensor], Tensor], stream: Sequence[Tensor], target: Tensor) -> Tensor:
    """mean over l = 0..L and the batch of ‖G(h_l) − h_L‖², divided by the batch mean of ‖h_L‖².

    Args:
        predict: (l, h_l) ↦ G, (B, d).
        stream: h_0..h_L.
        target: h_L, (B, d).
    """
    errors = [(predict(l, h) - target).square().sum(1).mean() for l, h in enumerate(stream)]
    return torch.stack(errors).mean() / target.square().sum(1).mean()
