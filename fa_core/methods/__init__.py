"""Credit rules and controls by name: made for a network, or restored as saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from fa_core.errors import MeasureError
from fa_core.facts.run_names import canonical_method
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
from fa_core.methods.controls import RULES, FrozenBlocks, RandomInit, RandomTargets, Shallow
from fa_core.models.base import StreamNet

__all__ = [
    "METHODS",
    "Credit",
    "Method",
    "StepInfo",
    "make_method",
    "method_class",
    "restore_method",
]

METHODS: Named = {**RULES, **by_name(FrozenBlocks, Shallow, RandomInit, RandomTargets)}
"""Canonical name → built-in rule or control."""


def method_class(name: str) -> type[Method]:
    """The rule or control of that name, in any spelling, built in or a plugin.

    Raises:
        UsageError: unknown, or a plugin that does not import or is no `Method`.
    """
    return find_class(name, METHODS)


def make_method(name: str, net: StreamNet, /, seed: int = 0, **args: Any) -> Method:
    """A rule for `net`, on its device, its feedback drawn under `seed`.

    Args:
        name: of a built-in rule or control, or of a plugin.
        net: the network it will give credit to; left as it is.
        seed: of the method's own draws, independent of the network's initial weights.
        args: the rule's own options, e.g. ``variant="stable"``.

    Raises:
        UsageError: unknown method or option.

    >>> from fa_core.models import build
    >>> make_method("dfa", build("resmlp", input_dim=4, d=8, L=1, seed=0), seed=42).B_0.shape
    torch.Size([10, 8])
    """
    rule = method_class(name)
    check_options(rule, args)
    return rule(net, feedback_generator(seed), **args).to(next(net.parameters()).device)


def is_built_in(name: str, args: Mapping[str, Any]) -> bool:
    """Whether a method, and the rule it trains by (option ``of``), are built in, so that nothing is
    imported for it."""
    return all(canonical_method(str(asked)) in METHODS for asked in (name, args.get("of", name)))


def restore_method(
    name: str, net: StreamNet, tensors: Mapping[str, Tensor], /, **args: Any
) -> Method:
    """A built-in method as it was saved: `make_method`, then its ``state_dict`` from `tensors`.

    Name and options may come from a file: what is not built in is refused, never imported.

    Raises:
        UsageError: an option that the method does not have.
        MeasureError: not built in; or a tensor is missing, not known, or of another shape than the
            network needs.
    """
    if not is_built_in(name, args):
        if canonical_method(name) not in METHODS:
            asked = name
        else:
            asked = args["of"]
        raise MeasureError(f"the credit of method {asked!r} is not known here")
    method = make_method(name, net, **args)
    needed = method.state_dict()
    if needed and not tensors:
        raise MeasureError("its feedback was not saved with the run")
    tensors = method.as_saved_elsewhere(tensors)
    for key in {**needed, **tensors}:
        problem = _misfit(needed.get(key), tensors.get(key))
        if problem:
            raise MeasureError(f"feedback of {method.name}: {key} {problem}")
    method.load_state_dict(dict(tensors))
    return method


def _misfit(needed: Tensor | None, found: Tensor | None) -> str:
    """Why a saved tensor cannot be loaded; ``""`` if it can."""
    if needed is None:
        assert found is not None
        return f"has shape {tuple(found.shape)}; it has no such tensor"
    if found is None:
        return f"is missing; this network needs {tuple(needed.shape)}"
    if needed.shape != found.shape:
        return f"has shape {tuple(found.shape)}; this network needs {tuple(needed.shape)}"
    return ""
