"""Options of several commands, parsers of their values, and groups of them.

A group is a dataclass whose fields are options: criteria, choice of runs, execution of
measurements. A command has a parameter of that type; `fa_tui.typer_app` expands it into the options
and passes the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypeVar

from msgspec.structs import replace
from typer import Argument, Option
from typer.models import OptionInfo

from fa_core.audit.devices import Execution
from fa_core.errors import UsageError
from fa_core.formats import given_columns
from fa_core.formats.trace import with_growth_bound
from fa_core.report.baseline import FrozenBaseline
from fa_core.report.diagnostics import DIAGNOSTICS
from fa_core.report.names import canonical_method
from fa_core.report.numbers import parse
from fa_core.report.report_facts import PROTOCOL, DiagnosticThresholds

if TYPE_CHECKING:
    from fa_core.formats.log_columns import Given
    from fa_core.formats.rows import AuditRow
    from fa_core.formats.trace import Logged, Trace


Number = TypeVar("Number", int, float)


def typed_path(text: str) -> Path:
    """A typed path; ``""`` would mean the current folder.

    Raises:
        UsageError: it is empty, e.g. from an unset variable.
    """
    if not text:
        raise UsageError("an empty path", hint="is a variable unset? the current folder is .")
    return Path(text)


_PATHS = Argument(
    metavar="PATH…",
    help="Audit files, checkpoints, run folders, or folders of them.",
    parser=typed_path,
)
PathsArgument = Annotated[list[Path] | None, _PATHS]
NamedPaths = Annotated[list[Path], _PATHS]
"""Required paths of commands that judge for a script, write or measure, which never use the sample
runs."""

DataOption = Annotated[
    str | None,
    Option(
        metavar="SPEC",
        help="Data to measure on: synthetic[:…], cifar10:DIR[,raw], cifar100:DIR, "
        "imagefolder:DIR[,size=224], digits, "
        "npz:FILE, module:callable or a plugin's name. Default: the one in the run's manifest.",
    ),
]

ModelOption = Annotated[
    str | None,
    Option(
        metavar="SPEC",
        help="The network that the weights belong to: module:callable(depth=4), your own; "
        "timm:NAME(num_classes=10), "
        "torchvision:NAME, hf:FOLDER, or a name of this project. Arguments are literals.",
    ),
]

WeightsOption = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="Which of several mappings of tensors in a file to take, by its name there, e.g. ema.",
        show_default="the first that fits",
    ),
]

TapsOption = Annotated[
    list[str] | None,
    Option(
        metavar="LIST",
        help="Modules whose outputs are the stream h_0..h_L, e.g. 'embed,blocks.*'; "
        "with :in, whose inputs are: 'blocks.*:in,head:in'.",
    ),
]

LogitsOption = Annotated[
    str | None,
    Option(
        metavar="PLACE",
        help="Where the network's output has the logits: a place in a tuple, a key or attribute, "
        "or module:callable, a function of the output.",
    ),
]

LossOption = Annotated[
    str | None,
    Option(
        metavar="LOSS",
        help="The loss the networks were trained with: ce, bce, mse, or module:callable, a "
        "function (outputs, labels) -> losses per sample.",
        show_default="ce",
    ),
]

FilterOption = Annotated[
    str, Option(help="Only some runs, as / in the explorer: 'method:dfa flag:b growth>100'.")
]

SortOption = Annotated[
    str,
    Option(help="By a column of the explorer's Table page: growth; -growth, largest first."),
]

Form = Literal["table", "json"]
"""Forms of printed results."""

FormOption = Annotated[
    Form,
    Option(
        help="A table for reading, or JSON with every digit (NaN and Infinity as Python writes "
        "them; null with --strict-json).",
    ),
]

RowFormOption = Annotated[
    Literal["table", "json", "csv", "markdown"],
    Option(
        help="How to print the rows; in JSON NaN and Infinity stand as Python writes them, or as "
        "null with --strict-json.",
    ),
]

ClaimsOption = Annotated[
    Path | None,
    Option(
        metavar="FILE",
        help="Judge the claims of this TOML file seed by seed (docs/protocol.md, Claims).",
        parser=typed_path,
    ),
]

ProtocolOption = Annotated[
    Literal["v1", "v2"],
    Option(help="v2: the successor's verdict, D1, D2, D3 by the thresholds of a, b, d; no c."),
]


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
            raise UsageError(
                f"--frozen-baseline {item!r} lies outside [0, 1]",
                hint="accuracies are fractions: write 34.9 % as 0.349",
            )
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
        return list(map(kind, split_list(values)))
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
    """Criteria of the verdicts.

    Attributes:
        thresholds: of the diagnostics.
        baseline: assumed frozen-baseline accuracies.
    """

    thresholds: DiagnosticThresholds
    baseline: FrozenBaseline = FrozenBaseline()


def _limit(letter: str) -> OptionInfo:
    """The option of a diagnostic's threshold."""
    diagnostic = DIAGNOSTICS[letter]
    side = "below"
    if diagnostic.fires_above:
        side = "above"
    metavar = diagnostic.quantity.unit.upper()
    if diagnostic.quantity.unit == "×":
        metavar = "RATIO"
    words = diagnostic.quantity.words
    text = f"({letter}) fires {side} this {words}. Published: {diagnostic.calibration}."
    option: OptionInfo = Option(metavar=metavar, help=text)
    return option


