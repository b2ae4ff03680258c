"""What the two bridge methods share: a small learned net on (h_l, t_l, s), trained beside the network."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fa_core.methods.base import Method, StepInfo, output_error
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
