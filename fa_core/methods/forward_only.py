"""Forward-only rules: two passes are compared, and no hidden state has a credit."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fa_core.errors import UsageError
from fa_core.methods import base
from fa_core.models.base import StreamNet


class ForwardOnly(base.Method):
    """A rule that trains embedding and blocks by what `F` (C × inputs, Gaussian) adds to the input;
    no credit anywhere.

    The head has its true gradient on the clean input, on which the network is evaluated too. A
    frozen baseline by such a rule trains the head alone.

    Args:
        scale: deviation of an entry of F; the default is the rule's.

    Raises:
        UsageError: the network takes token numbers, to which nothing can be added.
    """

    def __init__(self, net: StreamNet, generator: torch.Generator, scale: float) -> None:
        super().__init__(net, generator)
        if any(isinstance(module, nn.Embedding) for module in net.embed.modules()):
            hint = "train it with a method that has a credit"
            raise UsageError(
                f"{self.name} adds numbers to the input, and {net.arch} takes token numbers",
                hint=hint,
            )
        self.scale = scale
        self.register_buffer("F", torch.empty(net.num_classes, math.prod(net.input_shape)))
        self.redraw(generator)

    def redraw(self, generator: torch.Generator) -> None:
        for matrix in self.buffers():
            base.gaussian_(matrix, self.scale**2, generator)

    def credit(
        self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor
    ) -> base.Credit:
        return [None] * len(stream)

    @abstractmethod
    def compared(self, net: StreamNet, x: Tensor, info: base.StepInfo) -> Tensor:
        """What embedding and blocks minimise, given the clean pass."""

    def added(self, x: Tensor, signal: Tensor) -> Tensor:
        """x + signal·F, (B, C) → as x."""
        (matrix,) = self.buffers()
        return x + (signal @ matrix.to(signal.dtype)).view_as(x)

    def loss(
        self, net: StreamNet, x: Tensor, y: Tensor, lam: float = 0.0
    ) -> tuple[Tensor, base.StepInfo]:
        loss, info = super().loss(net, x, y, lam)
        with base.untracked_statistics(net):
            return loss + self.compared(net, x, info), info


class Pepita(ForwardOnly):
    """PEPITA: ⟨f_l(sg[h̃_l]), sg[h_{l+1} − h̃_{l+1}]⟩ per block, h̃ the stream of the input x +
    e_T·F; h_0 likewise.

    Embedding and last weight of a block move by the difference that the error makes to the state
    behind them, times their input in the second pass. F has the published deviation
    0.05·√(2/inputs).

    As first published so does every weight. Here a block is one layer: its inner weights (w1) get
    the difference behind the block, carried back through the block's own derivatives. Their update
    has a cosine of 0.02–0.04 to the published one at init and of 0.68–0.74 after 300 steps; the
    head's, which takes its state from the clean pass, of 0.999 (docs/protocol.md §5).

    Args:
        scale: deviation of an entry of F.

    Source: docs/protocol.md §5; Dellaferrera & Kreiman, ICML 2022.
    """

    name = "pepita"
    no_credit = (
        "pepita compares a pass with one whose input is moved by the error; no state has a credit"
    )

    def __init__(
        self, net: StreamNet, generator: torch.Generator, scale: float | None = None
    ) -> None:
        usual = 0.05 * math.sqrt(2 / math.prod(net.input_shape))
        super().__init__(net, generator, usual if scale is None else scale)

    def compared(self, net: StreamNet, x: Tensor, info: base.StepInfo) -> Tensor:
        outputs, moved = base.local_pass(net, self.added(x, base.output_error(info.logits, info.y)))
        return base.local_term(outputs, [h - m for h, m in zip(info.stream, moved, strict=True)])


class ForwardForward(ForwardOnly):
    """Forward-forward: Σ_l softplus(θ − G_l⁺) + softplus(G_l⁻ − θ), G_l the mean square of
    embed(x), f_0, .. f_{L-1}.

    The positive pass sees x + onehot(y)·F, the negative one x + onehot(ỹ)·F with a wrong label ỹ,
    drawn at every step from torch's global generator: the label is added, not painted over inputs.
    Evaluation is the one-pass form: the head on the state of the clean x.

    As first published every layer has a goodness, of its own output behind a ReLU. Here a block is
    one layer: its inner weights (w1) learn for the goodness of its end, through the block's own
    derivatives. Their update has a cosine of 0.83–0.84 to that of a goodness behind their GELU at
    init, and of −0.05 to 0.59 after 300 steps (docs/protocol.md §5). A block behind a LayerNorm
    does not see the length of its input, as the rule asks; in networks without one, a block can
    pass on the goodness of the one before.

    Args:
        scale: deviation of an entry of F.
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

    def compared(self, net: StreamNet, x: Tensor, info: base.StepInfo) -> Tensor:
        C = net.num_classes
        wrong = (info.y + torch.randint(1, C, info.y.shape).to(info.y)) % C
        labels = F.one_hot(torch.cat([info.y, wrong]), C).to(x)
        outputs, _ = base.local_pass(net, self.added(torch.cat([x, x]), labels))
        total = x.new_zeros(())
        for output in outputs:
            right, other = output.square().flatten(1).mean(1).chunk(2)
            total = (
                total
                + (F.softplus(self.threshold - right) + F.softplus(other - self.threshold)).mean()
            )
        return total
