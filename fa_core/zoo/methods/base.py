"""The base class of credit rules: the credit of every hidden state, and the training loss.

A new rule is a subclass of `Method` in a file of its own. Its package declares one entry point:

    [project.entry-points."fa_core.methods"]
    my_rule = "my_package.my_rule:MyRule"

Besides the network, the credit may depend on buffers and submodules only. ``state_dict()``, saved
with the weights, then restores it.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from inspect import Parameter, signature
from typing import ClassVar, TypedDict

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.optimizer import StateDict

from fa_core.errors import UsageError
from fa_core.files.decode import Json
from fa_core.option_values import METHODS, check_known, load_plugin, place, plugins, unknown_name
from fa_core.report.gamma import FREE_AT_L
from fa_core.report.names import canonical_method
from fa_core.zoo.models.base import StreamNet

OPTIMIZERS = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}
"""The optimizers of training, by the names of recipes."""


def mean_square_norm(t: Tensor) -> Tensor:
    """Batch mean of ‖t‖² per sample, of (B, ...)."""
    return t.flatten(1).square().sum(1).mean()


def penalised(loss: Tensor, branches: Sequence[Tensor], lam: float) -> Tensor:
    """loss + λ·Σ_l mean over samples of ‖f_l(h_l)‖²; the loss itself without branches.

    Args:
        loss: a scalar.
        branches: f_0(h_0)..f_{L-1}(h_{L-1}), each (B, ...).
        lam: λ.

    Returns:
        A scalar with the graph of the branches. Local methods compute them on sg[h_l], so that each
        term reaches its own block only. In backprop it reaches the earlier blocks too.

    Source: docs/protocol.md §5, λ ∈ {1e-4, 1e-3, 1e-2}.

    >>> penalised(torch.tensor(0.0), [torch.tensor([[3.0, 4.0], [0.0, 0.0]])], 2.0)
    tensor(25.)
    """
    if lam and branches:
        return loss + lam * torch.stack([mean_square_norm(f) for f in branches]).sum()
    return loss


Credit = list[Tensor | None]
"""a_0..a_L per sample, on the scale of the gradient of the summed CE; None = no credit."""


def local_pass(net: StreamNet, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """A forward pass with a stop-gradient in front of every block.

    Returns:
        embed(x), f_0(sg[h_0])..f_{L-1}(sg[h_{L-1}]), each with its own graph; h_0..h_L without one.
    """
    output = net.embed_input(x)
    outputs = [output]
    stream = [output.detach()]
    for l in range(net.n_blocks):
        output = net.branch(l, stream[l])
        outputs.append(output)
        stream.append(net.join(stream[l], output).detach())
    return outputs, stream


def local_term(outputs: Sequence[Tensor], credit: Sequence[Tensor | None]) -> Tensor:
    """Σ_l batch mean of ⟨output_l, sg[a_l]⟩, over the layers with a credit."""
    total = outputs[0].new_zeros(())
    for output, a in zip(outputs, credit, strict=True):
        if a is not None:
            products = output * a.detach()
            total = total + products.flatten(1).sum(1).mean()
    return total


@dataclass(frozen=True)
class StepInfo:
    """The tensors of one training step, detached.

    Attributes:
        logits: (B, C), before the step.
        y: labels (B,).
        stream: h_0..h_L.
        credit: a_0..a_L as used in the loss; empty for backprop.
        ce: batch mean of the cross entropy.
        targets: the result of `Method.extra_targets`.
    """

    logits: Tensor
    y: Tensor
    stream: list[Tensor]
    credit: Credit
    ce: Tensor
    targets: dict[str, Tensor] = field(default_factory=dict)


class TrainingState(TypedDict, total=False):
    """State of a method that resuming needs besides its ``state_dict()``.

    Attributes:
        steps: training steps done.
        optimizer: state of the method's own optimizer.
        rule: state of the rule that a control trains by.
    """

    steps: int
    optimizer: StateDict
    rule: TrainingState


class Method(nn.Module, ABC):
    """A rule that gives credit to hidden states.

    Every training step has the same form:

        loss, info = method.loss(net, x, y, lam)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        method.extra_step(net, info)

    with an optimizer over ``method.trained_parameters(net)``.

    Attributes:
        name: the canonical name.
        draws_feedback: whether the credit depends on random draws (see `fresh`).
        linear_feedback: whether the credit of every layer is a product with the buffers alone, so
            that many draws cost little.
        free_at_L: whether a_L is the true gradient by construction; deep Γ leaves l = L out then.
        no_credit: the reason why a rule without credit has none.
    """

    name: ClassVar[str]
    draws_feedback = False
    linear_feedback = False
    no_credit = "the method gives no credit signal"

    def __init__(self, net: StreamNet, generator: torch.Generator) -> None:
        """Subclasses register buffers and submodules for `net`, then call `redraw(generator)`."""
        super().__init__()
        self.free_at_L = self.name in FREE_AT_L

    @abstractmethod
    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        """a_0..a_L for a batch: constants of the shapes of h_0..h_L, per sample (no 1/B).

        Args:
            net: the network; left as it is.
            stream: h_0..h_L of the batch.
            logits: (B, C) of the same pass.
            y: labels (B,).

        Training and measuring both use it, in the network's own arithmetic. A rule with learned
        nets needs ``method.double()`` next to ``net.double()``.
        """

    def loss(
        self, net: StreamNet, x: Tensor, y: Tensor, lam: float = 0.0
    ) -> tuple[Tensor, StepInfo]:
        """The scalar to differentiate for one step.

            CE(head(out_ln(sg[h_L])), y) + ⟨h_0, a_0⟩
            + Σ_l ⟨f_l(sg[h_l]), a_{l+1}⟩ + λ·Σ_l ‖f_l(sg[h_l])‖²

        Every term is a mean over the batch, a is constant, and sg is the stop-gradient. A layer
        without credit has no term.

        Args:
            net: the network, in train mode.
            x: inputs (B, ...).
            y: labels (B,).
            lam: λ of the penalty.

        Source: docs/protocol.md §5.
        """
        outputs, stream = local_pass(net, x)
        logits = net.readout(stream[-1])
        ce = F.cross_entropy(logits, y)

        seen = logits.detach()
        with untracked_statistics(net):
            credit = self.credit(net, stream, seen, y)
            targets = self.extra_targets(net, stream, seen, y)
        total = penalised(ce + local_term(outputs, credit), outputs[1:], lam)
        return total, StepInfo(seen, y, stream, credit, ce.detach(), targets)

    def trained_parameters(self, net: StreamNet) -> list[nn.Parameter]:
        """The network's parameters that the training loop's optimizer updates."""
        return list(net.parameters())

    def extra_targets(
        self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor
    ) -> dict[str, Tensor]:
        """The tensors of `extra_step` that must be taken before the block step."""
        return {}

    def extra_step(self, net: StreamNet, info: StepInfo) -> Tensor | None:
        """Train the rule's own nets after the block step.

        Returns:
            Their loss; None without such nets.
        """
        return None

    @classmethod
    def adapt_arch_args(cls, arch_args: Json) -> Json:
        """The requested network arguments, changed as far as the rule demands it."""
        return arch_args

    def redraw(self, generator: torch.Generator) -> None:
        """Redraw every random tensor of the rule in place."""
        return

    def convert_tensors(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Saved tensors, converted from another program's names and layout where recognised."""
        return tensors

    def fresh(self, generator: torch.Generator) -> Method:
        """A copy with newly drawn feedback, for the null of Γ.

        Args:
            generator: on the CPU.
        """
        twin = copy.deepcopy(self)
        twin.redraw(generator)
        return twin

    def training_state(self) -> TrainingState:
        """The state that resuming needs besides ``state_dict()``."""
        return {}

    def load_training_state(self, state: TrainingState) -> None:
        """Restore a `training_state`."""
        return


