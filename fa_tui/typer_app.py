"""The Typer application of some commands."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from pkgutil import resolve_name
from typing import cast

import typer
from typer.core import TyperGroup

_MODULES = {
    **dict.fromkeys(("seeds", "sweep", "utility", "timeline", "report"), "analyses"),
    "verify": "audit",
}
"""Command → module, if not of the same name."""

INTRO = """Audit networks trained without backprop: four diagnostics, one verdict.

`fa-tui PATH…` opens the explorer; without a path it opens the sample runs.
Results go to stdout, progress and messages to stderr. Add --debug to any command for a traceback,
--strict-json for JSON that has null in place of NaN and infinities, and names them in not_finite.
"""


def command_of(names: Sequence[str]) -> TyperGroup:
    """The command line with the named commands."""
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    app.callback(help=INTRO)(lambda: None)
    for name in names:
        where = f"fa_tui.commands.{_MODULES.get(name, name)}:{name}_command"
        app.command(name)(with_groups(resolve_name(where)))
    return cast("TyperGroup", typer.main.get_command(app))


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command with dataclass parameters expanded into their fields. Typer reads options from
    the signature, and has no groups.
    """
    declared = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, type] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in declared:
        declared_type = parameter.annotation
        if isinstance(declared_type, type) and is_dataclass(declared_type):
            groups[parameter.name] = declared_type
            parameters += inspect.signature(declared_type, eval_str=True).parameters.values()
        else:
            parameters.append(parameter)

    @functools.wraps(command)
    def wrapper(**values: object) -> None:
        for name, group in groups.items():
            options = {field.name: values.pop(field.name) for field in fields(group)}
            values[name] = group(**options)
        command(**values)

    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return wrapper
