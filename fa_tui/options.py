"""Options that several commands share: their types, and the values that some of them make together.

A command that declares a parameter ``thresholds``, ``criteria`` or ``placement`` takes the options
behind it (`expanded`); `build` makes the application of such commands. Also where the sample runs
are.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar

import typer
from msgspec.structs import replace

from fa_core.engine.devices import PATIENCE, Placement
from fa_core.errors import UnreadableInput, UsageError
from fa_core.facts.runs import canonical_method
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.baseline import FrozenBaseline
from fa_core.judgement.diagnostics import DIAGNOSTICS
from fa_core.numbers import parse

if TYPE_CHECKING:
    from fa_core.analysis.margins import Logged
    from fa_core.rows import AuditRow
    from fa_core.trace import Trace

Number = TypeVar("Number", int, float)

PUBLISHED = "source:audit_table"
"""A filter: of the sample runs, those of the published table."""


def sample_runs() -> Path:
    """The folder of sample runs.

    Raises:
        UnreadableInput: an installation without them.
    """
    here = Path(__file__).resolve().parent
    for folder in (here / "sample_runs", here.parent / "sample_runs"):
        if folder.is_dir():
            return folder
    raise UnreadableInput(
        "the sample runs are not installed", where=here, hint="name a file or folder to open"
    )


def default_paths() -> list[Path]:
    """What is opened where nothing is named: the sample runs but for the atlas, more runs than all
    others together."""
    return sorted(
        path
        for path in sample_runs().iterdir()
        if path.name != "atlas" and path.suffix in ("", ".json")
    )


def typed_path(text: str) -> Path:
    """A path that the user typed; ``""`` would be the current folder.

    Raises:
        UsageError: it is empty, as an unset variable makes it.
    """
    if not text:
        raise UsageError("an empty path", hint="is a variable unset? the current folder is .")
    return Path(text)


_PATHS_HELP = "Audit files, checkpoints, run folders, or folders of them."
_PATHS = typer.Argument(metavar="PATH…", help=_PATHS_HELP, show_default=False, parser=typed_path)
PathsArgument = Annotated[list[Path] | None, _PATHS]
NamedPaths = Annotated[list[Path], _PATHS]
"""Of commands that judge for a script, write or measure: they never fall back to the sample
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

_FILTER = typer.Option(help="Only some runs, as / in the explorer: 'method:dfa flag:b growth>100'.")
FilterOption = Annotated[str, _FILTER]

_SORT = typer.Option(
    help="By a column of the explorer's long view: growth; -growth, largest first."
)
SortOption = Annotated[str, _SORT]

Form = Literal["table", "json"]
"""How a result is printed."""

_FORM = typer.Option(
    help="A table for reading, or JSON with every digit (NaN and Infinity as Python writes them)."
)
FormOption = Annotated[Form, _FORM]

