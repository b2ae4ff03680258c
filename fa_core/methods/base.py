"""What a credit rule is: the credit it gives every hidden state, and the loss it trains on.

A new rule is one file with one subclass of `Method` and, in the package that brings it, one entry
point:

    [project.entry-points."fa_core.methods"]
    my_rule = "my_package.my_rule:MyRule"

Everything its credit depends on besides the network is a buffer or a submodule, so that
``state_dict()`` saved with the weights is enough to ask for the credit again.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from fa_core.errors import UsageError
from fa_core.facts.run_names import canonical_method
from fa_core.judgement.gamma import FREE_AT_L
from fa_core.models.base import StreamNet
from fa_core.option_values import nearest, unknown_name
from fa_core.plugins import METHODS, load_plugin, place, plugins

if TYPE_CHECKING:
    from typing_extensions import Self


def branch_penalty(branches: Sequence[Tensor]) -> Tensor:
    """Σ_l mean over samples of ‖f_l(h_l)‖².

    Args:
        branches: f_0(h_0)..f_{L-1}(h_{L-1}), each (B, ...); at least one.

    Returns:
        A scalar with the graph of the branches. For a local method they were computed on sg[h_l],
        so each term reaches its own block only; for backprop it reaches the earlier blocks too.

    Source: docs/protocol.md §5, λ ∈ {1e-4, 1e-3, 1e-2}.

    >>> branch_penalty([torch.tensor([[3.0, 4.0], [0.0, 0.0]])])
    tensor(12.5000)
    """
    return torch.stack([f.flatten(1).square().sum(1).mean() for f in branches]).sum()


Credit = list[Tensor | None]
"""a_0..a_L, per sample (the gradient of the summed CE has this scale); None = no credit at that
layer."""


def local_pass(net: StreamNet, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """embed(x), f_0(sg[h_0])..f_{L-1}(sg[h_{L-1}]), each with its own graph, and the stream
    h_0..h_L without one."""
    outputs = [net.embed_input(x)]
    stream = [outputs[0].detach()]
    for l in range(net.n_blocks):
        outputs.append(net.branch(l, stream[l]))
        stream.append((stream[l] + outputs[-1] if net.residual else outputs[-1]).detach())
    return outputs, stream


def local_term(outputs: Sequence[Tensor], credit: Sequence[Tensor | None]) -> Tensor:
    """Σ over layers of the batch mean of ⟨output, sg[a]⟩; a layer whose credit is None has no
    term."""
    total = outputs[0].new_zeros(())
    for output, a in zip(outputs, credit, strict=True):
        if a is not None:
            total = total + (output * a.detach()).flatten(1).sum(1).mean()
    return total


@dataclass(frozen=True)
class StepInfo:
    """What one training step saw, detached.

    Attributes:
        logits: (B, C), before the step.
        y: labels (B,).
        stream: h_0..h_L.
        credit: a_0..a_L as used in the loss (empty for ordinary backprop).
        ce: batch mean of the cross entropy.
        local: Σ_l batch mean of ⟨f_l, a_{l+1}⟩, with the embedding's term (0 for ordinary
            backprop).
        penalty: Σ_l batch mean of ‖f_l(h_l)‖², before λ.
        targets: what `Method.extra_step` needs from before the block step.
    """

    logits: Tensor
    y: Tensor
    stream: list[Tensor]
    credit: Credit
    ce: Tensor
    local: Tensor
    penalty: Tensor
    targets: dict[str, Tensor] = field(default_factory=dict)


class Method(nn.Module, ABC):
    """A rule that gives credit to hidden states.

    A training step is always the same:

        loss, info = method.loss(net, x, y, lam)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        method.extra_step(net, info)

    with an optimizer over ``method.trained_parameters(net)``.

    Attributes:
        name: the canonical name.
        draws_feedback: whether the credit depends on something drawn at random (see `fresh`).
        linear_feedback: whether it is a product with the buffers, and nothing else, at every layer:
            many draws then take one batched product (`torch.vmap` over `credit`).
        free_at_L: whether a_L comes free, so that deep Γ leaves l = L out.
        no_credit: why no hidden state has a credit, for a rule that learns without one.
        trains: False for a control that is never trained.
    """

    name: ClassVar[str]
    trains: ClassVar[bool] = True
    draws_feedback: bool = False
    linear_feedback: bool = False
    no_credit: str = "the method gives no credit signal"

    def __init__(self, net: StreamNet, generator: torch.Generator) -> None:
        """A subclass registers its buffers or submodules for `net`, then draws them with
        `redraw(generator)`."""
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

        Training and measuring both ask this, in the network's own arithmetic. In float64
        (``net.double()``), a rule with learned nets must be in float64 as well
        (``method.double()``).
        """

    def loss(
        self, net: StreamNet, x: Tensor, y: Tensor, lam: float = 0.0
    ) -> tuple[Tensor, StepInfo]:
        """The scalar to differentiate for one step.

            CE(head(out_ln(sg[h_L])), y) + ⟨h_0, a_0⟩ + Σ_l ⟨f_l(sg[h_l]), a_{l+1}⟩ + λ·Σ_l
            ‖f_l(sg[h_l])‖²

        Every term is a mean over the batch; sg = stop-gradient; a is constant; a layer whose credit
        is None has no term.

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
        local = local_term(outputs, credit)
        if net.n_blocks:
            penalty = branch_penalty(outputs[1:])
        else:
            penalty = logits.new_zeros(())
        if lam:
            total = ce + local + lam * penalty
        else:
            total = ce + local
        return total, StepInfo(
            seen, y, stream, credit, ce.detach(), local.detach(), penalty.detach(), targets
        )

    def trained_parameters(self, net: StreamNet) -> list[nn.Parameter]:
        """The network's parameters that the training loop's optimizer updates."""
        return list(net.parameters())

    def extra_targets(
        self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor
    ) -> dict[str, Tensor]:
        """What `extra_step` must know from before the block step."""
        return {}

    def extra_step(self, net: StreamNet, info: StepInfo) -> Tensor | None:
        """Train what the rule itself learns, after the block step; returns that loss, or None if
        nothing learns."""
        return None

    @classmethod
    def adapt_arch_args(cls, arch_args: dict[str, Any]) -> dict[str, Any]:
        """The arguments of the network this rule is trained on, given those asked for."""
        return arch_args

    def redraw(self, generator: torch.Generator) -> None:
        """Draw again, in place, everything that is random in this rule."""
        return

    def as_saved_elsewhere(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """What another program saved of the method's ``state_dict``, as this one has it; else as it
        was saved."""
        return tensors

    def fresh(self, generator: torch.Generator) -> Self:
        """The same rule with freshly drawn feedback, for the null of Γ; the generator lives on the
        CPU."""
        twin = copy.deepcopy(self)
        twin.redraw(generator)
        return twin

    def training_state(self) -> dict[str, Any]:
        """What resuming needs besides ``state_dict()`` (an optimizer's state, a step count)."""
        return {}

    def load_training_state(self, state: dict[str, Any]) -> None:
        """Take up `training_state` again."""
        return


def feedback_generator(seed: int) -> torch.Generator:
    """A CPU generator for a method's own draws, apart from the stream that drew the network's
    weights.

    The offset keeps feedback drawn under a seed independent of weights drawn under the same seed.
    """
    return torch.Generator().manual_seed((seed * 0x9E3779B1 + 0x5EED) % 2**63)


def gaussian_(matrix: Tensor, variance: float, generator: torch.Generator) -> None:
    """Fill with N(0, variance), drawn on the CPU so that every device gets the same numbers."""
    drawn = torch.randn(matrix.shape, generator=generator, dtype=torch.float32)
    matrix.copy_(drawn * variance**0.5)


def output_error(logits: Tensor, y: Tensor) -> Tensor:
    """e_T = softmax(logits) − onehot(y) of every sample: the gradient of the summed CE by the
    logits.

    The label's own entry is −Σ_{c≠y} p_c: p_y − 1 would lose the digits of a sample that is nearly
    certain.

    Args:
        logits: (..., B, C).
        y: (B,) class indices.

    Returns:
        Shaped like the logits, in their arithmetic.

    Source: docs/protocol.md §2.

    >>> output_error(torch.tensor([[100.0, 0.0]], dtype=torch.float64), torch.tensor([0])).tolist()
    [[-3.720075976020836e-44, 3.720075976020836e-44]]
    """
    p = logits.detach().softmax(-1)
    own = y.to(p.device).expand(p.shape[:-1])[..., None]
    others = p.scatter(-1, own, 0.0)
    return others.scatter(-1, own, -others.sum(-1, keepdim=True))


@contextmanager
def untracked_statistics(net: nn.Module) -> Iterator[None]:
    """In train mode, let BatchNorm use the batch's statistics without recording them."""
    norms = [module for module in net.modules() if isinstance(module, _BatchNorm)]
    tracking = [norm for norm in norms if norm.training and norm.track_running_stats]
    for norm in tracking:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm in tracking:
            norm.track_running_stats = True


Named = Mapping[str, type[Method]]
"""Canonical name → class."""


def by_name(*classes: type[Method]) -> Named:
    """Classes under their own names."""
    return {rule.name: rule for rule in classes}


def find_class(name: str, built_in: Named) -> type[Method]:
    """The built-in class of that name, in any spelling (``"Credit Bridge"`` is ``credit_bridge``),
    or a plugin.

    A plugin is imported, so `name` must come from the user, not from a file. It cannot take a
    built-in name.

    Raises:
        UsageError: unknown, or a plugin that does not import or is no `Method`.
    """
    name = canonical_method(name)
    if name in built_in:
        return built_in[name]
    brought = {canonical_method(point.name): point for point in plugins(METHODS).values()}
    if name not in brought:
        raise unknown_name("method", name, [*built_in, *sorted(brought.keys() - built_in.keys())])
    rule = load_plugin(brought[name])
    if not (isinstance(rule, type) and issubclass(rule, Method)):
        raise UsageError(f"{rule!r} is no fa_core.methods.Method", where=place(brought[name]))
    return rule


def check_options(rule: type[Method], args: Iterable[str]) -> None:
    """Refuse an option that the rule's constructor does not take.

    Raises:
        UsageError: naming the option and those there are.
    """
    parameters = list(signature(rule.__init__).parameters.values())[3:]
    if any(p.kind is Parameter.VAR_KEYWORD for p in parameters):
        return
    options = [p.name for p in parameters]
    for option in args:
        if option not in options:
            if options:
                hint = nearest(option, options)
            else:
                hint = "it has none"
            raise UsageError(f"method {rule.name} has no option {option!r}", hint=hint)
