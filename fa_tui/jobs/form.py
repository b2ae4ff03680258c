"""A command as fields to fill in, the line they make, and what that line would do or what is wrong with it.

Everything is read from the click command, so that a form never offers what the command does not take.
"""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from fa_core.errors import FaError, UsageError
from fa_core.option_values import ARCHS, DATA_SETS, diagnostic_letters, split_place
from fa_core.runs import is_run

_YES, _NO = "yes", "no"


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One option or argument.

    Attributes:
        name: the parameter's name.
        option: as it is typed, e.g. ``"--method"``; ``""`` for what has none (paths).
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


def fields_of(command: Any) -> list[Field]:
    """The fields of a click command; what must be given comes first."""
    fields = [_field(parameter) for parameter in command.params]
    return sorted(fields, key=lambda field: not field.required and bool(field.option))


def names_for(field: str) -> Sequence[str]:
    """The names that a field may take, where it takes others too (plugins, user code); none where any text will do."""
    from fa_core.training import plan

    return {
        "method": plan.METHODS,
        "arch": ARCHS,
        "data": DATA_SETS,
        "schedule": plan.SCHEDULES,
        "optimizer": plan.OPTIMIZERS,
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
    # what has no option comes first, as people write it
    ordered = sorted(fields, key=lambda field: bool(field.option))
    return [name, *(word for field in ordered for word in field.words(values.get(field.name, field.default)))]


def shell_line(words: Sequence[str]) -> str:
    """A command line to be pasted into a shell.

    >>> shell_line(["train", "--data", "npz:my set.npz"])
    "fa-tui train --data 'npz:my set.npz'"
    """
    return shlex.join(["fa-tui", *words])


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
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


_ON_DISK = ("cifar10", "cifar100", "imagefolder", "npz")
"""Data SPECs that name files after the colon."""


class Fault(NamedTuple):
    """Why a command refuses a command line.

    Attributes:
        text: in one line.
        field: the name of the field it is about, where that is known.
    """

    text: str
    field: str = ""


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A command line that can be started.

    Attributes:
        words: the command and its options.
        out: what it writes: a folder of runs, or a file.
        reads: what it audits (none: it trains).
        runs: the run folders it trains, in their order (none: it audits).
        device: as it was asked for.
    """

    words: list[str]
    out: Path
    reads: list[Path] = []
    runs: list[Path] = []
    device: str = ""


def plan(command: Any, words: Sequence[str]) -> Planned | Fault:
    """What a command line would do, or why its click command refuses it."""
    try:
        with command.make_context(words[0], list(words[1:])) as context:
            return _planned(list(words), context.params)
    except FaError as error:
        text = str(error)
        return Fault(text, _field_meant(text, command, words))
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        # a usage error of the click that Typer carries privately
        text, parameter = str(error.format_message()), getattr(error, "param", None)
        return Fault(text, str(parameter.name) if parameter is not None else _field_meant(text, command, words))


def _field_meant(text: str, command: Any, words: Sequence[str]) -> str:
    """The field that a message is about: it names the option, quotes its value, or begins with its name."""
    fields = fields_of(command)
    for field in fields:
        if field.option and re.search(rf"{re.escape(field.option)}\b(?!-)", text.partition(";")[0]):
            return field.name
    for field in fields:
        value = words[words.index(field.option) + 1 :][:1] if field.option in words and not field.is_flag else []
        if value and any(f"'{part}'" in text for part in (*value, *re.split("[,:=]", value[0]))):
            return field.name
    return next((field.name for field in fields if re.match(rf"(threshold )?{field.name}\b", text)), "")


def _planned(words: list[str], given: Mapping[str, Any]) -> Planned:
    from fa_core.engine.devices import LOCAL, resolve_devices
    from fa_core.training.plan import there_already
    from fa_tui.options import parse_frozen_baseline, placement_in, thresholds_in

    thresholds_in(given)
    parse_frozen_baseline(given.get("frozen_baseline"))
    _check_places(given)
    out = Path(given["out"])
    if words[0] != "train":
        placement = placement_in(given)
        placement.check()
        where = placement.device if placement.engine == LOCAL else placement.engine
        return Planned(words=words, out=out, reads=[Path(path) for path in given["paths"] or ()], device=where)
    if given["device"] != "auto":
        resolve_devices(given["device"])
    diagnostic_letters(given["stop_on"], "--stop-on")
    # by its name: the static import would tie the explorer to torch, which the command only imports when it runs
    plans = importlib.import_module("fa_tui.commands.train").plans_of(given)
    runs = [out / plan.name for plan in plans]
    if not (given["resume"] or given["overwrite"]):
        taken = next((run for run in runs if is_run(run)), None)
        if taken is not None:
            raise there_already(taken)
    return Planned(words=words, out=out, runs=runs, device=given["device"])


def _check_places(given: Mapping[str, Any]) -> None:
    """Refuse what is read and is not there.

    Raises:
        UsageError: a path, or the files of a data SPEC.
    """
    for path in given.get("paths") or ():
        if not Path(path).exists():
            raise UsageError(f"paths: there is no {str(path)!r}")
    kind, _, place = split_place(given["data"] or "")[0].partition(":")
    if kind in _ON_DISK and not Path(place).expanduser().exists():
        raise UsageError(f"--data: there is no {place!r}" if place else f"--data: write {kind}:PATH")
