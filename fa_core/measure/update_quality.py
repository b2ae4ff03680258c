"""What a credit signal makes of the parameters: one optimizer step against backprop's."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Literal, cast

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.optimizer import StateDict

from fa_core.decode import Json
from fa_core.measure.batch_input import to_device
from fa_core.measure.isolate import eval_mode
from fa_core.methods.base import OPTIMIZERS, Method
from fa_core.methods.bp import Backprop
from fa_core.models.base import StreamNet

EMBED, READOUT = "embed", "readout"
"""The parts of a network before and after its blocks."""


class Optimizer(msgspec.Struct, frozen=True, kw_only=True):
    """What of a recipe makes a step; its weight decay, which every method shares, does not.

    Attributes:
        optimizer: one of `OPTIMIZERS`.
        lr: its learning rate.
        lam: λ of the recipe's penalty.
    """

    optimizer: Literal["adamw", "adam", "sgd"] = "adamw"
    lr: Annotated[float, msgspec.Meta(gt=0.0)] = 1e-3
    lam: Annotated[float, msgspec.Meta(ge=0.0)] = 0.0


DEFAULT = Optimizer()
"""The published recipe's."""


class UpdateQuality(msgspec.Struct, frozen=True, kw_only=True):
    """One optimizer step of a method against backprop's from the same weights, on one batch.

    Attributes:
        parts: ``"embed"``, ``"0"``..``"L-1"`` for the blocks, ``"readout"``; without parameters a
            part is left out.
        cosine: per part, cosine of the method's parameter update and backprop's; None where one of
            them is 0.
        norm_ratio: per part, ‖Δθ‖ of the method over that of backprop; None where the latter is 0.
        decrease: by how much the method's step lowers the batch's mean CE, in nats.
        decrease_bp: by how much backprop's does.
        optimizer: its name.
        lr: its learning rate.
        first_step: whether its state was empty.

    Source: docs/protocol.md, *From credit to update*.
    """

    parts: list[str]
    cosine: list[float | None]
    norm_ratio: list[float | None]
    decrease: float
    decrease_bp: float
    optimizer: str
    lr: float
    first_step: bool

    def to_dict(self) -> Json:
        """Plain values, for a report's ``credit``."""
        plain: Json = msgspec.to_builtins(self)
        return plain


def update_quality(
    net: nn.Module,
    method: Method,
    x: Tensor,
    y: Tensor,
    optimizer: Optimizer = DEFAULT,
    state: StateDict | None = None,
) -> UpdateQuality:
    """Compare one optimizer step by a method's loss with one by backprop's.

    With Δθ the change of the parameters of a part by the optimizer's next step, without weight
    decay, which both would share:

        cosine = ⟨Δθ, Δθ_BP⟩ / (‖Δθ‖·‖Δθ_BP‖),   decrease = CE(θ) − CE(θ + Δθ)

    Gradients are in the network's own arithmetic, as in training; the optimizer's step, the cosines
    and both CE are in float64. An optimizer that divides by its own estimate of the gradient's size
    (Adam, AdamW) makes small credits large, except below its ε = 1e-8, where the step vanishes:
    Γ does not show either.

    Args:
        net: a network with its own stream, in any mode; it is left unchanged.
        method: the method with its feedback; it is not changed.
        x: inputs (B, ...), a tensor.
        y: (B,) class indices.
        optimizer: of the recipe.
        state: the optimizer's state so far, as its ``state_dict()``; None for its first step.

    Source: docs/protocol.md, *From credit to update*.
    """
    with eval_mode(net) as own:
        inputs, y = to_device((x, y), 0, own)
        x, network = cast(Tensor, inputs), cast(StreamNet, own.model)
        backprop = Backprop(network, torch.Generator())
        updates = _update(network, method, x, y, optimizer, state)
        reference = _update(network, backprop, x, y, optimizer, state)
        loss = _Loss(network, x, y)
        unchanged = loss.after({})
        decrease = unchanged - loss.after(updates)
        decrease_bp = unchanged - loss.after(reference)
    parts = _parts(network)
    cosines = []
    ratios = []
    for names in parts.values():
        own_step, bp_step = _joined(updates, names), _joined(reference, names)
        own_norm, bp_norm = float(own_step.norm()), float(bp_step.norm())
        cosine = ratio = None
        if own_norm and bp_norm:
            cosine = float(own_step @ bp_step) / (own_norm * bp_norm)
        if bp_norm:
            ratio = own_norm / bp_norm
        cosines.append(cosine)
        ratios.append(ratio)
    return UpdateQuality(
        parts=list(parts),
        cosine=cosines,
        norm_ratio=ratios,
        decrease=decrease,
        decrease_bp=decrease_bp,
        optimizer=optimizer.optimizer,
        lr=optimizer.lr,
        first_step=state is None,
    )


