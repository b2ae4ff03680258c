"""What a command line would do, or what is wrong with it and where. The command is asked; nothing is started."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from fa_core.errors import FaError, UsageError
from fa_core.naming import diagnostic_letters
from fa_core.runs import is_run
from fa_tui.jobs.command_form import command, fields_of

_ON_DISK = ("cifar10", "cifar100", "npz")
"""Data SPECs that name files after the colon."""


class Fault(NamedTuple):
    """What a command has to say against a command line.

    Attributes:
        text: in one line.
        field: the name of the field it is about, as far as it can be told.
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


def plan(words: Sequence[str]) -> Planned | Fault:
    """What a command line would do, or what the command has to say against it."""
    try:
        with command(words[0]).make_context(words[0], list(words[1:])) as context:
            return _planned(list(words), context.params)
    except FaError as error:
        text = str(error)
        return Fault(text, _field_meant(text, words))
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        # a usage error of the click that Typer carries privately
        text, parameter = str(error.format_message()), getattr(error, "param", None)
        return Fault(text, str(parameter.name) if parameter is not None else _field_meant(text, words))


def _field_meant(text: str, words: Sequence[str]) -> str:
    """The field that a message is about: it names the option, quotes its value, or begins with its name."""
    fields = fields_of(words[0])
    for field in fields:
        if field.option and re.search(rf"{re.escape(field.option)}\b(?!-)", text.partition(";")[0]):
            return field.name
    for field in fields:
        value = words[words.index(field.option) + 1 :][:1] if field.option in words and not field.is_flag else []
        if value and any(f"'{part}'" in text for part in (*value, *re.split("[,:=]", value[0]))):
            return field.name
    return next((field.name for field in fields if re.match(rf"(threshold )?{field.name}\b", text)), "")


def _planned(words: list[str], given: Mapping[str, Any]) -> Planned:
    from fa_core.engine.devices import resolve_devices
    from fa_core.engine.placement import LOCAL
    from fa_core.training.plan import there_already
    from fa_tui.shell.judging import thresholds_in
    from fa_tui.shell.options import parse_frozen_baseline
    from fa_tui.shell.placing import placement_in

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
    kind, _, place = (given["data"] or "").partition(":")
    if kind in _ON_DISK and not Path(place).expanduser().exists():
        raise UsageError(f"--data: there is no {place!r}" if place else f"--data: write {kind}:PATH")
