"""A command of the command line as fields to fill in: what they are, and the line they make.

Everything is read from the command itself, so that a form never offers what the command does not take.
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import msgspec

_YES, _NO = "yes", "no"


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One option or argument.

    Attributes:
        name: the parameter's name.
        option: as it is typed, e.g. ``"--method"``; ``""`` for what stands without one (paths).
        off: the option that says no, e.g. ``"--no-terminal-ln"``.
        is_flag: whether it is said or not, and takes no value.
        help: what it is for.
        default: what holds if it is not given, as text.
        values: all that it takes (empty = any text).
        required: whether it must be given.
    """

    name: str
    option: str
    off: str = ""
    is_flag: bool = False
    help: str = ""
    default: str = ""
    values: tuple[str, ...] = ()
    required: bool = False

    @property
    def label(self) -> str:
        """Its name for a form."""
        return self.option.removeprefix("--") or self.name

    def words(self, value: str) -> list[str]:
        """What a value adds to the command line; nothing if it is the default."""
        value = value.strip()
        if value == self.default or not value:
            return []
        if self.is_flag:
            return [self.option if value == _YES else self.off]
        if self.option:
            return [self.option, value]
        return [f"./{path}" if path.startswith("-") else path for path in shlex.split(value)]


def fields_of(name: str) -> list[Field]:
    """The fields of a command; what must be given comes first."""
    fields = [_field(parameter) for parameter in command(name).params]
    return sorted(fields, key=lambda field: not field.required and bool(field.option))


def names_for(field: str) -> Sequence[str]:
    """The names that a field may take, where it takes others too (plugins, user code); none where any text will do."""
    from fa_core.training import names, recipe

    return {
        "method": names.METHODS,
        "arch": names.ARCHS,
        "data": names.DATA_SETS,
        "schedule": recipe.SCHEDULES,
        "optimizer": recipe.OPTIMIZERS,
        "device": ("auto", "cpu", "cuda", "mps"),
    }.get(field, ())


def command_words(name: str, fields: Sequence[Field], values: Mapping[str, str]) -> list[str]:
    """The command and its options, without those that are the default.

    Args:
        name: of the command.
        fields: of that command.
        values: texts by the fields' names; what is missing is the default.

    Raises:
        ValueError: a path with an open quotation mark.
    """
    # what stands without an option comes first, as people write it
    ordered = sorted(fields, key=lambda field: bool(field.option))
    return [name, *(word for field in ordered for word in field.words(values.get(field.name, field.default)))]


def shell_line(words: Sequence[str]) -> str:
    """A command line to be pasted into a shell.

    >>> shell_line(["train", "--data", "npz:my set.npz"])
    "fa-tui train --data 'npz:my set.npz'"
    """
    return shlex.join(["fa-tui", *words])


@functools.cache
def command(name: str) -> Any:
    """A command of the command line, as click holds it."""
    import typer

    from fa_tui.cli import build

    group: Any = typer.main.get_command(build((name,)))
    return group.commands[name]


def _field(parameter: Any) -> Field:
    is_option = parameter.param_type_name == "option"
    is_flag = bool(getattr(parameter, "is_flag", False))
    values = tuple(getattr(parameter.type, "choices", ()))
    if is_flag:
        values = (_NO, _YES) if parameter.default is not None else ("", _YES, _NO)
    return Field(
        name=parameter.name,
        option=parameter.opts[0] if is_option else "",
        off=next(iter(parameter.secondary_opts), ""),
        is_flag=is_flag,
        help=getattr(parameter, "help", None) or "",
        default=_text(parameter.default),
        values=tuple(_text(value) for value in values),
        required=bool(parameter.required),
    )


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return _YES if value else _NO
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
