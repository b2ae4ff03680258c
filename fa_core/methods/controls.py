"""Controls: what a number must beat, or must not find, to mean something."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from fa_core.errors import UsageError
from fa_core.methods.base import Credit, Method, StepInfo, feedback_generator
from fa_core.methods.bp import Backprop, summed_gradients
from fa_core.models.base import StreamNet


class FrozenBlocks(Backprop):
    """Blocks stay at random init; embedding, terminal LN and head learn by backprop through them.

    The baseline of diagnostic (d). Only the embedding uses a credit, a_0 = g_0.

    Source: PROTOCOL §3 (d), §5.
    """

    name = "frozen"

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        return [summed_gradients(net, stream[0], y)[0], *[None] * net.n_blocks]

    def loss(self, net: StreamNet, x: Tensor, y: Tensor, lam: float = 0.0) -> tuple[Tensor, StepInfo]:
        """Backprop's loss; the blocks stop requiring gradients, so nothing is computed for them."""
        net.blocks.requires_grad_(False)
        return super().loss(net, x, y, lam)

    def trained_parameters(self, net: StreamNet) -> list[nn.Parameter]:
        return [*net.embed.parameters(), *net.out_ln.parameters(), *net.head.parameters()]


class Shallow(Backprop):
    """Backprop on the same network without its blocks.

    Source: PROTOCOL §5.

    Raises:
        UsageError: the network has blocks (build it from `adapt_arch_args`).
    """

    name = "shallow"

    def __init__(self, net: StreamNet, generator: torch.Generator) -> None:
        super().__init__(net, generator)
        if net.n_blocks:
            raise UsageError(
                f"the shallow control needs a network without blocks, got L={net.n_blocks}", hint="use L=0"
            )

    @classmethod
    def adapt_arch_args(cls, arch_args: dict[str, Any]) -> dict[str, Any]:
        return {**arch_args, "L": 0}


class RandomInit(Method):
    """The untrained network: low accuracy is not a flag. No credit anywhere.

    Source: PROTOCOL §5, §11.
    """

    name = "random_init"
    trains = False

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        return [None] * len(stream)

    def trained_parameters(self, net: StreamNet) -> list[nn.Parameter]:
        return []


class RandomTargets(Method):
    """Another rule, trained on labels drawn i.i.d. uniformly at every step; its credit is asked with the true ones.

    Args:
        of: the rule to train (any method that is no control).

    Source: PROTOCOL §5.
    """

    name = "random_targets"

    def __init__(self, net: StreamNet, generator: torch.Generator, of: str = "bp", **args: Any) -> None:
        from fa_core.methods.registry import method_class

        super().__init__(net, generator)
        rule = method_class(of)
        if issubclass(rule, (RandomTargets, RandomInit)):
            raise UsageError(f"random_targets cannot train {of!r}", hint="name a rule that trains, such as bp or dfa")
        self.rule = rule(net, generator, **args)
        self.draws_feedback = self.rule.draws_feedback
        self._label_seed = int(torch.randint(2**31, (), generator=generator))
        self._steps = 0

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        return self.rule.credit(net, stream, logits, y)

    def loss(self, net: StreamNet, x: Tensor, y: Tensor, lam: float = 0.0) -> tuple[Tensor, StepInfo]:
        generator = feedback_generator(self._label_seed + self._steps)
        drawn = torch.randint(net.num_classes, y.shape, generator=generator).to(y.device)
        self._steps += 1
        return self.rule.loss(net, x, drawn, lam)

    def trained_parameters(self, net: StreamNet) -> list[nn.Parameter]:
        return self.rule.trained_parameters(net)

    def extra_step(self, net: StreamNet, info: StepInfo) -> Tensor | None:
        return self.rule.extra_step(net, info)

    def redraw(self, generator: torch.Generator) -> None:
        self.rule.redraw(generator)

    def training_state(self) -> dict[str, Any]:
        return {"steps": self._steps, "rule": self.rule.training_state()}

    def load_training_state(self, state: dict[str, Any]) -> None:
        self._steps = state["steps"]
        self.rule.load_training_state(state["rule"])