class WithoutCredit(Method):
    """A rule that gives no hidden state a credit."""

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        return [None] * len(stream)


def restore_optimizer(optimizer: torch.optim.Optimizer, saved: StateDict) -> None:
    """Load what an optimizer has accumulated; its rates and the like stay the recipe's.

    A step of a copy fails, however it may, where that is of other shapes or types.
    """
    optimizer.load_state_dict({**optimizer.state_dict(), "state": saved["state"]})
    twin = copy.deepcopy(optimizer)
    for group in twin.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    twin.step()


def feedback_generator(seed: int) -> torch.Generator:
    """A CPU generator for a method's own draws.

    Its offset makes them independent of network weights drawn under the same seed.
    """
    return torch.Generator().manual_seed((seed * 0x9E3779B1 + 0x5EED) % 2**63)


def gaussian_(matrix: Tensor, variance: float, generator: torch.Generator) -> None:
    """Fill with N(0, variance), drawn on the CPU: the same numbers on every device."""
    drawn = torch.randn(matrix.shape, generator=generator, dtype=torch.float32)
    matrix.copy_(drawn * variance**0.5)


def output_error(logits: Tensor, y: Tensor) -> Tensor:
    """e_T = softmax(logits) − onehot(y) per sample: the gradient of the summed CE by the logits.

    The label's own entry is computed as −Σ_{c≠y} p_c. For a nearly certain sample, p_y − 1 would
    cancel.

    Args:
        logits: (..., B, C).
        y: (B,) class indices.

    Returns:
        (..., B, C), in the arithmetic of the logits.

    Source: docs/protocol.md §2.

    >>> output_error(torch.tensor([[100.0, 0.0]], dtype=torch.float64), torch.tensor([0])).tolist()
    [[-3.720075976020836e-44, 3.720075976020836e-44]]
    """
    p = logits.detach().softmax(-1)
    labels = y.to(p.device).expand(p.shape[:-1])
    own = labels[..., None]
    others = p.scatter(-1, own, 0.0)
    sums = others.sum(-1, keepdim=True)
    return others.scatter(-1, own, -sums)


