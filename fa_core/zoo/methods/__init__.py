"""Credit rules and controls by name: created for a network, or restored from saved tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from fa_core.errors import MeasureError
from fa_core.report.names import canonical_method
from fa_core.zoo.methods.base import (
    Method,
    Registry,
    check_options,
    feedback_generator,
    find_class,
    registry,
)
from fa_core.zoo.methods.controls import RULES, FrozenBlocks, RandomInit, RandomTargets, Shallow
from fa_core.zoo.models.base import StreamNet

__all__ = [
    "METHODS",
    "Method",
    "make_method",
    "method_class",
    "restore_method",
]

METHODS: Registry = {**RULES, **registry(FrozenBlocks, Shallow, RandomInit, RandomTargets)}
"""Canonical name → built-in rule or control."""


def method_class(name: str) -> type[Method]:
    """The rule or control of a name in any spelling, built in or a plugin.

    Raises:
        UsageError: unknown, or a plugin that does not import or is no `Method`.
    """
    return find_class(name, METHODS)


def make_method(name: str, net: StreamNet, /, seed: int = 0, **args: object) -> Method:
    """A rule for `net`, on its device, with feedback drawn under `seed`.

    Args:
        name: a built-in rule or control, or a plugin.
        net: the network to give credit to; unchanged.
        seed: for the method's own draws, independent of the network's initial weights.
        args: the rule's own options, e.g. ``variant="stable"``.

    Raises:
        UsageError: unknown method or option.

    >>> from fa_core.zoo.models import build
    >>> make_method("dfa", build("resmlp", input_dim=4, d=8, L=1, seed=0), seed=42).B_0.shape
    torch.Size([10, 8])
    """
    rule = method_class(name)
    check_options(rule, args)
    return rule(net, feedback_generator(seed), **args).to(net.head.weight.device)


def restore_method(
    name: str, net: StreamNet, tensors: Mapping[str, Tensor], /, **args: Any
) -> Method:
    """A built-in method with its ``state_dict`` loaded from `tensors`.

    Name and options may come from a file, so nothing but built-in methods is accepted.

    Raises:
        UsageError: an unknown option.
        MeasureError: the method, or the rule it trains by (option ``of``), is not built in; or a
            tensor is missing, unknown or of the wrong shape.
    """
    for asked in (name, args.get("of", name)):
        if canonical_method(str(asked)) not in METHODS:
            raise MeasureError(
                f"method {asked!r} is not built in: its weights are measured, its credit is not"
            )
    method = make_method(name, net, **args)
    if method.state_dict() and not tensors:
        raise MeasureError("its feedback was not saved with the run")
    try:
        method.load_state_dict(dict(method.convert_tensors(tensors)))
    except RuntimeError as error:
        # torch's first line says which module it is, the next what does not fit
        why = str(error).splitlines()[1].strip()
        raise MeasureError(f"feedback of {method.name}: {why}") from error
    return method