Update = Mapping[str, Tensor]
"""Name of a parameter → its change, in float64; 0 where it is not trained."""


def _update(
    net: StreamNet,
    method: Method,
    x: Tensor,
    y: Tensor,
    optimizer: Optimizer,
    state: StateDict | None,
) -> Update:
    """The optimizer's next step by a method's loss."""
    rule = copy.deepcopy(method)
    with _trainable(net), torch.enable_grad():
        trained = rule.trained_parameters(net)
        gradients: tuple[Tensor | None, ...] = ()
        if trained:
            loss, _ = rule.loss(net, x, y, optimizer.lam)
            gradients = torch.autograd.grad(loss, trained, allow_unused=True)
    weights = []
    for parameter, gradient in zip(trained, gradients, strict=True):
        weight = nn.Parameter(parameter.detach().to(torch.float64, copy=True))
        if gradient is not None:
            weight.grad = gradient.double()
        weights.append(weight)
    if weights:
        _take_step(weights, optimizer, state)
    changed = dict(zip(map(id, trained), weights, strict=True))
    update = {}
    for name, parameter in net.named_parameters():
        before = parameter.detach().double()
        update[name] = changed.get(id(parameter), before).detach() - before
    return update


def _take_step(weights: list[nn.Parameter], optimizer: Optimizer, state: StateDict | None) -> None:
    """One step, without weight decay, from the recorded state if there is one."""
    settings = {"lr": optimizer.lr, "weight_decay": 0.0}
    steps = OPTIMIZERS[optimizer.optimizer](weights, **settings)
    if state is not None:
        steps.load_state_dict(state)
        for group in steps.param_groups:
            group.update(settings)
    steps.step()


@contextmanager
def _trainable(net: nn.Module) -> Iterator[None]:
    """Let the parameters have gradients inside."""
    net.requires_grad_(True)
    try:
        yield
    finally:
        net.requires_grad_(False)


class _Loss:
    """The batch's mean CE in float64 after a change of the parameters."""

    def __init__(self, net: StreamNet, x: Tensor, y: Tensor) -> None:
        self._net = copy.deepcopy(net).double()
        self._x = x
        if x.is_floating_point():
            self._x = x.double()
        self._y = y

    def after(self, update: Update) -> float:
        """The CE with this update."""
        changed = {}
        for name, parameter in self._net.named_parameters():
            changed[name] = parameter.detach()
            if name in update:
                changed[name] = changed[name] + update[name]
        with torch.no_grad():
            logits = torch.func.functional_call(self._net, changed, (self._x,))
        return float(F.cross_entropy(logits, self._y))


def _parts(net: StreamNet) -> dict[str, list[str]]:
    """Part of the network → the names of its parameters, in forward order."""
    modules = {str(l): [block] for l, block in enumerate(net.blocks)}
    modules[READOUT] = [net.out_ln, net.head]
    home: dict[int, str] = {}
    for part, own in modules.items():
        for module in own:
            home |= dict.fromkeys(map(id, module.parameters()), part)
    parts: dict[str, list[str]] = {part: [] for part in (EMBED, *modules)}
    for name, parameter in net.named_parameters():
        parts[home.get(id(parameter), EMBED)].append(name)
    return {part: names for part, names in parts.items() if names}


def _joined(update: Update, names: Sequence[str]) -> Tensor:
    """The changes of some parameters as one vector."""
    return torch.cat([update[name].flatten() for name in names])
