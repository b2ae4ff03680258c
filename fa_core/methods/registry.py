"""The methods by name: the built-in ones, and those that other packages bring as entry points."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from inspect import Parameter, signature
from typing import Any

from torch import Tensor

from fa_core.errors import MeasureError, UsageError
from fa_core.methods.base import Method, feedback_generator
from fa_core.methods.bp import Backprop
from fa_core.methods.controls import FrozenBlocks, RandomInit, RandomTargets, Shallow
from fa_core.methods.credit_bridge import CreditBridge
from fa_core.methods.dfa import DirectFeedbackAlignment
from fa_core.methods.ep import EquilibriumPropagation
from fa_core.methods.fa import FeedbackAlignment
from fa_core.methods.state_bridge import StateBridge
from fa_core.models.base import StreamNet
from fa_core.naming import nearest, unknown_name
from fa_core.rows import canonical_method

ENTRY_POINTS = "fa_core.methods"
"""The entry-point group: name = ``module:Class``, the class a `Method`."""

METHODS: Mapping[str, type[Method]] = {
    rule.name: rule
    for rule in (
        Backprop,
        FeedbackAlignment,
        DirectFeedbackAlignment,
        StateBridge,
        CreditBridge,
        EquilibriumPropagation,
        FrozenBlocks,
        Shallow,
        RandomInit,
        RandomTargets,
    )
}
"""Canonical name → built-in rule. A built-in name cannot be taken by an entry point."""


def known_methods() -> list[str]:
    """All names that `make_method` takes, the built-in ones first; no plugin is imported for it."""
    return [*METHODS, *(name for name in sorted(_plugins()) if name not in METHODS)]


def method_class(name: str) -> type[Method]:
    """The rule of that name (any spelling: ``"Credit Bridge"`` is ``credit_bridge``).

    Raises:
        UsageError: unknown, or a plugin that does not import or is no `Method`.
    """
    name = canonical_method(name)
    if name in METHODS:
        return METHODS[name]
    plugins = _plugins()
    if name not in plugins:
        raise unknown_name("method", name, known_methods())
    where = f"entry point {name} = {plugins[name].value}"
    try:
        rule = plugins[name].load()
    except Exception as error:
        raise UsageError(f"does not import ({type(error).__name__}: {error})", where=where) from error
    if not (isinstance(rule, type) and issubclass(rule, Method)):
        raise UsageError(f"{rule!r} is no fa_core.methods.Method", where=where)
    return rule


def make_method(name: str, net: StreamNet, seed: int = 0, **args: Any) -> Method:
    """A rule for `net`, on its device, its feedback drawn under `seed`.

    Args:
        name: see `known_methods`.
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
            hint = nearest(option, options) if options else "it has none"
            raise UsageError(f"method {rule.name} has no option {option!r}", hint=hint)


def restore_method(name: str, net: StreamNet, tensors: Mapping[str, Tensor], **args: Any) -> Method:
    """A rule as it was saved: `make_method`, then its ``state_dict`` from `tensors`.

    Raises:
        UsageError: unknown method or option.
        MeasureError: a tensor is missing, not known, or of another shape than the network needs.
    """
    method = make_method(name, net, **args)
    needed = method.state_dict()
    for key in [*needed, *(key for key in tensors if key not in needed)]:
        want = tuple(needed[key].shape) if key in needed else None
        have = tuple(tensors[key].shape) if key in tensors else None
        if want != have:
            told = "is missing" if have is None else f"has shape {have}"
            fits = "it has no such tensor" if want is None else f"this network needs {want}"
            raise MeasureError(f"feedback of {method.name}: {key} {told}; {fits}")
    method.load_state_dict(dict(tensors))
    return method


def _plugins() -> dict[str, EntryPoint]:
    return {canonical_method(point.name): point for point in entry_points(group=ENTRY_POINTS)}
