"""The credit rules by name: the built-in ones, and those that other packages bring as entry points."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from inspect import Parameter, signature

from fa_core.errors import UsageError
from fa_core.methods.base import Method
from fa_core.methods.bp import Backprop
from fa_core.methods.bridge import StateBridge
from fa_core.methods.credit_bridge import CreditBridge
from fa_core.methods.ep import EquilibriumPropagation
from fa_core.methods.feedback import DirectFeedbackAlignment, FeedbackAlignment
from fa_core.naming import nearest, unknown_name
from fa_core.rows import canonical_method

ENTRY_POINTS = "fa_core.methods"
"""The entry-point group: name = ``module:Class``, the class a `Method`."""

Named = Mapping[str, type[Method]]
"""Canonical name → class."""


def by_name(*classes: type[Method]) -> Named:
    """Classes under their own names."""
    return {rule.name: rule for rule in classes}


RULES: Named = by_name(
    Backprop, FeedbackAlignment, DirectFeedbackAlignment, StateBridge, CreditBridge, EquilibriumPropagation
)
"""The built-in rules; the controls, which train by one of them, are not among them."""


def find_class(name: str, built_in: Named) -> type[Method]:
    """The built-in class of that name, in any spelling (``"Credit Bridge"`` is ``credit_bridge``), or a plugin.

    A plugin is imported, so `name` must come from the user, not from a file. It cannot take a built-in name.

    Raises:
        UsageError: unknown, or a plugin that does not import or is no `Method`.
    """
    name = canonical_method(name)
    if name in built_in:
        return built_in[name]
    plugins = _plugins()
    if name not in plugins:
        raise unknown_name("method", name, [*built_in, *sorted(plugins.keys() - built_in.keys())])
    where = f"entry point {name} = {plugins[name].value}"
    try:
        rule = plugins[name].load()
    except Exception as error:
        raise UsageError(f"does not import ({type(error).__name__}: {error})", where=where) from error
    if not (isinstance(rule, type) and issubclass(rule, Method)):
        raise UsageError(f"{rule!r} is no fa_core.methods.Method", where=where)
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
            hint = nearest(option, options) if options else "it has none"
            raise UsageError(f"method {rule.name} has no option {option!r}", hint=hint)


def _plugins() -> dict[str, EntryPoint]:
    return {canonical_method(point.name): point for point in entry_points(group=ENTRY_POINTS)}