@contextmanager
def untracked_statistics(net: nn.Module) -> Iterator[None]:
    """Keep BatchNorm from recording batch statistics inside; in train mode it still uses them."""
    with ExitStack() as after:
        for module in net.modules():
            if isinstance(module, _BatchNorm) and module.training and module.track_running_stats:
                after.callback(setattr, module, "track_running_stats", True)
                module.track_running_stats = False
        yield


Registry = Mapping[str, type[Method]]
"""Canonical name → class."""


def registry(*classes: type[Method]) -> Registry:
    """A registry of classes under their own names."""
    return {rule.name: rule for rule in classes}


def find_class(name: str, built_in: Registry) -> type[Method]:
    """The built-in or plugin class of a name in any spelling, e.g. ``"Credit Bridge"``.

    A plugin is imported, so `name` must come from the user, not from a file. A built-in name takes
    precedence.

    Raises:
        UsageError: unknown, or a plugin that does not import or is no `Method`.
    """
    name = canonical_method(name)
    if name in built_in:
        return built_in[name]
    brought = {canonical_method(point.name): point for point in plugins(METHODS).values()}
    if name not in brought:
        others = sorted(brought.keys() - built_in.keys())
        raise unknown_name("method", name, [*built_in, *others])
    rule = load_plugin(brought[name])
    if not (isinstance(rule, type) and issubclass(rule, Method)):
        raise UsageError(f"{rule!r} is no fa_core.zoo.methods.Method", where=place(brought[name]))
    return rule


def check_options(rule: type[Method], args: Iterable[str]) -> None:
    """Check that the rule's constructor takes these options.

    Raises:
        UsageError: names the unknown option and a similar or the known ones.
    """
    parameters = list(signature(rule.__init__).parameters.values())
    options = []
    for parameter in parameters[3:]:  # after self, net, generator
        if parameter.kind is Parameter.VAR_KEYWORD:
            return
        options.append(parameter.name)
    for option in args:
        check_known(f"option of {rule.name}", option, options)
