"""Shared options, and parsers of their values.

Groups of options are in `option_groups`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer

from fa_core.errors import UsageError
from fa_core.report.baseline import FrozenBaseline
from fa_core.report.names import canonical_method
from fa_core.report.numbers import parse

Number = TypeVar("Number", int, float)


def typed_path(text: str) -> Path:
    """A typed path; ``""`` would mean the current folder.

    Raises:
        UsageError: it is empty, e.g. from an unset variable.
    """
    if not text:
        raise UsageError("an empty path", hint="is a variable unset? the current folder is .")
    return Path(text)


_PATHS_HELP = "Audit files, checkpoints, run folders, or folders of them."
_PATHS = typer.Argument(metavar="PATH…", help=_PATHS_HELP, show_default=False, parser=typed_path)
PathsArgument = Annotated[list[Path] | None, _PATHS]
NamedPaths = Annotated[list[Path], _PATHS]
"""Required paths of commands that judge for a script, write or measure, which never use the sample
runs."""

_DATA_HELP = (
    "Data to measure on: synthetic[:…], cifar10:DIR[,raw], cifar100:DIR, "
    "imagefolder:DIR[,size=224], digits, "
    "npz:FILE, module:callable or a plugin's name. Default: the one in the run's manifest."
)
DataOption = Annotated[
    str | None, typer.Option(metavar="SPEC", help=_DATA_HELP, show_default=False)
]

_MODEL_HELP = (
    "The network that the weights belong to: module:callable(depth=4), your own; "
    "timm:NAME(num_classes=10), "
    "torchvision:NAME, hf:FOLDER, or a name of this project. Arguments are literals."
)
ModelOption = Annotated[
    str | None, typer.Option(metavar="SPEC", help=_MODEL_HELP, show_default=False)
]

_WEIGHTS_HELP = (
    "Which of several mappings of tensors in a file to take, by its name there, e.g. ema."
)
_WEIGHTS = typer.Option(metavar="NAME", help=_WEIGHTS_HELP, show_default="the first that fits")
WeightsOption = Annotated[str | None, _WEIGHTS]

_TAPS_HELP = (
    "Modules whose outputs are the stream h_0..h_L, e.g. 'embed,blocks.*'; "
    "with :in, whose inputs are: 'blocks.*:in,head:in'."
)
TapsOption = Annotated[
    list[str] | None, typer.Option(metavar="LIST", help=_TAPS_HELP, show_default=False)
]

_LOGITS_HELP = (
    "Where the network's output has the logits: a place in a tuple, a key or attribute, or "
    "module:callable, a function of the output."
)
LogitsOption = Annotated[
    str | None, typer.Option(metavar="PLACE", help=_LOGITS_HELP, show_default=False)
]

_LOSS_HELP = (
    "The loss the networks were trained with: ce, bce, mse, or module:callable, a function "
    "(outputs, labels) -> losses per sample."
)
LossOption = Annotated[str | None, typer.Option(metavar="LOSS", help=_LOSS_HELP, show_default="ce")]

_FILTER = typer.Option(help="Only some runs, as / in the explorer: 'method:dfa flag:b growth>100'.")
FilterOption = Annotated[str, _FILTER]

_SORT = typer.Option(
    help="By a column of the explorer's Table page: growth; -growth, largest first."
)
SortOption = Annotated[str, _SORT]

Form = Literal["table", "json"]
"""Forms of printed results."""

_FORM = typer.Option(
    help="A table for reading, or JSON with every digit (NaN and Infinity as Python writes them; "
    "null with --strict-json)."
)
FormOption = Annotated[Form, _FORM]

_ROW_FORM = typer.Option(
    help="How to print the rows; in JSON NaN and Infinity stand as Python writes them, or as null "
    "with --strict-json."
)
RowFormOption = Annotated[Literal["table", "json", "csv", "markdown"], _ROW_FORM]


_CLAIMS = typer.Option(
    metavar="FILE",
    help="Judge the claims of this TOML file seed by seed (docs/protocol.md, Claims).",
    show_default=False,
    parser=typed_path,
)
ClaimsOption = Annotated[Path | None, _CLAIMS]

_PROTOCOL = typer.Option(
    help="v2: the successor's verdict, D1, D2, D3 by the thresholds of a, b, d; no c."
)
ProtocolOption = Annotated[Literal["v1", "v2"], _PROTOCOL]


def parse_frozen_baseline(values: Sequence[str] | None) -> FrozenBaseline:
    """``["0.349", "ep=0.31"]`` → a `FrozenBaseline`.

    Raises:
        UsageError: not a number, or not a fraction in [0, 1].
    """
    default: float | None = None
    by_method: dict[str, float] = {}
    for item in split_list(values):
        name, equals, text = item.rpartition("=")
        acc = parse(text)
        if acc is None or (equals and not name.strip()):
            raise UsageError(
                f"--frozen-baseline {item!r} is not an accuracy", hint="write 0.349 or METHOD=0.349"
            )
        if not 0.0 <= acc <= 1.0:
            if acc > 1:
                hint = "accuracies are fractions: divide by 100"
            else:
                hint = "write a fraction such as 0.349"
            raise UsageError(f"--frozen-baseline {item!r} lies outside [0, 1]", hint=hint)
        if name:
            by_method[canonical_method(name)] = acc
        else:
            default = acc
    return FrozenBaseline(default, by_method)


def split_list(values: str | Sequence[str] | None) -> list[str]:
    """A list option given with commas, repeated, or both.

    >>> split_list(["42,123", "456"])
    ['42', '123', '456']
    """
    return [item.strip() for part in values or () for item in part.split(",") if item.strip()]


def numbers(option: str, values: Sequence[str] | None, kind: type[Number]) -> list[Number]:
    """Parse a list option as numbers.

    Raises:
        UsageError: an item is no such number.
    """
    try:
        return [kind(text) for text in split_list(values)]
    except ValueError as error:
        if kind is int:
            what = "whole numbers"
        else:
            what = "numbers"
        given = ",".join(values or ())
        raise UsageError(
            f"{option} {given!r} cannot be read", hint=f"write {what} with commas"
        ) from error