_ROW_FORM = typer.Option(
    help="How to print the rows; in JSON NaN and Infinity stand as Python writes them."
)
RowFormOption = Annotated[Literal["table", "json", "csv", "markdown"], _ROW_FORM]


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
    """The numbers of a list option.

    Raises:
        UsageError: one is none of its kind.
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


class Criteria(NamedTuple):
    """What runs are judged by.

    Attributes:
        thresholds: when the diagnostics fire.
        baseline: frozen-baseline accuracies to assume.
    """

    thresholds: DiagnosticThresholds
    baseline: FrozenBaseline = FrozenBaseline()


class Log(NamedTuple):
    """What is known of logs that hold only ‖h_L‖: ‖h_0‖, and the number of their blocks."""

    h0: float | None = None
    blocks: int | None = None

    def __bool__(self) -> bool:
        return self.h0 is not None or self.blocks is not None

    def apply(self, rows: Iterable[AuditRow]) -> list[AuditRow]:
        """The rows, with a growth bound where only ‖h_L‖ was logged.

        Raises:
            UsageError: one of the two without the other, or values that make no sense.
        """
        if self:
            return [replace(row, report=self._bounded(row.report)) for row in rows]
        return list(rows)

    def apply_to_traces(self, traces: Iterable[Trace]) -> list[Trace]:
        """The traces, each epoch with the bound that `apply` gives a row.

        Raises:
            UsageError: as `apply`.
        """
        if not self:
            return list(traces)
        return [replace(trace, epochs=[*map(self._bounded, trace.epochs)]) for trace in traces]

    def _bounded(self, logged: Logged) -> Logged:
        if self.h0 is None or self.blocks is None:
            raise UsageError(
                "a growth bound needs both --h0 and --blocks", hint="e.g. --h0 8.7 --blocks 4"
            )
        from fa_core.analysis.margins import with_growth_bound

        try:
            return with_growth_bound(logged, self.h0, self.blocks)
        except ValueError as error:
            raise UsageError(str(error), where="--h0, --blocks") from error

    @property
    def options(self) -> list[str]:
        """The options that say so."""
        if self.h0 is None:
            return []
        return ["--h0", repr(self.h0), "--blocks", str(self.blocks)]


class Chosen(NamedTuple):
    """Which of the runs in its paths a command works on, what is known of them, and what judges
    them.

    Attributes:
        criteria: thresholds and baseline.
        methods: only runs of these.
        seeds: only runs of these.
        filter: only runs that pass it, as it was typed.
        log: what bounds the growth of logs.
    """

    criteria: Criteria
    methods: Sequence[str] | None
    seeds: Sequence[str] | None
    filter: str
    log: Log = Log()


class Bundle(NamedTuple):
    """Options that a command takes as one value.

    Attributes:
        options: annotation and default of each, by the name of its parameter.
        value: makes the one value from theirs, picked by name.
    """

    options: Mapping[str, tuple[Any, object]]
    value: Callable[[Mapping[str, Any]], object]


def _option(kind: Any, default: object, help: str, *names: str, **more: Any) -> tuple[Any, object]:
    return Annotated[kind, typer.Option(*names, help=help, **more)], default


_THRESHOLDS = {
    each.threshold: _option(
        float,
        each.default,
        f"({letter}) fires {'above' if each.fires_above else 'below'} this {each.name}. "
        f"Published: {each.calibration}.",
        metavar={"×": "RATIO"}.get(each.unit, each.unit.upper()),
    )
    for letter, each in DIAGNOSTICS.items()
}
_PROTOCOL = typer.Option(
    help="v2: the successor's verdict, D1, D2, D3 by the thresholds of a, b, d; no c."
)
ProtocolOption = Annotated[Literal["v1", "v2"], _PROTOCOL]
_GROUP = (
    "Networks of one architecture measured at once by a worker; 1: one by one. The numbers "
    "are the same."
)
_AS_FITS = "as memory allows on a GPU, 1 on a CPU"
_ENGINE = "Where: worker processes of this machine, or a Ray cluster (needs ray)."
_ADDRESS = "The Ray cluster's head, or auto: the one that runs on this machine."
_NO_ADDRESS = "RAY_ADDRESS, or Ray is started here"
_PATIENCE = "On a cluster: a run that takes longer is cancelled and tried once more."
_PLACEMENT = {
    "device": _option(
        str, "auto", "auto, cpu, cuda:all, cuda:1, or several with commas: one worker each."
    ),
    "jobs": _option(
        int | None, None, "Workers at a time.", metavar="N", show_default="one per device"
    ),
    "group": _option(int | None, None, _GROUP, metavar="N", min=1, show_default=_AS_FITS),
    "engine": _option(Literal["local", "ray"], "local", _ENGINE),
    "address": _option(str | None, None, _ADDRESS, metavar="HOST:PORT", show_default=_NO_ADDRESS),
    "patience": _option(
        float | None, None, _PATIENCE, metavar="SECONDS", min=1, show_default=f"{PATIENCE:.0f}"
    ),
}


def thresholds_in(values: Mapping[str, Any]) -> DiagnosticThresholds:
    """The thresholds among a command's values.

    Raises:
        UsageError: one of them is NaN, or negative where that makes no sense.
    """
    try:
        thresholds = DiagnosticThresholds(**{name: values[name] for name in _THRESHOLDS})
    except ValueError as error:
        raise UsageError(str(error)) from error
    return thresholds


def placement_in(values: Mapping[str, Any]) -> Placement:
    """The placement among a command's values."""
    return Placement(**{name: values[name] for name in _PLACEMENT})


