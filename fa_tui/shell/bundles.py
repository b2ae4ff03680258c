"""Several options that are one value to a command."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_type_hints


class Bundle(NamedTuple):
    """Options that a command takes as one value.

    Attributes:
        options: annotation and default of each, by the name of its parameter.
        value: makes the one value of theirs.
    """

    options: Mapping[str, tuple[Any, object]]
    value: Callable[[Mapping[str, Any]], object]


def unbundled(command: Callable[..., None], bundles: Mapping[str, Bundle]) -> Callable[..., None]:
    """The command with a bundle's options in the place of the parameter that has its name.

    Typer reads a signature, so the wrapper has one. A bundle that the command does not declare is left out; one that
    it does is keyword-only there.

    Args:
        command: declares its options as Typer wants them, and bundles by their names.
        bundles: by the name of the parameter.
    """
    hints = get_type_hints(command, include_extras=True)
    wanted = inspect.signature(command).parameters
    used = {name: bundle for name, bundle in bundles.items() if name in wanted}
    parameters: list[inspect.Parameter] = []
    for name, parameter in wanted.items():
        if name not in used:
            parameters.append(parameter.replace(annotation=hints[name]))
            continue
        for option, (annotation, default) in used[name].options.items():
            parameters.append(inspect.Parameter(option, parameter.kind, default=default, annotation=annotation))

    @functools.wraps(command)
    def wrapper(**values: Any) -> None:
        for name, bundle in used.items():
            values[name] = bundle.value({option: values.pop(option) for option in bundle.options})
        command(**values)

    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {one.name: one.annotation for one in parameters}
    return wrapper
