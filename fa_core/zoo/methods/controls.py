"""Controls: training runs without one ingredient, as reference points for every measured number."""

from __future__ import annotations

from operator import index
from typing import Any

import torch
from torch import Tensor, nn

from fa_core.errors import UsageError
from fa_core.files.decode import Json
from fa_core.report.method_style import FROZEN, TRAINED_BY
from fa_core.zoo.methods import (
    bp,
    bridge,
    ep,
    feedback,
    forward_only,
    local_nets,
)
from fa_core.zoo.methods.base import (
    Credit,
    Method,
    Registry,
    StepInfo,
    TrainingState,
    WithoutCredit,
    check_options,
    feedback_generator,
    find_class,
    registry,
)
from fa_core.zoo.models.base import StreamNet

RULES: Registry = registry(
    bp.Backprop,
    feedback.FeedbackAlignment,
    feedback.DirectFeedbackAlignment,
    bridge.StateBridge,
    bridge.CreditBridge,
    ep.EquilibriumPropagation,
    feedback.SparseDirectFeedback,
    feedback.DirectRandomTargetProjection,
    local_nets.TargetPropagation,
    ep.PredictiveCoding,
    local_nets.LocalLoss,
    forward_only.Pepita,
    forward_only.ForwardForward,
)
"""The built-in rules, without the controls."""


def _of_rule(name: str) -> Any:
    """A method of the rule that a control trains by."""
    return property(lambda control: getattr(control.rule, name))


class Control(Method):
    """A control that trains by another rule, changed in one respect.

    Args:
        of: the rule to train by, no control itself; default `TRAINED_BY`.
        args: that rule's own options.

    Raises:
        UsageError: `of` is not a rule, or has no such option.
    """

    def __init__(
        self, net: StreamNet, generator: torch.Generator, of: str | None = None, **args: object
    ) -> None:
        super().__init__(net, generator)
        if of is None:
            of = TRAINED_BY[self.name]
        rule = find_class(of, RULES)
        check_options(rule, args)
        self.rule = rule(net, generator, **args)
        self.draws_feedback = self.rule.draws_feedback
        self.no_credit = self.rule.no_credit
        self.free_at_L = self.rule.free_at_L

    credit = _of_rule("credit")
    trained_parameters = _of_rule("trained_parameters")
    extra_targets = _of_rule("extra_targets")
    extra_step = _of_rule("extra_step")
    redraw = _of_rule("redraw")

    def training_state(self) -> TrainingState:
        return {"rule": self.rule.training_state()}

    def load_training_state(self, state: TrainingState) -> None:
        self.rule.load_training_state(state["rule"])


class FrozenBlocks(Control):
    """Blocks frozen at random init; embedding, terminal LN and head learn: the baseline of (d).

    The embedding learns from another rule's a_0; no other layer has credit. With ``dfa``, the
    default rule, it reproduces the protocol's figures for this control (‖h_L‖ 16, ‖g_L‖ 3.9e-3);
    with ``bp`` they are 11 and 6e-3.

    Source: docs/protocol.md §3 (d), §5, §7.
    """

    name = FROZEN

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        credit = super().credit(net, stream, logits, y)
        return [credit[0], *[None] * net.n_blocks]

    def loss(
        self, net: StreamNet, x: Tensor, y: Tensor, lam: float = 0.0
    ) -> tuple[Tensor, StepInfo]:
        """The local loss, without gradients of the blocks."""
        net.blocks.requires_grad_(False)
        return super().loss(net, x, y, lam)

    def trained_parameters(self, net: StreamNet) -> list[nn.Parameter]:
        return [*net.embed.parameters(), *net.out_ln.parameters(), *net.head.parameters()]


class RandomTargets(Control):
    """Training labels drawn i.i.d. uniformly at every step; measured credit is for the true ones.

    Source: docs/protocol.md §5.
    """

    name = "random_targets"

    def __init__(self, net: StreamNet, generator: torch.Generator, **args: Any) -> None:
        super().__init__(net, generator, **args)
        self._label_seed = int(torch.randint(2**31, (), generator=generator))
        self._steps = 0

    def loss(
        self, net: StreamNet, x: Tensor, y: Tensor, lam: float = 0.0
    ) -> tuple[Tensor, StepInfo]:
        generator = feedback_generator(self._label_seed + self._steps)
        drawn = torch.randint(net.num_classes, y.shape, generator=generator).to(y.device)
        self._steps += 1
        return self.rule.loss(net, x, drawn, lam)

    def training_state(self) -> TrainingState:
        return {**super().training_state(), "steps": self._steps}

    def load_training_state(self, state: TrainingState) -> None:
        super().load_training_state(state)
        self._steps = index(state["steps"])


class Shallow(Control):
    """The network without its blocks; by ``dfa`` its embedding learns from a_0.

    Source: docs/protocol.md §5.

    Raises:
        UsageError: the network has blocks; build it from `adapt_arch_args`.
    """

    name = "shallow"

    def __init__(self, net: StreamNet, generator: torch.Generator, **args: Any) -> None:
        super().__init__(net, generator, **args)
        if net.n_blocks:
            raise UsageError(
                f"the shallow control needs a network without blocks, got L={net.n_blocks}",
                hint="use L=0",
            )

    loss = _of_rule("loss")

    @classmethod
    def adapt_arch_args(cls, arch_args: Json) -> Json:
        return {**arch_args, "L": 0}


class RandomInit(WithoutCredit):
    """The untrained network, without credit: low accuracy alone must fire no diagnostic.

    Source: docs/protocol.md §5, §11.
    """

    name = "random_init"

    def trained_parameters(self, net: StreamNet) -> list[nn.Parameter]:
        return []
