"""State Bridge: predict where the stream will end, and take the loss's gradient through the prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from fa_core.methods.base import Credit, StepInfo, output_error
from fa_core.methods.bridge import BridgeMethod, BridgeNet
from fa_core.models.base import StreamNet


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