def _criteria_in(values: Mapping[str, Any]) -> Criteria:
    """What a command's values say runs are judged by.

    Raises:
        UsageError: as `thresholds_in` and `parse_frozen_baseline`; an accuracy is empty, as an
            unset variable makes it.
    """
    given = values["frozen_baseline"]
    for value in given or ():
        if not all(item.strip() for item in value.split(",")):
            raise UsageError(
                f"--frozen-baseline {value!r} lacks an accuracy", hint="write 0.349 or METHOD=0.349"
            )
    return Criteria(thresholds_in(values), parse_frozen_baseline(given))


def _chosen_in(values: Mapping[str, Any]) -> Chosen:
    return Chosen(
        _criteria_in(values), values["methods"], values["seeds"], values["filter"], _log_in(values)
    )


def _log_in(values: Mapping[str, Any]) -> Log:
    return Log(values["h0"], values["blocks"])


_BASELINE = (
    "Frozen-blocks accuracy (a fraction) to assume for every run without one, but for frozen, "
    "shallow and random_init; METHOD=ACC: for all runs of that method, in place of a recorded one "
    "too. Marked as "
    "assumed, and in no file as recorded; `audit` alone writes it down, as given, for runs "
    "without one."
)
_CRITERIA = {
    **_THRESHOLDS,
    "frozen_baseline": _option(
        list[str] | None, None, _BASELINE, metavar="[METHOD=]ACC", show_default=False
    ),
}
_CHOICE: Mapping[str, tuple[Any, object]] = {
    "methods": _option(
        list[str] | None, None, "Only runs of these methods.", metavar="LIST", show_default=False
    ),
    "seeds": _option(
        list[str] | None, None, "Only runs of these seeds.", metavar="LIST", show_default=False
    ),
    "filter": (FilterOption, ""),
}
_LOG: Mapping[str, tuple[Any, object]] = {
    "h0": _option(
        float | None,
        None,
        "‖h_0‖ of logs that hold only ‖h_L‖: bounds their growth.",
        metavar="NORM",
    ),
    "blocks": _option(
        int | None, None, "Number of blocks of such logs.", "--blocks", "--depth", metavar="L"
    ),
}

BUNDLES: Mapping[str, Bundle] = {
    "thresholds": Bundle(_THRESHOLDS, thresholds_in),
    "criteria": Bundle(_CRITERIA, _criteria_in),
    "chosen": Bundle({**_CHOICE, **_LOG, **_CRITERIA}, _chosen_in),
    "log": Bundle(_LOG, _log_in),
    "placement": Bundle(_PLACEMENT, placement_in),
}
"""By the name of the parameter that a command declares, keyword-only."""


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of a bundle in place of the parameter that has its name.

    Typer reads a signature, so the wrapper has one.
    """
    # not get_type_hints, which before Python 3.11 hides an annotation with default None in Optional
    declared = inspect.signature(command, eval_str=True).parameters
    used = {name: BUNDLES[name] for name in declared if name in BUNDLES}
    parameters: list[inspect.Parameter] = []
    for name, parameter in declared.items():
        if name in used:
            options = used[name].options
        else:
            options = {name: (parameter.annotation, parameter.default)}
        parameters += [
            inspect.Parameter(option, parameter.kind, default=default, annotation=annotation)
            for option, (annotation, default) in options.items()
        ]

    @functools.wraps(command)
    def wrapper(**values: Any) -> None:
        for name, bundle in used.items():
            values[name] = bundle.value({option: values.pop(option) for option in bundle.options})
        command(**values)

    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {one.name: one.annotation for one in parameters}
    return wrapper


_MODULES = {
    **dict.fromkeys(("show", "check"), "verdicts"),
    **dict.fromkeys(("seeds", "sweep", "utility", "timeline", "report"), "analyses"),
    "verify": "audit",
    "completion": "schema",
}
"""Where a command is that has no module of its name."""

INTRO = """Audit networks trained without backprop: four diagnostics, one verdict.

`fa-tui PATH…` opens the explorer; without a path it opens the sample runs.
Results go to stdout, progress and messages to stderr. Add --debug to any command for a traceback.
"""


def build(names: Sequence[str]) -> typer.Typer:
    """The command-line application with the named commands."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.callback(help=INTRO)(lambda: None)
    for name in names:
        module = importlib.import_module(f"fa_tui.commands.{_MODULES.get(name, name)}")
        app.command(name)(expanded(getattr(module, f"{name}_command")))
    return app
