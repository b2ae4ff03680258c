"""Controls: what a number must beat, or must not find, to mean something."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from fa_core.errors import UsageError
from fa_core.methods import (
    bp,
    bridge,
    ep,
    feedback,
    forward_only,
    local_nets,
    predictive_coding,
    weight_feedback,
)
from fa_core.methods.base import (
    Credit,
    Method,
    Named,
    StepInfo,
    by_name,
    check_options,
    feedback_generator,
    find_class,
)
from fa_core.models.base import StreamNet

RULES: Named = by_name(
    *(bp.Backprop, feedback.FeedbackAlignment, feedback.DirectFeedbackAlignment),
    *(bridge.StateBridge, bridge.CreditBridge, ep.EquilibriumPropagation),
    *(
        weight_feedback.WeightFeedback,
        weight_feedback.UniformSigns,
        weight_feedback.BatchMagnitudes,
    ),
    *(weight_feedback.FixedMagnitudes, weight_feedback.KolenPollack, weight_feedback.WeightMirror),
    *(
        weight_feedback.LayerDirectFeedback,
        feedback.SparseDirectFeedback,
        feedback.DirectRandomTargetProjection,
    ),
    *(local_nets.TargetPropagation, predictive_coding.PredictiveCoding, local_nets.LocalLoss),
    *(forward_only.Pepita, forward_only.ForwardForward),
)
"""The built-in rules; the controls, which train by one of them, are not among them."""


class Control(Method):
    """A control that trains by another rule, changed in one respect.

    Args:
        of: the rule to train by; any but a control.
        args: that rule's own options.

    Raises:
        UsageError: `of` is no rule (a control is none), or has no such option.
    """

    def __init__(self, net: StreamNet, generator: torch.Generator, of: str, **args: Any) -> None:
        super().__init__(net, generator)
        rule = find_class(of, RULES)
        check_options(rule, args)
        self.rule = rule(net, generator, **args)
        self.draws_feedback, self.no_credit = self.rule.draws_feedback, self.rule.no_credit
        self.free_at_L = self.rule.free_at_L

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        return self.rule.credit(net, stream, logits, y)

    def trained_parameters(self, net: StreamNet) -> list[nn.Parameter]:
        return self.rule.trained_parameters(net)

    def extra_targets(
        self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor
    ) -> dict[str, Tensor]:
        return self.rule.extra_targets(net, stream, logits, y)

    def extra_step(self, net: StreamNet, info: StepInfo) -> Tensor | None:
        return self.rule.extra_step(net, info)

    def redraw(self, generator: torch.Generator) -> None:
        self.rule.redraw(generator)

    def training_state(self) -> dict[str, Any]:
        return {"rule": self.rule.training_state()}

    def load_training_state(self, state: dict[str, Any]) -> None:
        self.rule.load_training_state(state["rule"])


class FrozenBlocks(Control):
    """Blocks stay at random init; embedding, terminal LN and head learn: the baseline of diagnostic
    (d).

    The embedding learns from the a_0 of another rule; no other layer has credit.

    Args:
        of: that rule. The protocol's own figures for this control (‖h_L‖ 16, ‖g_L‖ 3.9e-3) come out
            with ``dfa``; with ``bp`` they are 11 and 6e-3.

    Source: docs/protocol.md §3 (d), §5, §7.
    """

    name = "frozen"

    def __init__(
        self, net: StreamNet, generator: torch.Generator, of: str = "dfa", **args: Any
    ) -> None:
        super().__init__(net, generator, of, **args)

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        return [super().credit(net, stream, logits, y)[0], *[None] * net.n_blocks]

    def loss(
        self, net: StreamNet, x: Tensor, y: Tensor, lam: float = 0.0
    ) -> tuple[Tensor, StepInfo]:
        """The local loss; the blocks stop requiring gradients, so nothing is computed for them."""
        net.blocks.requires_grad_(False)
        return super().loss(net, x, y, lam)

    def trained_parameters(self, net: StreamNet) -> list[nn.Parameter]:
        return [*net.embed.parameters(), *net.out_ln.parameters(), *net.head.parameters()]


class RandomTargets(Control):
    """Labels drawn i.i.d. uniformly at every step; the credit is asked with the true ones.

    Args:
        of: the rule to train by.

    Source: docs/protocol.md §5.
    """

    name = "random_targets"

    def __init__(
        self, net: StreamNet, generator: torch.Generator, of: str = "bp", **args: Any
    ) -> None:
        super().__init__(net, generator, of, **args)
        self._label_seed = int(torch.randint(2**31, (), generator=generator))
        self._steps = 0

    def loss(
        self, net: StreamNet, x: Tensor, y: Tensor, lam: float = 0.0
    ) -> tuple[Tensor, StepInfo]:
        generator = feedback_generator(self._label_seed + self._steps)
        drawn = torch.randint(net.num_classes, y.shape, generator=generator).to(y.device)
        self._steps += 1
        return self.rule.loss(net, x, drawn, lam)

    def training_state(self) -> dict[str, Any]:
        return {**super().training_state(), "steps": self._steps}

    def load_training_state(self, state: dict[str, Any]) -> None:
        super().load_training_state(state)
        self._steps = state["steps"]


class Shallow(Control):
    """The same network without its blocks.

    Args:
        of: the rule to train by: with ``dfa`` the embedding learns from its a_0.

    Source: docs/protocol.md §5.

    Raises:
        UsageError: the network has blocks (build it from `adapt_arch_args`).
    """

    name = "shallow"

    def __init__(
        self, net: StreamNet, generator: torch.Generator, of: str = "bp", **args: Any
    ) -> None:
        super().__init__(net, generator, of, **args)
        if net.n_blocks:
            hint = "use L=0"
            raise UsageError(
                f"the shallow control needs a network without blocks, got L={net.n_blocks}",
                hint=hint,
            )

    def loss(
        self, net: StreamNet, x: Tensor, y: Tensor, lam: float = 0.0
    ) -> tuple[Tensor, StepInfo]:
        return self.rule.loss(net, x, y, lam)

    @classmethod
    def adapt_arch_args(cls, arch_args: dict[str, Any]) -> dict[str, Any]:
        return {**arch_args, "L": 0}


class RandomInit(Method):
    """The untrained network: low accuracy is not a flag. No credit anywhere.

    Source: docs/protocol.md §5, §11.
    """

    name = "random_init"
    trains = False

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        return [None] * len(stream)

    def trained_parameters(self, net: StreamNet) -> list[nn.Parameter]:
        return []