@dataclass(frozen=True, kw_only=True)
class ThresholdOptions:
    """The four thresholds."""

    h_norm_explosion_ratio: Annotated[float, _limit("a")] = PROTOCOL.h_norm_explosion_ratio
    g_norm_floor: Annotated[float, _limit("b")] = PROTOCOL.g_norm_floor
    stability_drift_ceiling: Annotated[float, _limit("c")] = PROTOCOL.stability_drift_ceiling
    frozen_acc_margin_pp: Annotated[float, _limit("d")] = PROTOCOL.frozen_acc_margin_pp

    def thresholds(self) -> DiagnosticThresholds:
        """The given thresholds.

        Raises:
            UsageError: a threshold that is NaN, or negative without sense.
        """
        try:
            return DiagnosticThresholds(
                self.g_norm_floor,
                self.h_norm_explosion_ratio,
                self.stability_drift_ceiling,
                self.frozen_acc_margin_pp,
            )
        except ValueError as error:
            raise UsageError(str(error)) from error


@dataclass(frozen=True, kw_only=True)
class CriteriaOptions(ThresholdOptions):
    """What runs are judged by."""

    frozen_baseline: Annotated[
        list[str] | None,
        Option(
            metavar="[METHOD=]ACC",
            help="Frozen-blocks accuracy (a fraction) to assume for every run without one, but "
            "for frozen, shallow and random_init; METHOD=ACC: for all runs of that method, in "
            "place of a recorded one too. Marked as assumed, and in no file as recorded; `audit` "
            "alone writes it down, as given, for runs without one.",
        ),
    ] = None

    def criteria(self) -> Criteria:
        """The given options.

        Raises:
            UsageError: as `thresholds` and `parse_frozen_baseline`, or an empty accuracy, e.g. from
                an unset variable.
        """
        for value in self.frozen_baseline or ():
            if "" in map(str.strip, value.split(",")):
                raise UsageError(
                    f"--frozen-baseline {value!r} lacks an accuracy",
                    hint="write 0.349 or METHOD=0.349",
                )
        return Criteria(self.thresholds(), parse_frozen_baseline(self.frozen_baseline))


