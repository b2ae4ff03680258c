"""Forward-only rules: they compare two forward passes and give no hidden state a credit."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor
from torch.nn import functional as F

from fa_core.zoo.methods.base import (
    StepInfo,
    WithoutCredit,
    gaussian_,
    local_pass,
    local_term,
    output_error,
    untracked_statistics,
)
from fa_core.zoo.models.base import StreamNet


class ForwardOnly(WithoutCredit):
    """A rule without credit that compares the clean pass with passes on x + signal·F.

    F (C × inputs) is Gaussian. Embedding and blocks learn from the comparison, the head by its true
    gradient on the clean input, which evaluation uses too. A frozen baseline by such a rule trains
    the head alone.

    Args:
        scale: standard deviation of an entry of F.
    """

    def __init__(self, net: StreamNet, generator: torch.Generator, scale: float) -> None:
        super().__init__(net, generator)
        self.scale = scale
        self.register_buffer("F", torch.empty(net.num_classes, math.prod(net.input_shape)))
        self.redraw(generator)

    def redraw(self, generator: torch.Generator) -> None:
        for matrix in self.buffers():
            gaussian_(matrix, self.scale**2, generator)

    @abstractmethod
    def compared(self, net: StreamNet, x: Tensor, info: StepInfo) -> Tensor:
        """The loss of embedding and blocks, given the clean pass."""

    def added(self, x: Tensor, signal: Tensor) -> Tensor:
        """x + signal·F, of the shape of x; the signal is (B, C)."""
        (matrix,) = self.buffers()
        return x + (signal @ matrix.to(signal.dtype)).view_as(x)

    def loss(
        self, net: StreamNet, x: Tensor, y: Tensor, lam: float = 0.0
    ) -> tuple[Tensor, StepInfo]:
        loss, info = super().loss(net, x, y, lam)
        with untracked_statistics(net):
            return loss + self.compared(net, x, info), info


class Pepita(ForwardOnly):
    """PEPITA: Σ_l ⟨f_l(sg[h̃_l]), sg[h_{l+1} − h̃_{l+1}]⟩, h̃ the stream of x + e_T·F; h_0 likewise.

    The embedding and the last weight of a block move by the change of the state behind them times
    their input in the second pass.

    As first published, every weight does. Here a block is one layer: its inner weights (w1)
    get the change of the block's output through the block's own derivatives. Their update has a
    cosine to the published one of 0.02–0.04 at init and of 0.68–0.74 after 300 steps. The head's
    has 0.999; its state is that of the clean pass (docs/protocol.md §5).

    Args:
        scale: standard deviation of an entry of F; default the published 0.05·√(2/inputs).

    Source: docs/protocol.md §5; Dellaferrera & Kreiman, ICML 2022.
    """

    name = "pepita"
    no_credit = (
        "pepita compares a pass with one whose input is moved by the error; no state has a credit"
    )

    def __init__(
        self, net: StreamNet, generator: torch.Generator, scale: float | None = None
    ) -> None:
        if scale is None:
            scale = 0.05 * math.sqrt(2 / math.prod(net.input_shape))
        super().__init__(net, generator, scale)

    def compared(self, net: StreamNet, x: Tensor, info: StepInfo) -> Tensor:
        error = output_error(info.logits, info.y)
        outputs, moved = local_pass(net, self.added(x, error))
        return local_term(outputs, list(map(torch.sub, info.stream, moved)))


class ForwardForward(ForwardOnly):
    """Forward-forward: Σ_l softplus(θ − G_l⁺) + softplus(G_l⁻ − θ).

    The goodness G_l is the mean square of embed(x), f_0, .. f_{L-1}. The positive pass sees
    x + onehot(y)·F, the negative one x + onehot(ỹ)·F with a wrong label ỹ, drawn at every step from
    torch's global generator. The label is added to the input and overwrites none of it. Evaluation
    takes one pass: the head on the state of the clean x.

    As first published, every layer has a goodness, of its output behind a ReLU. Here a block
    is one layer: its inner weights (w1) learn for the goodness of the block's output, through the
    block's own derivatives. Their update has a cosine to that of a goodness behind their GELU of
    0.83–0.84 at init, and of −0.05 to 0.59 after 300 steps (docs/protocol.md §5). The rule asks
    that a block does not see the length of its input; a LayerNorm ensures that. Without one, a
    block can pass on the goodness of its input.

    Args:
        scale: standard deviation of an entry of F.
        threshold: θ.

    Source: docs/protocol.md §5; Hinton, 2022, arXiv:2212.13345.
    """

    name = "ff"
    no_credit = (
        "forward-forward raises and lowers the goodness of two passes; no state has a credit"
    )

    def __init__(
        self, net: StreamNet, generator: torch.Generator, scale: float = 1.0, threshold: float = 1.0
    ) -> None:
        super().__init__(net, generator, scale)
        self.threshold = threshold

    def compared(self, net: StreamNet, x: Tensor, info: StepInfo) -> Tensor:
        C = net.num_classes
        shift = torch.randint(1, C, info.y.shape).to(info.y)
        wrong = (info.y + shift) % C
        labels = F.one_hot(torch.cat([info.y, wrong]), C).to(x)
        both = self.added(torch.cat([x, x]), labels)
        outputs, _ = local_pass(net, both)
        total = x.new_zeros(())
        for output in outputs:
            right, other = output.square().flatten(1).mean(1).chunk(2)
            loss = F.softplus(self.threshold - right) + F.softplus(other - self.threshold)
            total = total + loss.mean()
        return total