@dataclass(frozen=True, kw_only=True)
class Log:
    """What logs do not say: ‖h_0‖ and the number of blocks; which column is which number."""

    h0: Annotated[
        float | None,
        Option(metavar="NORM", help="‖h_0‖ of logs that hold only ‖h_L‖: bounds their growth."),
    ] = None
    blocks: Annotated[
        int | None,
        Option("--blocks", "--depth", metavar="L", help="Number of blocks of such logs."),
    ] = None
    columns: Annotated[
        list[str] | None,
        Option(
            metavar="LIST",
            help="Columns of logs that other tools wrote: acc=val_acc,h=norms/h_*; * is the "
            "layer. Also frozen_acc, loss, g, growth, h_L, g_L, gamma, epoch and step.",
        ),
    ] = None

    @property
    def given(self) -> Given:
        """The named columns, as `fa_core.formats.scan` takes them.

        Raises:
            UsageError: a malformed item, or an unknown number.
        """
        return given_columns(split_list(self.columns))

    def apply(self, rows: Iterable[AuditRow]) -> list[AuditRow]:
        """The rows, with a bound on growth if only ‖h_L‖ was logged.

        Raises:
            UsageError: only one of the two, or invalid values.
        """
        return [replace(row, report=self._bounded(row.report)) for row in rows]

    def apply_to_traces(self, traces: Iterable[Trace]) -> list[Trace]:
        """The traces with the bound of `apply` in each epoch.

        Raises:
            UsageError: as `apply`.
        """
        return [replace(trace, epochs=[*map(self._bounded, trace.epochs)]) for trace in traces]

    def _bounded(self, logged: Logged) -> Logged:
        if self.h0 is None and self.blocks is None:
            return logged
        if self.h0 is None or self.blocks is None:
            raise UsageError(
                "a growth bound needs both --h0 and --blocks", hint="e.g. --h0 8.7 --blocks 4"
            )
        try:
            return with_growth_bound(logged, self.h0, self.blocks)
        except ValueError as error:
            raise UsageError(str(error), where="--h0, --blocks") from error

    @property
    def arguments(self) -> list[str]:
        """The command-line arguments for these facts."""
        found = []
        if self.h0 is not None:
            found += ["--h0", repr(self.h0), "--blocks", str(self.blocks)]
        if self.columns:
            found += ["--columns", ",".join(self.columns)]
        return found


class Chosen(NamedTuple):
    """The runs that a command works on, and what judges them.

    Attributes:
        criteria: thresholds and baseline.
        methods: only runs of these.
        seeds: only runs of these.
        filter: the typed filter.
        log: what logs do not say.
    """

    criteria: Criteria
    methods: Sequence[str] | None = None
    seeds: Sequence[str] | None = None
    filter: str = ""
    log: Log = Log()


@dataclass(frozen=True, kw_only=True)
class _ChoiceOptions:
    methods: Annotated[
        list[str] | None, Option(metavar="LIST", help="Only runs of these methods.")
    ] = None
    seeds: Annotated[list[str] | None, Option(metavar="LIST", help="Only runs of these seeds.")] = (
        None
    )
    filter: FilterOption = ""


@dataclass(frozen=True, kw_only=True)
class ChosenOptions(CriteriaOptions, Log, _ChoiceOptions):
    """The runs that a command works on, and what judges them."""

    def chosen(self) -> Chosen:
        """The given options.

        Raises:
            UsageError: as `criteria`.
        """
        return Chosen(self.criteria(), self.methods, self.seeds, self.filter, self)


@dataclass(frozen=True, kw_only=True)
class ExecutionOptions:
    """Execution of measurements."""

    device: Annotated[
        str,
        Option(help="auto, cpu, cuda:all, cuda:1, or several with commas: one worker each."),
    ] = "auto"
    jobs: Annotated[
        int | None,
        Option(
            metavar="N",
            help="Workers at a time.",
            show_default="one per GPU; on a CPU one for 8 runs",
        ),
    ] = None
    engine: Annotated[
        Literal["local", "ray"],
        Option(help="Where: worker processes of this machine, or a Ray cluster (needs ray)."),
    ] = "local"
    address: Annotated[
        str | None,
        Option(
            metavar="HOST:PORT",
            help="The Ray cluster's head, or auto: the one that runs on this machine.",
            show_default="RAY_ADDRESS",
        ),
    ] = None

    def execution(self) -> Execution:
        """What was given."""
        return Execution(**asdict(self))
